"""Why a trial ended, and whether it failed: told to watchers, callers and actors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from cogrs.api.environment_pb2 import EnvActionReply, EnvStartReply
from cogrs.orchestrator.engine.actor_options import ActorOptions
from cogrs.orchestrator.engine.errors import AbortedError, OrchestratorError
from cogrs.orchestrator.engine.state import State
from tests.orchestrator.world import Reader, World

if TYPE_CHECKING:
    from collections.abc import Callable

    from cogrs.orchestrator.engine.trial_registry import Change


def finish(world: World) -> None:
    world.step(1, final_update=True)


def reach_limit(world: World) -> None:
    world.act()
    world.step(1)
    world.act()


NORMAL: dict[str, tuple[str, Callable[[World], Any], dict[str, Any]]] = {
    "final": ("environment: final update", finish, {}),
    "max_steps": ("max_steps: 1 steps", reach_limit, {"max_steps": 1}),
    "terminate": (
        "TerminateTrial was called",
        lambda world: world.orchestrator.terminate(world.trial.id),
        {},
    ),
    "stop": ("the orchestrator stops", lambda world: world.orchestrator.begin_stop(), {}),
}
FAILED: dict[str, tuple[str, Callable[[World], Any], dict[str, Any]]] = {
    "environment lost": (
        "environment grpc://environment:1: OnAction: gone",
        lambda world: world.environment.events.failed("OnAction", "gone"),
        {},
    ),
    "environment replies nonsense": (
        "environment: reply: ",
        lambda world: world.environment.events.replied(EnvActionReply()),
        {},
    ),
    "environment crashed": (
        "internal error: ",
        lambda world: world.environment.events.crashed("it broke"),
        {},
    ),
    "agent lost": (
        "actor 'a0' at grpc://agents:1: OnObservation: gone",
        lambda world: world.agent("a0").events.failed("OnObservation", "gone"),
        {},
    ),
    "no optional agent is left": (
        "no actor is left: ",
        lambda world: world.agent("a0").events.failed("OnObservation", "gone"),
        {"actor_options": {"a0": ActorOptions(optional=True)}},
    ),
    "agent late": (
        "actor 'a0': no action within 2 s",
        lambda world: world.clock.advance(2),
        {"actor_options": {"a0": ActorOptions(response_timeout=2)}},
    ),
    "nobody is heard": (
        "max_inactivity: ",
        lambda world: world.clock.advance(5),
        {"max_inactivity": 5},
    ),
}


def told(world: World, watcher: Any) -> list[Change]:
    changes = []
    while (change := watcher.take()) is not None:
        if change.trial_id == world.trial.id:
            changes.append(change)
    return changes


@pytest.mark.parametrize("kind", [*NORMAL, *FAILED])
def test_reason_and_failure_reach_watchers_askers_and_actors(kind: str) -> None:
    reason, cause, arguments = {**NORMAL, **FAILED}[kind]
    world = World(agents=1, start=False, **arguments)
    watcher = world.orchestrator.watch(Reader(), ())
    world.start()
    world.run()
    (before,) = world.orchestrator.info(world.trial.id)
    assert (before.end_reason, before.failed) == ("", False)
    cause(world)
    if world.trial.state is not State.ENDED:
        world.drain()
    assert world.trial.state is State.ENDED

    changes = told(world, watcher)
    assert [change.state for change in changes] == list(State)
    for change in changes:
        decided = change.state >= State.TERMINATING
        assert change.end_reason.startswith(reason) is decided
        assert bool(change.end_reason) is decided
        assert change.failed is (decided and kind in FAILED)
    (after,) = world.orchestrator.info(world.trial.id)
    assert (after.end_reason, after.failed) == (changes[-1].end_reason, kind in FAILED)
    reasons = [period.end_reason for period in world.agent("a0").of("end")]
    assert reasons == [after.end_reason]


@pytest.mark.parametrize("what", ["hook", "parameters"])
def test_trial_that_is_refused_has_failed(what: str) -> None:
    class No:
        async def pre_trial(self, trial_id: str, context: Any) -> Any:
            raise AbortedError("not today")

    arguments: dict[str, Any] = {"hooks": [No()]} if what == "hook" else {"actors": []}
    world = World(start=False, **arguments)
    watcher = world.orchestrator.watch(Reader(), ())
    with pytest.raises(OrchestratorError):
        world.start()
    changes = []
    while (change := watcher.take()) is not None:
        changes.append(change)
    assert [change.failed for change in changes] == [False, True, True]
    assert changes[-1].end_reason.startswith("StartTrial: ")


@pytest.mark.parametrize("what", ["no observations", "lost", "late"])
def test_trial_that_cannot_start_has_failed(what: str) -> None:
    world = World(agents=0, clients=1)
    client = world.client()
    events = world.environment.events
    if what == "no observations":
        events.started(EnvStartReply())
    elif what == "lost":
        events.failed("OnStart", "ValueError: two players")
    else:
        world.clock.advance(60)
    if world.environment.of("end"):
        events.ended(EnvActionReply())
    (info,) = world.orchestrator.info(world.trial.id)
    assert info.failed
    assert "OnStart" in info.end_reason
    (final,) = client.read()
    assert final.final_data
    assert final.data.end_reason == info.end_reason


def test_slot_that_is_not_taken_fails_the_trial() -> None:
    world = World(agents=1, clients=1)
    world.run()
    world.clock.advance(300)
    (info,) = world.orchestrator.info(world.trial.id)
    assert (info.failed, "nobody joined as actor 'c0'" in info.end_reason) == (True, True)


def test_client_that_stays_away_fails_the_trial() -> None:
    world = World(agents=1, clients=1)
    client = world.client()
    world.run()
    client.hang_up()
    world.clock.advance(31)
    (info,) = world.orchestrator.info(world.trial.id)
    assert (info.failed, "did not return" in info.end_reason) == (True, True)


def test_first_end_reason_of_a_trial_stays() -> None:
    world = World().run()
    world.orchestrator.terminate(world.trial.id)
    world.environment.events.failed("OnEnd", "broke at the end")
    world.drain()
    (info,) = world.orchestrator.info(world.trial.id)
    assert (info.end_reason, info.failed) == ("TerminateTrial was called", False)
