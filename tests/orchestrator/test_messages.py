"""Messages between actors and the environment."""

from __future__ import annotations

from typing import Any

import pytest

from cogrs.api.environment_pb2 import EnvActionReply
from tests.orchestrator.world import World, action, message, texts


def test_messages_arrive_with_the_next_tick_in_order_and_with_their_payload() -> None:
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


def test_the_environment_gets_messages_before_actions() -> None:
    world = World(agents=2).run()
    world.agent("a0").events.acted(action(messages=[message("env", "one")]))
    world.orchestrator.send(world.trial.id, "a1", messages=[message("env", "two")])
    world.act(a1=b"x")
    ((messages, _),) = world.environment.of("act")
    assert texts(messages) == [(0, "a0", "one"), (0, "a1", "two")]
    world.step(1)
    world.act()
    assert world.environment.of("act")[1][0] == []


def test_what_comes_with_the_last_action_goes_with_the_actions() -> None:
    world = World(agents=1).run()
    world.agent().events.acted(action(messages=[message("env", "now")]))
    ((messages, _),) = world.environment.of("act")
    assert texts(messages) == [(0, "a0", "now")]


def test_the_environment_gets_messages_before_the_end() -> None:
    world = World().run()
    world.orchestrator.send(world.trial.id, "a0", messages=[message("env", "bye")])
    world.orchestrator.terminate(world.trial.id)
    ((messages, _),) = world.environment.of("end")
    assert texts(messages) == [(0, "a0", "bye")]


def test_a_message_to_oneself_is_legal() -> None:
    world = World().run()
    world.agent().events.acted(action(messages=[message("a0", "note")]))
    world.step(1, messages=[message("env", "to me")])
    assert texts(world.agent().of("deliver")[1].messages) == [(1, "a0", "note")]
    world.act()
    assert texts(world.environment.of("act")[1][0]) == [(1, "env", "to me")]


def test_messages_are_ordered_by_tick_and_keep_their_order_within_one() -> None:
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
def test_an_unknown_receiver_is_counted_and_logged(receiver: str, caplog: Any) -> None:
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
