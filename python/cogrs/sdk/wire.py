"""Conversions between the SDK's classes and the messages of the wire."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from cogrs.api import common_pb2
from cogrs.api.any import pack
from cogrs.sdk.codecs import decoded, encoded
from cogrs.sdk.trial import (
    NO_VALUE,
    NOW,
    Actor,
    Final,
    Message,
    Observation,
    ReceivedMessage,
    ReceivedReward,
    Reward,
    Trial,
)
from cogrs.validation import check_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cogrs.api.agent_pb2 import AgentStartRequest
    from cogrs.api.environment_pb2 import EnvStartRequest
    from cogrs.sdk.agent import Action
    from cogrs.sdk.codecs import Codec

Item = TypeVar("Item")

_NOTHING = ()
"""The rewards and messages of most updates and actions."""

_LARGEST = 3.4028234663852886e38
"""Of float32."""


def actors_of(
    actors: Iterable[common_pb2.TrialActor] | Iterable[common_pb2.ActorParams],
) -> tuple[Actor, ...]:
    """Return actors as they came over the wire."""
    return tuple(Actor(actor.name, actor.actor_class) for actor in actors)


def started_trial(trial_id: str, name: str, request: EnvStartRequest | AgentStartRequest) -> Trial:
    """Return the trial of a request to start an environment or an actor."""
    config = request.config.content if request.HasField("config") else None
    return Trial(trial_id, actors_of(request.actors_in_trial), name, request.impl_name, config)


def action_content(action: Action, codec: Codec, name: str) -> bytes:
    """Return the bytes of an action, b"" without a value; a TypeError if the codec refuses it."""
    if action.value is NO_VALUE:
        return b""
    return encoded(codec, action.value, f"action of {name!r}")


def rewards_of(
    rewards: Mapping[str, float] | Sequence[Reward], actors: Sequence[Actor]
) -> list[common_pb2.Reward]:
    """Return rewards as they go over the wire, one for each receiver.

    Raises:
        TypeError: An item, a value or a tick has the wrong type.
        ValueError: A value or a confidence is not finite in float32, or a tick is out of range.
    """
    if rewards is _NOTHING:
        return []
    if isinstance(rewards, Mapping):
        rewards = [Reward(name, value) for name, value in rewards.items()]
    return [
        common_pb2.Reward(
            receiver_name=name,
            tick_id=_tick(f"reward of {reward.receiver!r}", reward.tick),
            sources=[_source(reward)],
        )
        for reward in _items("rewards", rewards, Reward)
        for name in receivers(reward.receiver, actors)
    ]


def _items(what: str, items: Any, kind: type[Item]) -> Iterator[Item]:
    if not isinstance(items, Iterable):
        raise TypeError(
            f"{what}: expected an iterable of {kind.__name__}, got {type(items).__name__}"
        )
    for each in items:
        if not isinstance(each, kind):
            raise TypeError(f"{what}: expected {kind.__name__}, got {type(each).__name__}")
        yield each


def _tick(what: str, tick: object) -> int:
    expected = f"{what}: tick: expected an integer >= {NOW} in 32 bits"
    if isinstance(tick, bool) or not hasattr(tick, "__index__"):
        raise TypeError(f"{expected}, got {type(tick).__name__}")
    number = operator.index(tick)
    if not NOW <= number < 2**31:
        raise ValueError(f"{expected}, got {number}")
    return number


def _check_number(what: str, number: float) -> None:
    try:
        fits = -_LARGEST <= number <= _LARGEST
    except (TypeError, ValueError) as error:  # of arrays of several numbers
        raise TypeError(f"{what}: expected a number, got {type(number).__name__}") from error
    if not fits:
        raise ValueError(f"{what}: expected a finite float32, got {number}")


def _source(reward: Reward) -> common_pb2.RewardSource:
    what = f"reward of {reward.receiver!r}"
    _check_number(what, reward.value)
    _check_number(f"{what}: confidence", reward.confidence)
    data = None if reward.user_data is None else pack(reward.user_data)
    return common_pb2.RewardSource(value=reward.value, confidence=reward.confidence, user_data=data)


def messages_of(messages: Iterable[Message], actors: Sequence[Actor]) -> list[common_pb2.Message]:
    """Return messages as they go over the wire, for each receiver; errors as of `rewards_of`."""
    if messages is _NOTHING:
        return []
    return [
        common_pb2.Message(
            receiver_name=name,
            tick_id=_tick(f"message for {message.receiver!r}", message.tick),
            payload=pack(message.payload),
        )
        for message in _items("messages", messages, Message)
        for name in receivers(message.receiver, actors)
    ]


def receivers(receiver: str, actors: Sequence[Actor]) -> list[str]:
    """Return the names that a receiver stands for: "*" is all actors, "class.*" a class."""
    check_text("receiver", receiver)
    names = [actor.name for actor in actors]
    if receiver in names:
        return [receiver]
    if receiver == "*":
        return names
    if receiver.endswith(".*"):
        return [actor.name for actor in actors if actor.actor_class == receiver[:-2]]
    return [receiver]


def expanded(what: str, given: Iterable[str], actors: Sequence[Actor]) -> list[str]:
    """Return the names of the actors that are meant by names, "class.*" or "*".

    Raises:
        TypeError: `given` is a string, or not several strings.
        ValueError: A name is that of no actor.
    """
    if isinstance(given, str):
        raise TypeError(f"{what}: expected a sequence of names, got {given!r}")
    names = [actor.name for actor in actors]
    found = [name for each in given for name in receivers(each, actors)]
    for name in found:
        if name not in names:
            known = ", ".join(names)
            raise ValueError(f"{what}: expected actors of this trial, {known}; got {name!r}")
    return found


def received_reward(message: common_pb2.Reward) -> ReceivedReward:
    """Return a reward that came over the wire."""
    return ReceivedReward(message.tick_id, message.value, tuple(message.sources))


def received_message(message: common_pb2.Message) -> ReceivedMessage:
    """Return a message that came over the wire."""
    return ReceivedMessage(message.sender_name, message.payload, message.tick_id)


def received_observation(message: common_pb2.Observation, codec: Codec, name: str) -> Observation:
    """Return an observation off the wire; a codec's ValueError names the actor and the tick."""
    what = f"observation of {name!r} at tick {message.tick_id}"
    value, terminated, truncated = decoded(codec, message.data.content, what)
    return Observation(
        message.tick_id, value, terminated, truncated, message.data.snapshot, message.timestamp
    )


def received_final(data: common_pb2.ActorPeriodData, codec: Codec, name: str) -> Final:
    """Return the final data of an actor off the wire; errors as of `received_observation`."""
    seen = data.observations
    return Final(
        received_observation(seen[-1], codec, name) if seen else None,
        tuple(map(received_reward, data.rewards)),
        tuple(map(received_message, data.messages)),
        data.end_reason,
    )
