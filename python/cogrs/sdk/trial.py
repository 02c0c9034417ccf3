"""The data that environments and actors exchange: observations, rewards, messages, ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from google.protobuf.message import Message as ProtobufMessage

    from cogrs.api.common_pb2 import RewardSource

ENVIRONMENT = "env"
"""The name of a trial's environment, where an actor's would stand."""

NOW = -1
"""Stands for the tick with which a reward or message is delivered."""


class NoValue(Enum):
    """The type of `NO_VALUE`, which stands where an action has no value."""

    NO_VALUE = 0


NO_VALUE = NoValue.NO_VALUE


@dataclass(frozen=True, slots=True)
class Actor:
    """One of a trial's actors.

    Attributes:
        name: Its name in the trial.
        actor_class: Its class.
    """

    name: str
    actor_class: str


@dataclass(frozen=True, slots=True)
class Trial:
    """A trial, as it is told to an environment or an actor at its start.

    Attributes:
        id: The trial's id.
        actors: All actors, in the trial's order.
        name: Name of the actor to which this is told; "env" for the environment.
        implementation: Name of the implementation that was asked for; "" for any.
        config: The user's configuration, which may be empty; None where it is absent.
    """

    id: str
    actors: tuple[Actor, ...]
    name: str = ENVIRONMENT
    implementation: str = ""
    config: bytes | None = None

    @property
    def actor_names(self) -> tuple[str, ...]:
        """The names of all actors, in the trial's order."""
        return tuple(actor.name for actor in self.actors)

    @property
    def actor(self) -> Actor:
        """The actor to which this is told.

        Raises:
            ValueError: `name` is not an actor of this trial.
        """
        for actor in self.actors:
            if actor.name == self.name:
                return actor
        expected = ", ".join(self.actor_names)
        raise ValueError(f"actor: expected one of {expected}; got {self.name!r}")


@dataclass(frozen=True, slots=True)
class Observation:
    """What an actor observes at a tick.

    Attributes:
        tick: 0 for the first observation of a trial.
        value: The decoded content: with `ArrayCodec` a read-only array, of the dtype and shape
            that the environment gave it.
        terminated: Whether the state is terminal, so that nothing that follows matters.
        truncated: Whether the episode was truncated here.
        snapshot: Whether this is a whole observation, not a difference from the one before.
        timestamp: Nanoseconds since the Unix epoch.
    """

    tick: int
    value: Any
    terminated: bool = False
    truncated: bool = False
    snapshot: bool = True
    timestamp: int = 0


@dataclass(frozen=True, slots=True)
class Reward:
    """A valuation that is sent to an actor.

    Attributes:
        receiver: The actor's name; "*" for all actors, "class.*" for all actors of a class.
        value: How good it was; float32 on the wire.
        confidence: The weight of this valuation among others; with 0 it does not count.
        tick: The tick that it is about: the reward for the action that answers observation k is of
            tick k + 1. `NOW` for the tick with which it is delivered. A reward for a past tick is
            delivered separately, one for a future tick waits for it.
        user_data: A protobuf message for the receiver.
    """

    receiver: str
    value: float
    confidence: float = 1.0
    tick: int = NOW
    user_data: ProtobufMessage | None = None


@dataclass(frozen=True, slots=True)
class ReceivedReward:
    """The mean of an actor's valuations for a tick.

    Attributes:
        tick: The tick that it is about; see `cogrs.sdk.step_of_reward`.
        value: Mean of the sources' values, weighted by their confidences.
        sources: The valuations, with their senders' names.
    """

    tick: int
    value: float
    sources: tuple[RewardSource, ...] = ()


@dataclass(frozen=True, slots=True)
class Message:
    """User data for an actor, or for the environment.

    Attributes:
        receiver: A name; `ENVIRONMENT` is the environment's. "*" stands for all actors, "class.*"
            for all actors of a class.
        payload: A protobuf message, to send.
        tick: The tick that it is about; `NOW` for the one with which it is delivered.
    """

    receiver: str
    payload: ProtobufMessage
    tick: int = NOW


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """User data as its receiver gets it.

    Attributes:
        sender: The sender's name; "env" is the environment.
        payload: An `Any`: `cogrs.api.any.unpack(payload, message)` reads it.
        tick: The tick that it is about.
    """

    sender: str
    payload: Any
    tick: int


@dataclass(frozen=True, slots=True)
class Final:
    """The last event of an actor: everything since its last observation.

    Its rewards and messages are given to no other method.

    Attributes:
        observation: The last observation; None if the environment was lost, or gave none at the
            end.
        rewards: Rewards that came with it.
        messages: Messages that came with it.
        reason: Why the trial ended, as in the orchestrator's log; "" from orchestrators that do not
            give it.
    """

    observation: Observation | None = None
    rewards: Sequence[ReceivedReward] = field(default_factory=tuple)
    messages: Sequence[ReceivedMessage] = field(default_factory=tuple)
    reason: str = ""


def step_of_reward(tick: int) -> int | None:
    """Return the step that a reward of a tick is about.

    An actor observes at tick k and acts; the reward for that action arrives with the observation of
    tick k + 1 and has that tick. In replay a reward lies with its action. So the step is the tick
    before the reward's, for all senders and however late it comes.

    Args:
        tick: The reward's tick, >= 0.

    Returns:
        The step, counted from 0; None for tick 0, before which no actor has acted.
    """
    return tick - 1 if tick > 0 else None
