"""Trials that tests write sample by sample into a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from cogrs import sdk
from cogrs.api.common_pb2 import RewardSource, TrialParams
from cogrs.space_json import ActorSpaces, actor_spaces_to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from cogrs.store import Store

SPACES = ActorSpaces(spaces.Box(-10, 10, (2,)), spaces.Discrete(3))


def reward(tick: int, *sources: tuple[str, float, float]) -> sdk.ReceivedReward:
    """A reward of sources (sender, value, confidence)."""
    weight = sum(confidence for _, _, confidence in sources)
    mean = sum(value * confidence for _, value, confidence in sources) / weight
    kept = tuple(
        RewardSource(sender_name=sender, value=value, confidence=confidence)
        for sender, value, confidence in sources
    )
    return sdk.ReceivedReward(tick, mean, kept)


def write(
    store: Store,
    folder: Path,
    trial_id: str,
    samples: Iterable[sdk.Sample],
    actors: Mapping[str, str] | None = None,
    told: Mapping[str, ActorSpaces] | None = None,
    implementation: str = "env",
    endpoints: Mapping[str, str] | None = None,
) -> None:
    """Store a trial of actors, by name with their classes, whose spaces the environment told."""
    actors = {"player": "p"} if actors is None else actors
    params = TrialParams()
    params.environment.implementation = implementation
    made = []
    for name, actor_class in actors.items():
        actor = params.actors.add(name=name, actor_class=actor_class)
        actor.endpoint = (endpoints or {}).get(name, "grpc://agents:9000")
        made.append(sdk.Actor(name, actor_class))
    told = dict.fromkeys(actors, SPACES) if told is None else told
    trial = sdk.LoggedTrial(trial_id, tuple(made), params, actor_spaces_to_json(told))
    sink = sdk.ParquetSink(folder)
    sink.start(trial)
    for sample in samples:
        sink.sample(sample)
    sink.end()
    store.add(folder / f"{trial_id}.parquet")


def observation(tick: int, value: Any, **flags: Any) -> sdk.Observation:
    """What an actor sees at a tick."""
    return sdk.Observation(tick, value, timestamp=1000 + tick, **flags)


def played(
    count: int,
    *,
    name: str = "player",
    terminated: bool = False,
    end_reason: str = "environment: final update",
    rewards: Mapping[int, tuple[sdk.ReceivedReward, ...]] | None = None,
) -> list[sdk.Sample]:
    """A trial of `count` actions: observation k is (k, -k), action k is k % 3, its reward k."""
    made = []
    for tick in range(count + 1):
        last = tick == count
        seen = observation(
            tick, np.array([tick, -tick], np.float32), terminated=last and terminated
        )
        given = () if tick == 0 else (reward(tick, ("env", float(tick - 1), 1.0)),)
        made.append(
            sdk.Sample(
                tick,
                {name: seen},
                {} if last else {name: np.int64(tick % 3)},
                {name: (*given, *(rewards or {}).get(tick, ()))},
                user_id="ada",
                end_reason=end_reason if last else "",
            )
        )
    return made
