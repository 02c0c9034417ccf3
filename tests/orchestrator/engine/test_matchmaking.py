"""JoinTrial: who gets which slot."""

from __future__ import annotations

from typing import Any

import pytest

from cogrs.api.common_pb2 import ActorConfig, ActorParams
from cogrs.api.orchestrator_pb2 import TrialJoinReply, TrialJoinRequest
from cogrs.orchestrator.engine.errors import (
    InvalidError,
    NotFoundError,
    OrchestratorError,
    PreconditionError,
)
from cogrs.orchestrator.engine.settings import Settings
from cogrs.orchestrator.engine.slot_secret import ASK, Caller
from cogrs.orchestrator.engine.state import State
from tests.orchestrator.world import Client, World


def join(world: World, trial_id: str | None = None, **selection: str) -> TrialJoinReply:
    trial_id = world.trial.id if trial_id is None else trial_id
    return world.orchestrator.join(TrialJoinRequest(trial_id=trial_id, **selection))


def test_join_by_class_takes_the_first_free_slot() -> None:
    world = World(agents=1, clients=3)
    names = [join(world, actor_class="player").actor_name for _ in range(3)]
    assert names == ["c0", "c1", "c2"]
    with pytest.raises(PreconditionError, match="no slot of class 'player'"):
        join(world, actor_class="player")


def test_join_by_name_takes_that_slot() -> None:
    world = World(agents=1, clients=3)
    reply = join(world, actor_name="c1")
    assert (reply.actor_name, reply.trial_id) == ("c1", world.trial.id)
    assert list(reply.actors_in_trial) == list(world.reply.actors_in_trial)
    assert join(world, actor_class="player").actor_name == "c0"
    assert join(world, actor_class="player").actor_name == "c2"
    with pytest.raises(PreconditionError, match="taken"):
        join(world, actor_name="c1")


def test_client_with_the_secret_may_join_again_before_its_stream() -> None:
    world = World(agents=1, clients=1)
    request = TrialJoinRequest(trial_id=world.trial.id, actor_name="c0")
    first = Caller(ASK)
    world.orchestrator.join(request, first)
    assert first.given
    # Without it, or with a stream, the slot is taken.
    for shown in ("", ASK, "another"):
        with pytest.raises(PreconditionError, match="actor 'c0' is taken"):
            world.orchestrator.join(request, Caller(shown))
    again = Caller(first.given)
    assert world.orchestrator.join(request, again).actor_name == "c0"
    assert again.given == ""
    client = Client(world.orchestrator.client(world.trial.id, "c0", again))
    with pytest.raises(PreconditionError, match="actor 'c0' is taken"):
        world.orchestrator.join(request, Caller(first.given))
    client.hang_up()
    assert world.orchestrator.join(request, Caller(first.given)).actor_name == "c0"


@pytest.mark.parametrize("content", [None, b"", b"x"])
def test_join_reply_has_the_config_of_the_actor_if_set(content: bytes | None) -> None:
    config = None if content is None else ActorConfig(content=content)
    world = World(actors=[ActorParams(name="c0", endpoint="client", config=config)])
    reply = join(world, actor_name="c0")
    assert reply.HasField("config") == (content is not None)
    assert reply.config.content == (content or b"")


def test_join_without_trial_id_takes_a_slot_of_the_oldest_pending_trial() -> None:
    world = World(agents=0, clients=1)
    first = world.trial.id
    second = world.start().id
    third = world.start().id
    assert join(world, "", actor_class="player").trial_id == first
    assert join(world, "", actor_name="c0").trial_id == second
    assert join(world, "", actor_class="player").trial_id == third
    for selection in ({"actor_class": "player"}, {"actor_name": "c0"}):
        with pytest.raises(PreconditionError, match="no trial has a free slot"):
            join(world, "", **selection)


def test_join_without_trial_id_skips_trials_that_end() -> None:
    world = World(agents=0, clients=2)
    world.orchestrator.terminate(world.trial.id)
    second = world.start().id
    assert join(world, "", actor_class="player").trial_id == second


NOT_POSSIBLE: list[tuple[dict[str, str], type[OrchestratorError]]] = [
    ({"trial_id": "unknown", "actor_name": "c0"}, NotFoundError),
    ({"actor_name": "nobody"}, NotFoundError),
    ({}, InvalidError),
    ({"actor_name": ""}, InvalidError),
    ({"actor_class": ""}, InvalidError),
    ({"trial_id": ""}, InvalidError),
    ({"actor_class": "unknown"}, InvalidError),
    ({"trial_id": "", "actor_class": "unknown"}, InvalidError),
    ({"actor_class": "agent"}, InvalidError),
    ({"actor_name": "a0"}, InvalidError),
]


@pytest.mark.parametrize(("request_", "error"), NOT_POSSIBLE)
def test_join_with_a_wrong_selection_raises(
    request_: dict[str, str], error: type[OrchestratorError]
) -> None:
    world = World(agents=1, clients=1, classes=["agent", "player"])
    with pytest.raises(error):
        join(world, **request_)
    assert not world.trial.actors[1].ready


@pytest.mark.parametrize("selection", [{"actor_class": "player"}, {"actor_name": "c0"}])
def test_join_of_a_trial_that_is_not_pending_raises(selection: dict[str, str]) -> None:
    failures: list[str] = []

    class Hook:
        async def pre_trial(self, trial_id: str, context: Any) -> Any:
            with pytest.raises(PreconditionError) as caught:
                join(world, trial_id, **selection)
            failures.append(str(caught.value))
            return context

    world = World(agents=0, clients=1, hooks=[Hook()], start=False)
    world.start()
    assert "INITIALIZING" in failures[0]
    client = world.client()
    world.run()
    steps = {
        State.RUNNING: lambda: world.orchestrator.terminate(world.trial.id),
        State.TERMINATING: lambda: [world.drain(), client.read()],
        State.ENDED: lambda: None,
    }
    for state, step in steps.items():
        assert world.trial.state is state
        with pytest.raises(PreconditionError, match=state.name):
            join(world, **selection)
        step()


def test_slot_that_is_not_taken_in_time_ends_the_trial() -> None:
    world = World(agents=1, clients=2, settings=Settings(join_timeout=300)).run()
    join(world, actor_name="c0")
    world.clock.advance(299)
    assert world.trial.state is State.PENDING
    world.clock.advance(1)
    assert world.trial.end_reason == "nobody joined as actor 'c1' within 300 s"
    world.drain()
    assert world.trial.state is State.ENDED


def test_join_timeout_of_0_waits_forever() -> None:
    world = World(clients=1, settings=Settings(join_timeout=0)).run()
    world.clock.advance(1e9)
    assert world.trial.state is State.PENDING
