"""Rewards and messages on the wire."""

from __future__ import annotations

import math
from typing import Any

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
def test_receivers_follow_names_and_wildcards(receiver: str, names: list[str]) -> None:
    assert receivers(receiver, ACTORS) == names


def test_actor_named_star_receives_its_own_messages() -> None:
    assert receivers("*", (*ACTORS, Actor("*", "red"))) == ["*"]


def test_rewards_keep_value_confidence_tick_and_data() -> None:
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


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"a": None}, TypeError, "reward of 'a': expected a number, got NoneType"),
        ({"a": "1"}, TypeError, "reward of 'a': expected a number, got str"),
        ({"a": [1.0]}, TypeError, "reward of 'a': expected a number, got list"),
        ({"a": float("nan")}, ValueError, "reward of 'a': expected a finite float32, got nan"),
        ({"a": 1e39}, ValueError, "reward of 'a': expected a finite float32, got 1e"),
        ([Reward("a", 1.0, math.inf)], ValueError, "'a': confidence: expected a finite float32"),
        ([Reward("a", 1.0, math.nan)], ValueError, "'a': confidence: expected a finite float32"),
        ([Reward("a", 1.0, None)], TypeError, "'a': confidence: expected a number, got NoneType"),
        ([Reward("a", 1.0, tick=2**31)], ValueError, "'a': tick: expected an integer"),
        ([Reward("a", 1.0, tick=-2)], ValueError, "'a': tick: expected an integer >= -1"),
        ([Reward("a", 1.0, tick=1.5)], TypeError, "'a': tick: expected an integer"),
        ({5: 1.0}, TypeError, "receiver: expected a string, got int"),
        ([1.0], TypeError, "rewards: expected Reward, got float"),
        (Reward("a", 1.0), TypeError, "rewards: expected an iterable of Reward, got Reward"),
        ([Reward("a", 1.0, user_data=5)], TypeError, "expected a protobuf message, got int"),
    ],
)
def test_wrong_reward_is_refused(given: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        rewards_of(given, [Actor("a", "p")])


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ([5], "messages: expected Message, got int"),
        (5, "messages: expected an iterable of Message, got int"),
        ([Message("a", 5)], "expected a protobuf message, got int"),
        ([Message("a", TrialActor(), None)], "'a': tick: expected an integer"),
    ],
)
def test_wrong_message_is_refused(given: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        messages_of(given, [Actor("a", "p")])
