"""Rewards that come after a trial has ended: the trial's file is written anew."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from cogrs.api.common_pb2 import RewardSource
from cogrs.log_schema import metadata_of
from cogrs.sdk import Reward, read_log
from cogrs.sdk.trial import ReceivedReward
from cogrs.store.log_import import tables_of
from cogrs.store.session import SUFFIX
from cogrs.store.summary import TrialSummary
from cogrs.store.trial_file import check_unchanged, write_tables
from cogrs.suggest import suggestion
from cogrs.validation import check_integer, check_number, check_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from cogrs.sdk import Sample
    from cogrs.store.index import TrialIndex
    from cogrs.store.record import TrialRecord


class LateReward(NamedTuple):
    """A reward, as `Store.add_reward` is given it."""

    actor: str
    tick: int
    value: float
    sender: str
    confidence: float


def add_late_reward(
    folder: Path, index: TrialIndex, trial_id: str, reward: LateReward
) -> TrialRecord:
    """Add a reward to a stored trial; see `Store.add_reward`."""
    with index.transaction():  # one at a time: each writes the file of the one before anew
        record = index.find(trial_id)
        _check(reward, record)
        old = folder / record.file
        check_unchanged(old, record)
        new = _next_version(old, trial_id)
        trial, samples = read_log(old)
        summary = TrialSummary(trial.id, trial.params)
        metadata = metadata_of(trial.id, trial.params.SerializeToString(), trial.spaces_json)
        changed = _with_reward(samples, reward)
        size, checksum = write_tables(new, metadata, tables_of(trial, changed, summary))
        try:
            stored = replace(
                record,
                returns=summary.returns,
                people=summary.people,
                file=str(new.relative_to(folder)),
                size=size,
                checksum=checksum,
            )
            index.replace(stored)
        except BaseException:
            with suppress(OSError):
                new.unlink()
            raise
    with suppress(FileNotFoundError):
        old.unlink()
    return stored


def _check(reward: LateReward, record: TrialRecord) -> None:
    check_text("actor", reward.actor)
    if reward.actor not in record.classes:
        hint = suggestion(reward.actor, record.classes) or f"it has {', '.join(record.classes)}"
        raise ValueError(f"actor: no actor {reward.actor!r} in trial {record.trial_id}; {hint}")
    check_integer("tick", reward.tick, 0, record.ticks)
    check_number("value", reward.value)
    check_text("sender", reward.sender)
    check_number("confidence", reward.confidence)
    if reward.confidence <= 0:
        raise ValueError(f"confidence: expected a number > 0, got {reward.confidence}")
    Reward(reward.actor, reward.value, reward.confidence, reward.tick)


def _next_version(old: Path, trial_id: str) -> Path:
    """Return the name of a file for the next version: ID~1.parquet, ID~2.parquet, ..."""
    number = old.name.removesuffix(SUFFIX).removeprefix(trial_id).lstrip("~")
    return old.with_name(f"{trial_id}~{int(number or 0) + 1}{SUFFIX}")


def _with_reward(samples: Iterable[Sample], reward: LateReward) -> Iterator[Sample]:
    """Yield samples, the last one with the reward."""
    source = RewardSource(
        sender_name=reward.sender, value=reward.value, confidence=reward.confidence
    )
    late = ReceivedReward(reward.tick, source.value, (source,))
    last: Sample | None = None
    for sample in samples:
        if last is not None:
            yield last
        last = sample
    if last is not None:
        rewards = {**last.rewards}
        rewards[reward.actor] = (*rewards.get(reward.actor, ()), late)
        yield replace(last, rewards=rewards)
