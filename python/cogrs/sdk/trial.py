"""What takes part in a trial is told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cogrs.api import common_pb2
from cogrs.api.any import pack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from google.protobuf.message import Message as ProtobufMessage

ENVIRONMENT = "env"
"""The name of a trial's environment, where an actor's would stand."""

NOW = -1
"""The tick with which something is delivered."""


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
    """A trial as an environment or an actor sees it when it starts.

    Attributes:
        id: The trial's id.
        actors: All actors, in the trial's order.
        name: The actor that this is told; "env" for the environment.
        implementation: Which implementation was asked for; "" left the choice.
        config: The user's configuration; None when there is none, which is not the same as empty.
    """

    id: str
    actors: tuple[Actor, ...]
    name: str = ENVIRONMENT
    implementation: str = ""
    config: bytes | None = None

    @property
    def actor_names(self) -> tuple[str, ...]:
        """The names of all actors."""
        return tuple(actor.name for actor in self.actors)


@dataclass(frozen=True, slots=True)
class Observation:
    """What an actor observes at a tick.

    Attributes:
        tick: 0 for the first observation of a trial.
        value: The decoded content.
        terminated: The state is terminal: whatever follows is of no consequence.
        truncated: The episode was cut short here.
        snapshot: It is a whole observation, and not the difference from the one before.
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
        receiver: The actor's name.
        value: How good it was.
        confidence: The weight of this valuation among others'; one of 0 counts for nothing.
        tick: The tick that it is about; `NOW` for the one with which it is delivered.
        user_data: A protobuf message for the receiver.
    """

    receiver: str
    value: float
    confidence: float = 1.0
    tick: int = NOW
    user_data: ProtobufMessage | None = None

    def to_message(self) -> common_pb2.Reward:
        """Return what goes over the wire."""
        data = None if self.user_data is None else pack(self.user_data)
        source = common_pb2.RewardSource(
            value=self.value, confidence=self.confidence, user_data=data
        )
        return common_pb2.Reward(receiver_name=self.receiver, tick_id=self.tick, sources=[source])


@dataclass(frozen=True, slots=True)
class ReceivedReward:
    """What came of all valuations of an actor for a tick.

    Attributes:
        tick: The tick that it is about; see `cogrs.sdk.step_of_reward`.
        value: Mean of the sources' values, weighted by their confidences.
        sources: The valuations, with the names of who sent them.
    """

    tick: int
    value: float
    sources: tuple[common_pb2.RewardSource, ...] = ()

    @classmethod
    def from_message(cls, message: common_pb2.Reward) -> ReceivedReward:
        """Return what came over the wire."""
        return cls(message.tick_id, message.value, tuple(message.sources))


@dataclass(frozen=True, slots=True)
class Message:
    """User data for an actor, or for the environment.

    Attributes:
        receiver: A name; `ENVIRONMENT` is the environment's.
        payload: A protobuf message, to send.
        tick: The tick that it is about; `NOW` for the one with which it is delivered.
    """

    receiver: str
    payload: ProtobufMessage
    tick: int = NOW

    def to_message(self) -> common_pb2.Message:
        """Return what goes over the wire."""
        return common_pb2.Message(
            receiver_name=self.receiver, tick_id=self.tick, payload=pack(self.payload)
        )


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """User data that somebody sent.

    Attributes:
        sender: The sender's name; "env" is the environment.
        payload: An `Any`: `cogrs.api.any.unpack(payload, message)` reads it.
        tick: The tick that it is about.
    """

    sender: str
    payload: Any
    tick: int

    @classmethod
    def from_message(cls, message: common_pb2.Message) -> ReceivedMessage:
        """Return what came over the wire."""
        return cls(message.sender_name, message.payload, message.tick_id)


@dataclass(frozen=True, slots=True)
class Final:
    """What happened to an actor since its last observation; nothing comes after it.

    Attributes:
        observation: The last observation; None when there is none, for the environment was lost.
        rewards: Rewards that came with it.
        messages: Messages that came with it.
    """

    observation: Observation | None = None
    rewards: Sequence[ReceivedReward] = field(default_factory=tuple)
    messages: Sequence[ReceivedMessage] = field(default_factory=tuple)


def actors_of(actors: Sequence[common_pb2.TrialActor]) -> tuple[Actor, ...]:
    """Return actors as they came over the wire."""
    return tuple(Actor(actor.name, actor.actor_class) for actor in actors)
