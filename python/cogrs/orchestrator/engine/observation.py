"""Observation sets: checked, and split into the observations of the actors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cogrs.api.common_pb2 import ActorPeriodData, Observation, ObservationData

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cogrs.api.environment_pb2 import EnvActionReply, EnvStartReply, ObservationSet


def find_fault(observations: ObservationSet, actors: int) -> str | None:
    """Return what is wrong with a set for a number of actors, or None."""
    mapped, there = list(observations.actors_map), len(observations.observations)
    if len(mapped) != actors:
        return f"actors_map: expected {actors} entries, got {len(mapped)}"
    if mapped and (min(mapped) < 0 or max(mapped) >= there):
        wrong = next(index for index in mapped if not 0 <= index < there)
        return f"actors_map: expected indexes of {there} observations, got {wrong}"
    return None


def find_fault_of_start(reply: EnvStartReply, actors: int) -> str | None:
    """Return what is wrong with the reply of the start, or None."""
    if not reply.HasField("observation_set"):
        return "no observation set"
    return find_fault(reply.observation_set, actors)


def find_fault_of_step(reply: EnvActionReply, actors: int) -> str | None:
    """Return what is wrong with a reply that is not the last, or None."""
    if not reply.HasField("observation_set"):
        return "no observation set, and no final update"
    return find_fault(reply.observation_set, actors)


def split(observations: ObservationSet) -> list[ObservationData]:
    """Return the observation of each actor, in the order of actors."""
    shown = observations.observations
    return [shown[index] for index in observations.actors_map]


def fill(
    observation: Observation, tick_id: int, timestamp: int, data: ObservationData
) -> Observation:
    """Fill and return an empty observation; cheaper than the constructor with these fields."""
    observation.tick_id = tick_id
    observation.timestamp = timestamp
    observation.data.CopyFrom(data)
    return observation


def add_observations(periods: Iterable[ActorPeriodData], observations: ObservationSet) -> None:
    """Add to the data of each actor, in the order of actors, its observation."""
    tick_id, timestamp = observations.tick_id, observations.timestamp
    for period, data in zip(periods, split(observations), strict=True):
        fill(period.observations.add(), tick_id, timestamp, data)


def for_actor(observations: ObservationSet, index: int) -> Observation:
    """Return the observation of the actor with this index."""
    data = observations.observations[observations.actors_map[index]]
    return fill(Observation(), observations.tick_id, observations.timestamp, data)
