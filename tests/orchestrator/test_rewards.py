"""Rewards: how they are put together, and with which tick they arrive."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cogrs.api.common_pb2 import Reward, RewardSource
from cogrs.orchestrator.engine.errors import NotFoundError, PreconditionError
from cogrs.orchestrator.engine.message_router import RewardBuffer, SenderBacklog, aggregate
from tests.orchestrator.world import World, action, reward, values

floats = st.floats(-1e6, 1e6, width=32)
sources = st.builds(RewardSource, value=floats, confidence=st.floats(-2, 10, width=32))


@given(st.lists(sources))
def test_the_value_is_the_mean_weighted_with_confidence(given_sources: list[RewardSource]) -> None:
    value = np.array([source.value for source in given_sources], np.float64)
    trust = np.array([source.confidence for source in given_sources], np.float64).clip(0)
    expected = np.average(value, weights=trust) if trust.sum() else 0.0
    assert aggregate(given_sources) == pytest.approx(expected, rel=1e-9, abs=1e-6)


def test_examples_of_values() -> None:
    def mean(*pairs: tuple[float, float]) -> float:
        return aggregate([RewardSource(value=v, confidence=c) for v, c in pairs])

    assert mean() == 0
    assert mean((5, 0)) == 0
    assert mean((5, -1)) == 0
    assert mean((5, -1), (3, 0.5)) == 3
    assert mean((1, 1), (4, 2)) == 3
    assert mean((0, 1)) == 0
    assert mean((5, math.nan), (1, 1)) == 1


ticks_sent = st.integers(-1, 12)
events = st.one_of(
    st.tuples(st.just("add"), st.sampled_from("ab"), ticks_sent, floats),
    st.tuples(st.just("take"), st.just(""), st.just(0), st.just(0.0)),
)


@given(st.lists(events, max_size=40))
def test_the_book_agrees_with_a_naive_one(script: list[tuple[str, str, int, float]]) -> None:
    book, naive, tick = RewardBuffer(SenderBacklog()), [], 0
    for kind, receiver, sent, value in script:
        if kind == "add":
            book.add("me", reward(receiver, value, tick=sent))
            naive.append((receiver, sent, value))
            continue
        tick += 1
        _check(book, [entry for entry in naive if entry[1] <= tick], tick)
        naive = [entry for entry in naive if entry[1] > tick]
    _check(book, naive, tick + 1, everything=True)
    assert not book.take("a", 99)
    assert not book.take("b", 99)


def _check(book: RewardBuffer, due: list[tuple[str, int, float]], tick: int, **how: Any) -> None:
    for receiver in "ab":
        expected: dict[int, list[float]] = {}
        for name, sent, value in due:
            if name == receiver:
                expected.setdefault(tick if sent == -1 else sent, []).append(value)
        got = book.take(receiver, tick, **how)
        assert [each.tick_id for each in got] == sorted(expected)
        for each in got:
            assert [source.value for source in each.sources] == expected[each.tick_id]
            assert each.receiver_name == receiver
            mean = np.float32(np.mean(np.array(expected[each.tick_id], np.float64)))
            assert each.value == pytest.approx(mean, rel=1e-6, abs=1e-3)


def periods(world: World, name: str = "a0") -> list[list[tuple[int, float]]]:
    return [values(period.rewards) for period in world.agent(name).of("deliver")]


def test_rewards_of_the_environment_have_the_tick_of_their_observation() -> None:
    world = World(agents=2).run()
    for number in (1, 2):
        world.act()
        world.step(number, rewards=[reward("a0", number), reward("a1", -number)])
    assert periods(world, "a0") == [[], [(1, 1)], [(2, 2)]]
    assert periods(world, "a1") == [[], [(1, -1)], [(2, -2)]]


def test_all_sources_of_a_tick_make_one_reward_under_their_true_names() -> None:
    world = World(agents=2).run()
    lie = reward("a0", 4, confidence=3)
    lie.value, lie.sources[0].sender_name = 99, "somebody else"
    lie.sources[0].user_data.type_url = "type/mine"
    world.agent("a1").events.acted(action(rewards=[lie]))
    world.act(a0=b"x")
    world.step(1, rewards=[reward("a0", 0, confidence=1), reward("a0", 7, confidence=0)])
    (got,) = world.agent("a0").of("deliver")[1].rewards
    assert [(s.sender_name, s.value, s.confidence) for s in got.sources] == [
        ("a1", 4, 3),
        ("env", 0, 1),
        ("env", 7, 0),
    ]
    assert got.sources[0].user_data.type_url == "type/mine"
    assert (got.tick_id, got.value, got.receiver_name) == (1, 3, "a0")


def test_a_reward_of_zero_is_delivered_as_zero() -> None:
    world = World().run()
    world.act()
    world.step(1, rewards=[reward("a0", 0.0)])
    assert periods(world)[1] == [(1, 0.0)]


def test_what_actors_send_has_the_tick_with_which_it_arrives() -> None:
    world = World(agents=2).run()
    world.orchestrator.send(world.trial.id, "a1", rewards=[reward("a0", 5)])
    world.act()
    world.step(1)
    assert periods(world) == [[], [(1, 5)]]


def test_a_reward_for_an_earlier_tick_is_one_of_its_own() -> None:
    world = World(agents=1, clients=1)
    client = world.client()
    world.run()
    for number in range(1, 7):
        if number == 6:
            world.orchestrator.send(world.trial.id, "c0", rewards=[reward("a0", 2, tick=1)])
        client.act()
        world.act(a0=b"x")
        world.step(number, rewards=[reward("a0", 1)])
    got = periods(world)
    assert got[1:6] == [[(number, 1.0)] for number in range(1, 6)]
    assert got[6] == [(1, 2.0), (6, 1.0)]


def test_a_reward_for_a_later_tick_waits_and_is_merged() -> None:
    world = World().run()
    world.act()
    world.step(1, rewards=[reward("a0", 3, tick=3), reward("a0", 9, tick=99)])
    for number in (2, 3):
        world.act()
        world.step(number, rewards=[reward("a0", 1)])
    assert periods(world)[1:] == [[], [(2, 1)], [(3, 2)]]
    world.act()
    world.step(4, final_update=True)
    (final,) = world.agent().of("end")
    assert values(final.rewards) == [(99, 9)]


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        (Reward(receiver_name="a0", tick_id=-1), "no sources"),
        (reward("a0", 1, tick=-2), "tick -2"),
        (reward("nobody", 1), "'nobody'"),
        (reward("env", 1), "'env'"),
        # Clients know what these stand for, and send them to each by name.
        (reward("*", 1), "'*'"),
        (reward("agent.*", 1), "'agent.*'"),
    ],
)
def test_what_cannot_be_delivered_is_counted_and_logged(
    bad: Reward, text: str, caplog: Any
) -> None:
    world = World().run()
    world.orchestrator.send(world.trial.id, "a0", rewards=[bad, reward("a0", 1)])
    assert world.trial.counts["dropped rewards"] == 1
    (record,) = caplog.records
    assert text in record.getMessage()
    world.act()
    world.step(1)
    assert periods(world)[1] == [(1, 1)]


def test_rewards_before_the_first_tick_are_held() -> None:
    world = World(agents=1)
    world.orchestrator.send(world.trial.id, "a0", rewards=[reward("a0", 2)])
    world.run()
    assert periods(world) == [[(0, 2)]]


def test_the_senders_trial_and_name_are_checked() -> None:
    world = World().run()
    with pytest.raises(NotFoundError):
        world.orchestrator.send("no such trial", "a0")
    with pytest.raises(NotFoundError, match="'env'"):
        world.orchestrator.send(world.trial.id, "env")
    world.orchestrator.terminate(world.trial.id)
    world.drain()
    with pytest.raises(PreconditionError, match="over"):
        world.orchestrator.send(world.trial.id, "a0")
