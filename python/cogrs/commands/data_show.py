"""`cogrs data show`."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from cogrs.commands.data_options import add_verb, print_json, row_of
from cogrs.commands.parser import DONE
from cogrs.escape import escaped

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping, Sequence

    from cogrs.commands.parser import Parser
    from cogrs.sdk import LoggedTrial, Sample
    from cogrs.sdk.trial import ReceivedReward
    from cogrs.stop_signal import StopSignal
    from cogrs.store import Store, TrialRecord

    Rewards = Mapping[tuple[str, int | None], Sequence[ReceivedReward]]

_SHOWN = 6
"""Numbers of an observation or an action that are shown."""


def add_show(verbs: argparse._SubParsersAction[Parser]) -> None:
    """Add `cogrs data show`."""
    show = add_verb(
        verbs, "show", "show a trial: its parameters, and each step of each actor", _show
    )
    show.add_argument("trial", metavar="ID", help="id of a trial")
    show.add_argument("--json", action="store_true", help="print JSON, one object per line")


def _show(given: argparse.Namespace, store: Store, stop: StopSignal) -> int:
    record = store.trial(given.trial)
    trial, samples = store.read(given.trial)
    kept = list(samples)
    rewards = rewards_by_step(kept)
    if given.json:
        import json

        spaces = json.loads(trial.spaces_json) if trial.spaces_json else None
        params = json.loads(record.params)
        print_json({**record.as_json(), "params": params, "spaces": spaces})
    else:
        _print_head(record, trial)
    for sample in kept:
        if stop.is_set():
            break
        for actor in record.classes:
            _print_step(sample, actor, rewards, as_json=given.json)
    if not given.json:
        lost = [each for (_, step), some in rewards.items() if step is None for each in some]
        if lost:
            print(f"{len(lost)} rewards belong to no step: they have tick 0")
        print(escaped(f"end       {record.end_reason or 'not known: the trial is partial'}"))
    return DONE


def rewards_by_step(samples: Iterable[Sample]) -> Rewards:
    """Return the rewards of each actor and step; step None has those for tick 0."""
    from cogrs.sdk import step_of_reward

    found: dict[tuple[str, int | None], list[ReceivedReward]] = defaultdict(list)
    for sample in samples:
        for actor, rewards in sample.rewards.items():
            for reward in rewards:
                found[actor, step_of_reward(reward.tick)].append(reward)
    return found


def _print_head(record: TrialRecord, trial: LoggedTrial) -> None:
    print(row_of(record))
    print(escaped(f"user      {record.user or '-'}"))
    environment = trial.params.environment
    print(
        escaped(f"plays     {environment.implementation or '-'} at {environment.endpoint or '-'}")
    )
    for actor in trial.params.actors:
        where = f"{actor.implementation or '-'} at {actor.endpoint or '-'}"
        print(escaped(f"actor     {actor.name} ({actor.actor_class}): {where}"))
    print(escaped(f"file      {record.file}"))


def _print_step(sample: Sample, actor: str, rewards: Rewards, *, as_json: bool) -> None:
    seen = sample.observations.get(actor)
    if sample.tick is None or seen is None:
        return
    given = rewards.get((actor, sample.tick), ())
    action = sample.actions.get(actor)
    total = sum(each.value for each in given)
    if as_json:
        sources = [
            {
                "tick": each.tick,
                "value": each.value,
                "sources": [
                    {"sender": one.sender_name, "value": one.value, "confidence": one.confidence}
                    for one in each.sources
                ],
            }
            for each in given
        ]
        step = {"step": sample.tick, "actor": actor, "observation": _plain(seen.value)}
        step |= {"action": _plain(action), "reward": total, "rewards": sources}
        print_json(step | {"terminated": seen.terminated, "truncated": seen.truncated})
        return
    senders = sorted({one.sender_name for each in given for one in each.sources} - {"env"})
    by = f" by {', '.join(senders)}" if senders else ""
    flags = " terminated" * seen.terminated + " truncated" * seen.truncated
    told = f"reward {total:.6g}{by}" if given else ""
    line = f"step {sample.tick:5}  {actor}  {_text(seen.value)} -> {_text(action)}  {told}{flags}"
    print(escaped(line.rstrip()))


def _plain(value: Any) -> Any:
    """Return a value as JSON has it; bytes as their hexadecimal digits."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, bytes):
        return value.hex()
    return value.tolist() if hasattr(value, "tolist") else value


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_text(each)}" for name, each in value.items()) + "}"
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if value.ndim == 0:
        return f"{value[()]:.4g}" if value.dtype.kind == "f" else str(value[()])
    flat = value.reshape(-1)[:_SHOWN].tolist()
    numbers = " ".join(f"{each:.4g}" if isinstance(each, float) else str(each) for each in flat)
    if value.size <= _SHOWN:
        return f"[{numbers}]"
    shape = "x".join(map(str, value.shape))
    return f"[{numbers} ...] {value.dtype} {shape}"
