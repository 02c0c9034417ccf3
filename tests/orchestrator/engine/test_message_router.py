"""Rewards and messages: how they are combined, with which tick they arrive, how many may wait."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cogrs.api.common_pb2 import Reward, RewardSource
from cogrs.api.environment_pb2 import EnvActionReply
from cogrs.orchestrator import Settings
from cogrs.orchestrator.engine.errors import ExhaustedError, NotFoundError, PreconditionError
from cogrs.orchestrator.engine.message_router import RewardBuffer, SenderBacklogs, aggregate
from tests.orchestrator.world import World, action, message, reward, texts, values

floats = st.floats(-1e6, 1e6, width=32)
sources = st.builds(RewardSource, value=floats, confidence=st.floats(-2, 10, width=32))


@given(st.lists(sources))
def test_reward_value_is_the_mean_weighted_with_confidence(
    given_sources: list[RewardSource],
) -> None:
    value = np.array([source.value for source in given_sources], np.float64)
    trust = np.array([source.confidence for source in given_sources], np.float64).clip(0)
    expected = np.average(value, weights=trust) if trust.sum() else 0.0
    assert aggregate(given_sources) == pytest.approx(expected, rel=1e-9, abs=1e-6)


def test_reward_values_of_examples() -> None:
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
def test_reward_buffer_agrees_with_a_naive_model(script: list[tuple[str, str, int, float]]) -> None:
    book, naive, tick = RewardBuffer(SenderBacklogs()), [], 0
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


def test_rewards_of_the_environment_have_the_tick_of_the_observation() -> None:
    world = World(agents=2).run()
    for number in (1, 2):
        world.act()
        world.step(number, rewards=[reward("a0", number), reward("a1", -number)])
    assert periods(world, "a0") == [[], [(1, 1)], [(2, 2)]]
    assert periods(world, "a1") == [[], [(1, -1)], [(2, -2)]]


def test_sources_of_one_tick_make_one_reward_with_the_names_of_the_senders() -> None:
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


def test_reward_of_zero_is_delivered_as_zero() -> None:
    world = World().run()
    world.act()
    world.step(1, rewards=[reward("a0", 0.0)])
    assert periods(world)[1] == [(1, 0.0)]


def test_rewards_of_actors_have_the_tick_of_arrival() -> None:
    world = World(agents=2).run()
    world.orchestrator.send(world.trial.id, "a1", rewards=[reward("a0", 5)])
    world.act()
    world.step(1)
    assert periods(world) == [[], [(1, 5)]]


def test_reward_for_an_earlier_tick_is_not_merged() -> None:
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


def test_reward_for_a_later_tick_waits_and_is_merged() -> None:
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
def test_undeliverable_reward_is_counted_and_logged(bad: Reward, text: str, caplog: Any) -> None:
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


def test_send_of_an_unknown_trial_or_actor_raises() -> None:
    world = World().run()
    with pytest.raises(NotFoundError):
        world.orchestrator.send("no such trial", "a0")
    with pytest.raises(NotFoundError, match="'env'"):
        world.orchestrator.send(world.trial.id, "env")
    world.orchestrator.terminate(world.trial.id)
    world.drain()
    with pytest.raises(PreconditionError, match="over"):
        world.orchestrator.send(world.trial.id, "a0")


ODD = (math.nan, math.inf, -math.inf)
any_float = st.floats(width=32)
odd_sources = st.builds(RewardSource, value=any_float, confidence=any_float)


@given(st.lists(odd_sources))
def test_reward_value_leaves_out_sources_that_are_not_finite(told: list[RewardSource]) -> None:
    finite = [each for each in told if math.isfinite(each.value) and math.isfinite(each.confidence)]
    assert math.isfinite(aggregate(told))
    assert aggregate(told) == aggregate(finite)


@pytest.mark.parametrize("odd", [{"value": v} for v in ODD] + [{"confidence": c} for c in ODD])
def test_rewards_that_are_not_finite_are_passed_on_counted_and_logged_once(odd, caplog) -> None:
    world = World(agents=2).run()
    mad = reward("a0", odd.get("value", 5.0), confidence=odd.get("confidence", 1.0))
    world.agent("a1").events.acted(action(rewards=[mad, mad]))
    world.agent("a0").events.acted(action())
    world.step(1, rewards=[reward("a0", 3.0)])
    (told,) = world.agent("a0").of("deliver")[-1].rewards
    assert told.value == 3.0
    assert [each.sender_name for each in told.sources] == ["a1", "a1", "env"]
    assert world.trial.counts["not finite rewards"] == 2
    assert caplog.text.count("from 'a1' is not finite") == 1


def test_messages_arrive_in_order_with_payload_at_the_next_tick() -> None:
    world = World(agents=2).run()
    first = message("a0", "one")
    first.sender_name = "somebody else"
    world.agent("a1").events.acted(action(messages=[first, message("a0", "two")]))
    world.act(a0=b"x")
    world.step(1, messages=[message("a0", "three")])
    period = world.agent("a0").of("deliver")[1]
    assert texts(period.messages) == [(1, "a1", "one"), (1, "a1", "two"), (1, "env", "three")]
    assert period.messages[0].payload.type_url == "type/text"
    assert not world.agent("a1").of("deliver")[1].messages


def test_environment_gets_messages_before_actions() -> None:
    world = World(agents=2).run()
    world.agent("a0").events.acted(action(messages=[message("env", "one")]))
    world.orchestrator.send(world.trial.id, "a1", messages=[message("env", "two")])
    world.act(a1=b"x")
    ((messages, _),) = world.environment.of("act")
    assert texts(messages) == [(0, "a0", "one"), (0, "a1", "two")]
    world.step(1)
    world.act()
    assert world.environment.of("act")[1][0] == []


def test_messages_with_the_last_action_go_out_with_the_actions() -> None:
    world = World(agents=1).run()
    world.agent().events.acted(action(messages=[message("env", "now")]))
    ((messages, _),) = world.environment.of("act")
    assert texts(messages) == [(0, "a0", "now")]


def test_environment_gets_messages_before_the_end() -> None:
    world = World().run()
    world.orchestrator.send(world.trial.id, "a0", messages=[message("env", "bye")])
    world.orchestrator.terminate(world.trial.id)
    ((messages, _),) = world.environment.of("end")
    assert texts(messages) == [(0, "a0", "bye")]


def test_message_to_its_own_sender_is_delivered() -> None:
    world = World().run()
    world.agent().events.acted(action(messages=[message("a0", "note")]))
    world.step(1, messages=[message("env", "to me")])
    assert texts(world.agent().of("deliver")[1].messages) == [(1, "a0", "note")]
    world.act()
    assert texts(world.environment.of("act")[1][0]) == [(1, "env", "to me")]


def test_messages_are_ordered_by_tick_and_by_arrival_within_a_tick() -> None:
    world = World().run()
    for number in (1, 2):
        world.act()
        world.step(number)
    sent = [message("a0", text, tick=tick) for text, tick in (("d", 3), ("a", 1), ("e", -1))]
    sent += [message("a0", "b", tick=1), message("a0", "f", tick=9)]
    world.orchestrator.send(world.trial.id, "a0", messages=sent)
    world.act()
    world.step(3)
    got = texts(world.agent().of("deliver")[3].messages)
    assert [(tick, text) for tick, _, text in got] == [
        (1, "a"),
        (1, "b"),
        (3, "d"),
        (3, "e"),
        (9, "f"),
    ]


def test_messages_before_running_are_held() -> None:
    world = World(agents=2)
    sent = [message("a0", "early"), message("env", "early too")]
    world.orchestrator.send(world.trial.id, "a1", messages=sent)
    world.run()
    assert texts(world.agent("a0").of("deliver")[0].messages) == [(0, "a1", "early")]
    world.act()
    assert texts(world.environment.of("act")[0][0]) == [(0, "a1", "early too")]


@pytest.mark.parametrize("receiver", ["nobody", "*", "agent.*"])
def test_message_to_an_unknown_receiver_is_counted_and_logged(receiver: str, caplog: Any) -> None:
    world = World().run()
    world.orchestrator.send(world.trial.id, "a0", messages=[message(receiver, "x")])
    assert world.trial.counts["dropped messages"] == 1
    assert repr(receiver) in caplog.text
    world.act()
    world.step(1)
    assert not world.agent().of("deliver")[1].messages


def test_messages_of_the_last_reply_are_in_the_final_data_once() -> None:
    world = World().run()
    world.act()
    world.orchestrator.send(world.trial.id, "a0", messages=[message("a0", "late")])
    world.environment.events.replied(
        EnvActionReply(messages=[message("a0", "last")], final_update=True)
    )
    (final,) = world.agent().of("end")
    assert texts(final.messages) == [(1, "a0", "late"), (1, "env", "last")]
    assert len(world.agent().of("deliver")) == 1


KINDS = {
    "messages": lambda: {"messages": [message("a1", "x" * 500)]},
    "messages to the environment": lambda: {"messages": [message("env", "x" * 500)]},
    "rewards of the next tick": lambda: {"rewards": [reward("a1", 1.0)]},
    "rewards of a far tick": lambda: {"rewards": [reward("a1", 1.0, tick=2**31 - 1)]},
}


def flood(world: World, sender: str, sent: dict[str, Any]) -> int:
    """Send until it is refused; return how often it was taken."""
    for taken in range(1000):
        try:
            world.orchestrator.send(world.trial.id, sender, **sent)
        except ExhaustedError:
            return taken
    raise AssertionError("no end of it is refused")


@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_rewards_and_messages_that_wait_are_bounded(kind: str, running: bool) -> None:
    world = World(agents=2, settings=Settings(post_backlog_bytes=10_000))
    if running:
        world.run()
    taken = flood(world, "a0", KINDS[kind]())
    assert 10 <= taken <= 10_000 // 256 + 1


def test_sender_that_floods_a_trial_does_not_silence_others() -> None:
    world = World(agents=2, settings=Settings(post_backlog_bytes=10_000)).run()
    flood(world, "a0", KINDS["rewards of a far tick"]())
    world.orchestrator.send(world.trial.id, "a1", messages=[message("a0", "hello")])
    world.act()
    world.step(1, rewards=[reward("a1", 2.0)])
    assert texts(world.agent("a0").of("deliver")[1].messages) == [(1, "a1", "hello")]
    assert values(world.agent("a1").of("deliver")[1].rewards) == [(1, 2.0)]


def test_delivered_rewards_and_messages_make_room() -> None:
    world = World(agents=2, settings=Settings(post_backlog_bytes=10_000)).run()
    sent = {
        "messages": [message("a1", "x" * 500), message("env", "x" * 500)],
        "rewards": [reward("a1", 1.0)],
    }
    first = flood(world, "a0", sent)
    for number in (1, 2):
        world.act()
        world.step(number)
        assert flood(world, "a0", sent) == first


def test_messages_of_an_agent_beyond_its_bound_are_dropped_and_counted() -> None:
    world = World(agents=2, settings=Settings(post_backlog_bytes=10_000)).run()
    for _ in range(100):
        world.agent("a0").events.acted(action(messages=[message("a1", "x" * 500)]))
    world.act(a1=b"x")
    world.step(1)
    got = len(world.agent("a1").of("deliver")[1].messages)
    assert 10 <= got <= 10_000 // 256 + 1
    assert world.trial.counts["dropped messages"] == 100 - got


def test_single_request_may_be_larger_than_the_bound() -> None:
    world = World(agents=2, settings=Settings(post_backlog_bytes=1)).run()
    large = message("a1", "x" * 5000)
    world.orchestrator.send(world.trial.id, "a0", messages=[large])
    with pytest.raises(ExhaustedError, match="bytes of 'a0' wait for their ticks; the limit is 1"):
        world.orchestrator.send(world.trial.id, "a0", messages=[large])
    world.act()
    world.step(1)
    world.orchestrator.send(world.trial.id, "a0", messages=[large])
    assert len(world.agent("a1").of("deliver")[1].messages) == 1
