"""What is told about trials, and to whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cogrs.orchestrator.engine.errors import ExhaustedError, NotFoundError, UnavailableError
from cogrs.orchestrator.engine.settings import Settings
from cogrs.orchestrator.engine.state import State, check_step
from tests.orchestrator.world import Reader, World

if TYPE_CHECKING:
    from cogrs.orchestrator.engine.trial_registry import Watcher


def told(watcher: Watcher) -> list[tuple[str, State]]:
    changes = []
    while (change := watcher.take()) is not None:
        changes.append(change[:2])
    return changes


def test_each_state_is_reported_once_and_in_order() -> None:
    world = World().run()
    world.orchestrator.terminate(world.trial.id)
    world.drain()
    assert world.seen() == list(State)


def test_state_is_reported_before_its_consequences() -> None:
    world = World(start=False, log=True)
    story = world.links.story

    class Told(Reader):
        def wake(self) -> None:
            (change,) = told(watcher)
            story.append(change[1].name)

    watcher = world.orchestrator.watch(Told(), ())
    world.start()
    world.run()
    world.act()
    world.step(1, final_update=True)
    world.drain()
    assert story == [
        "INITIALIZING",
        *("PENDING", "start", "start"),
        *("RUNNING", "params", "deliver", "act"),
        *("TERMINATING", "sample", "sample", "close", "close", "end"),
        *("close", "ENDED"),
    ]


def test_check_step_allows_only_the_known_changes_of_state() -> None:
    ways = {(old, new) for old in State for new in State if _may(old, new)}
    assert ways == {
        (State.INITIALIZING, State.PENDING),
        (State.INITIALIZING, State.TERMINATING),
        (State.PENDING, State.RUNNING),
        (State.PENDING, State.TERMINATING),
        (State.RUNNING, State.TERMINATING),
        (State.TERMINATING, State.ENDED),
    }


def _may(old: State, new: State) -> bool:
    try:
        check_step(old, new)
    except RuntimeError:
        return False
    return True


def test_watcher_gets_present_states_and_then_changes() -> None:
    world = World()
    first = world.trial.id
    watcher = world.orchestrator.watch(Reader(), ())
    second = world.start().id
    assert told(watcher) == [
        (first, State.PENDING),
        (second, State.INITIALIZING),
        (second, State.PENDING),
    ]
    world.orchestrator.unwatch(watcher)
    world.run()
    assert told(watcher) == []


def test_watcher_with_a_filter_gets_only_the_filtered_states() -> None:
    world = World()
    watcher = world.orchestrator.watch(Reader(), [State.RUNNING, State.ENDED])
    assert told(watcher) == []
    world.run()
    world.orchestrator.terminate(world.trial.id)
    world.drain()
    assert [state for _, state in told(watcher)] == [State.RUNNING, State.ENDED]


def test_slow_watcher_is_dropped_and_others_are_not() -> None:
    world = World(settings=Settings(watch_backlog=4))
    reader, other = Reader(), Reader()
    world.orchestrator.watch(reader, ())
    quick = world.orchestrator.watch(other, [State.ENDED])
    for _ in range(2):
        world.start()
    assert isinstance(reader.error, ExhaustedError)
    assert reader.closed == 1
    assert other.error is None
    world.orchestrator.terminate(world.trial.id)
    world.run()
    world.drain()
    assert told(quick) == [(world.trial.id, State.ENDED)]


def test_new_watcher_gets_all_trials_beyond_its_backlog() -> None:
    world = World(settings=Settings(watch_backlog=2), start=False)
    trials = [world.start().id for _ in range(5)]
    watcher = world.orchestrator.watch(Reader(), ())
    assert told(watcher) == [(trial, State.PENDING) for trial in trials]


def test_watchers_get_an_error_when_the_orchestrator_stops() -> None:
    world = World(start=False)
    reader = Reader()
    world.orchestrator.watch(reader, ())
    world.orchestrator.begin_stop()
    world.orchestrator.finish_stop()
    assert isinstance(reader.error, UnavailableError)
    with pytest.raises(UnavailableError):
        world.orchestrator.watch(Reader(), ())


def test_info_describes_one_trial_or_all() -> None:
    world = World()
    first, second = world.trial.id, world.start().id
    world.run()
    infos = world.orchestrator.info(None)
    assert [(info.trial_id, info.state) for info in infos] == [
        (first, State.PENDING),
        (second, State.RUNNING),
    ]
    (info,) = world.orchestrator.info(first, observation=True)
    assert info.trial_id == first
    assert not info.HasField("latest_observation")
    with pytest.raises(NotFoundError):
        world.orchestrator.info("unknown")
