"""What senders may leave waiting in a trial that stands still."""

from __future__ import annotations

from typing import Any

import pytest

from cogrs.orchestrator import Settings
from cogrs.orchestrator.engine.errors import ExhaustedError
from tests.orchestrator.world import World, action, message, reward, texts, values

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
def test_what_waits_is_bounded(kind: str, running: bool) -> None:
    world = World(agents=2, settings=Settings(post_backlog_bytes=10_000))
    if running:
        world.run()
    taken = flood(world, "a0", KINDS[kind]())
    assert 10 <= taken <= 10_000 // 256 + 1


def test_who_floods_a_trial_silences_nobody_else() -> None:
    world = World(agents=2, settings=Settings(post_backlog_bytes=10_000)).run()
    flood(world, "a0", KINDS["rewards of a far tick"]())
    world.orchestrator.send(world.trial.id, "a1", messages=[message("a0", "hello")])
    world.act()
    world.step(1, rewards=[reward("a1", 2.0)])
    assert texts(world.agent("a0").of("deliver")[1].messages) == [(1, "a1", "hello")]
    assert values(world.agent("a1").of("deliver")[1].rewards) == [(1, 2.0)]


def test_what_went_out_makes_room() -> None:
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


def test_an_agent_that_floods_with_its_actions_is_dropped_and_counted() -> None:
    world = World(agents=2, settings=Settings(post_backlog_bytes=10_000)).run()
    for _ in range(100):
        world.agent("a0").events.acted(action(messages=[message("a1", "x" * 500)]))
    world.act(a1=b"x")
    world.step(1)
    got = len(world.agent("a1").of("deliver")[1].messages)
    assert 10 <= got <= 10_000 // 256 + 1
    assert world.trial.counts["dropped messages"] == 100 - got


def test_a_single_request_may_be_larger() -> None:
    world = World(agents=2, settings=Settings(post_backlog_bytes=1)).run()
    large = message("a1", "x" * 5000)
    world.orchestrator.send(world.trial.id, "a0", messages=[large])
    with pytest.raises(ExhaustedError, match="bytes of 'a0' wait for their ticks, of at most 1"):
        world.orchestrator.send(world.trial.id, "a0", messages=[large])
    world.act()
    world.step(1)
    world.orchestrator.send(world.trial.id, "a0", messages=[large])
    assert len(world.agent("a1").of("deliver")[1].messages) == 1
