"""Rewards and messages on the wire."""

from __future__ import annotations

import pytest

from cogrs.api.any import unpack
from cogrs.api.common_pb2 import TrialActor
from cogrs.sdk import Actor, Message, Reward
from cogrs.sdk.wire import messages_of, receivers, rewards_of

ACTORS = (Actor("a", "red"), Actor("b", "blue"), Actor("c", "red"), Actor("red.x", "blue"))


@pytest.mark.parametrize(
    ("receiver", "names"),
    [
        ("b", ["b"]),
        ("env", ["env"]),
        ("nobody", ["nobody"]),
        ("*", ["a", "b", "c", "red.x"]),
        ("red.*", ["a", "c"]),
        ("red.x", ["red.x"]),
        ("green.*", []),
    ],
)
def test_receivers(receiver: str, names: list[str]) -> None:
    assert receivers(receiver, ACTORS) == names


def test_an_actor_may_be_called_like_all() -> None:
    assert receivers("*", (*ACTORS, Actor("*", "red"))) == ["*"]


def test_rewards() -> None:
    data = TrialActor(name="why")
    message, zero = rewards_of([Reward("a", 2.0, 0.5, 7, data), Reward("b", 0.0)], ACTORS)
    assert (message.receiver_name, message.tick_id) == ("a", 7)
    (source,) = message.sources
    assert (source.value, source.confidence) == (2.0, 0.5)
    back = TrialActor()
    assert unpack(source.user_data, back)
    assert back == data
    assert zero.tick_id == -1
    assert [(each.value, each.confidence) for each in zero.sources] == [(0.0, 1.0)]
    assert not zero.sources[0].HasField("user_data")


def test_messages_have_one_receiver_each() -> None:
    sent = messages_of([Message("red.*", TrialActor(name="x"), 3)], ACTORS)
    assert [(each.receiver_name, each.tick_id) for each in sent] == [("a", 3), ("c", 3)]
