"""Trials of tests, as orchestrators log them, and as readers see them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from cogrs import sdk
from cogrs.api.common_pb2 import ActorParams, EnvironmentParams, Reward, RewardSource, TrialParams
from cogrs.api.datalog_pb2 import DatalogSample
from cogrs.sdk.codecs import ArrayCodec
from cogrs.store.journal import OpenTrial
from cogrs.store.record import TrialRecord, moment_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from cogrs.store import Store

CODEC = ArrayCodec()
DONE = "environment: final update"


def params(*actors: tuple[str, str], **fields: Any) -> TrialParams:
    """Return parameters of these actors, names and classes; those of class "person" join."""
    made = [
        ActorParams(
            name=name,
            actor_class=kind,
            endpoint="client" if kind == "person" else "grpc://agents:1",
        )
        for name, kind in actors or (("a", "player"),)
    ]
    return TrialParams(
        environment=EnvironmentParams(endpoint="grpc://env:1"), actors=made, **fields
    )


def reward(
    tick: int, value: float = 1.0, actor: str = "a", sender: str = "env", confidence: float = 1.0
) -> Reward:
    """Return a reward of one source."""
    source = RewardSource(sender_name=sender, value=value, confidence=confidence)
    return Reward(receiver_name=actor, tick_id=tick, value=value, sources=[source])


def sample(
    tick: int,
    actors: int = 1,
    *,
    last: str = "",
    rewards: list[Reward] | None = None,
    user: str = "ann",
) -> DatalogSample:
    """Return what is logged at a tick: an observation, actions, and the environment's reward."""
    made = DatalogSample(user_id=user, end_reason=last)
    told = made.observations
    told.tick_id, told.timestamp = tick, 1_700_000_000_000_000_000 + tick * 1_000_000
    for place in range(actors):
        value = np.array([tick, place], np.float32)
        told.observations.add(content=CODEC.encode(value, terminated=bool(last)), snapshot=True)
        told.actors_map.append(place)
        made.actions.add(content=b"" if last else CODEC.encode(np.int64(tick % 2)))
    made.rewards.extend([reward(tick)] if rewards is None and tick else rewards or [])
    return made


def samples(ticks: int, actors: int = 1, **last: Any) -> list[DatalogSample]:
    """Return the samples of a whole trial."""
    return [
        sample(tick, actors, **({"last": DONE, **last} if tick == ticks else {}))
        for tick in range(ticks + 1)
    ]


def serialized(made: Iterable[DatalogSample]) -> list[bytes]:
    """Return samples as a store keeps them."""
    return [each.SerializeToString() for each in made]


def open_trial(trial_id: str = "", given: TrialParams | None = None, spaces: str = "") -> OpenTrial:
    """Return a trial without samples."""
    return OpenTrial(trial_id or str(uuid4()), given or params(), spaces, time.time())


def record(number: int, **changes: Any) -> TrialRecord:
    """Return a row without a file."""
    fields: dict[str, Any] = {
        "trial_id": f"trial-{number:06}",
        "ticks": number,
        "returns": {"a": float(number)},
        "classes": {"a": "player"},
        "end_reason": DONE,
        "user": "ann",
        "partial": False,
        "people": False,
        "started": moment_of(1_700_000_000 + number),
        "ended": moment_of(1_700_000_001 + number),
        "file": f"trials/x/000000/trial-{number:06}.parquet",
        "size": 1,
        "checksum": 2**32 - 1,
        "params": "{}",
    }
    return TrialRecord(**{**fields, **changes})


def log_file(folder: Path, trial_id: str = "t", ticks: int = 3, spaces: str = "") -> Path:
    """Write a file of a data log, and return its path."""
    given = params()
    actors = (sdk.Actor("a", "player"),)
    sink = sdk.ParquetSink(folder)
    sink.start(sdk.LoggedTrial(trial_id, actors, given, spaces))
    for tick in range(ticks + 1):
        source = RewardSource(sender_name="env", value=1, confidence=1)
        got = (sdk.ReceivedReward(tick, 1.0, (source,)),) if tick else ()
        seen = sdk.Observation(tick, np.full(2, tick, np.float32), timestamp=10**18 + tick)
        actions = {"a": np.int64(0)} if tick < ticks else {}
        reason = DONE if tick == ticks else ""
        sink.sample(sdk.Sample(tick, {"a": seen}, actions, {"a": got}, {}, "ann", reason))
    sink.end()
    return folder / f"{trial_id}.parquet"


def stored(store: Store, folder: Path, *trial_ids: str, ticks: int = 3) -> list[TrialRecord]:
    """Store trials, by way of files of a data log."""
    return [store.add(log_file(folder, each, ticks)) for each in trial_ids]


def until(condition: Callable[[], Any], seconds: float = 30.0) -> Any:
    """Wait until something holds, and return it."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not come in time"
        time.sleep(0.02)
    return found
