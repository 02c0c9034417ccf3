"""What trials carry besides observations and actions, to and from the wire's messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cogrs.api import common_pb2
from cogrs.api.any import pack
from cogrs.sdk.trial import Actor, ReceivedMessage, ReceivedReward, Reward

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cogrs.sdk.trial import Message


def actors_of(actors: Iterable[common_pb2.TrialActor]) -> tuple[Actor, ...]:
    """Return actors as they came over the wire."""
    return tuple(Actor(actor.name, actor.actor_class) for actor in actors)


def rewards_of(
    rewards: Mapping[str, float] | Sequence[Reward], actors: Sequence[Actor]
) -> list[common_pb2.Reward]:
    """Return rewards as they go over the wire, one for each receiver."""
    if isinstance(rewards, Mapping):
        rewards = [Reward(name, value) for name, value in rewards.items()]
    return [
        common_pb2.Reward(receiver_name=name, tick_id=reward.tick, sources=[_source(reward)])
        for reward in rewards
        for name in receivers(reward.receiver, actors)
    ]


def _source(reward: Reward) -> common_pb2.RewardSource:
    data = None if reward.user_data is None else pack(reward.user_data)
    return common_pb2.RewardSource(value=reward.value, confidence=reward.confidence, user_data=data)


def messages_of(messages: Iterable[Message], actors: Sequence[Actor]) -> list[common_pb2.Message]:
    """Return messages as they go over the wire, one for each receiver."""
    return [
        common_pb2.Message(receiver_name=name, tick_id=message.tick, payload=pack(message.payload))
        for message in messages
        for name in receivers(message.receiver, actors)
    ]


def receivers(receiver: str, actors: Sequence[Actor]) -> list[str]:
    """Return whom a receiver stands for: "*" for all actors, "class.*" for those of a class."""
    names = [actor.name for actor in actors]
    if receiver in names:
        return [receiver]
    if receiver == "*":
        return names
    if receiver.endswith(".*"):
        return [actor.name for actor in actors if actor.actor_class == receiver[:-2]]
    return [receiver]


def received_reward(message: common_pb2.Reward) -> ReceivedReward:
    """Return a reward that came over the wire."""
    return ReceivedReward(message.tick_id, message.value, tuple(message.sources))


def received_message(message: common_pb2.Message) -> ReceivedMessage:
    """Return a message that came over the wire."""
    return ReceivedMessage(message.sender_name, message.payload, message.tick_id)
