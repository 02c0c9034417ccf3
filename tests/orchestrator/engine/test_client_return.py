"""Clients that leave, return, or stay silent: how long trials wait, and the data they send."""

from __future__ import annotations

import pytest

from cogrs.api.environment_pb2 import EnvActionReply
from cogrs.api.orchestrator_pb2 import TrialJoinRequest
from cogrs.orchestrator.engine.errors import (
    InvalidError,
    LateError,
    NotFoundError,
    PreconditionError,
)
from cogrs.orchestrator.engine.settings import Settings
from cogrs.orchestrator.engine.state import State
from tests.orchestrator.world import (
    World,
    actions,
    message,
    observed,
    reward,
    running_client,
    values,
)

# --- leaving and coming back -----------------------------------------------------------------


@pytest.mark.parametrize("rejoin", [True, False])
def test_client_that_comes_back_is_asked_again(rejoin: bool) -> None:
    world, client = running_client(agents=1)
    world.act(a0=b"x")
    client.hang_up()
    world.clock.advance(29)
    assert world.trial.state is State.RUNNING
    if rejoin:
        request = TrialJoinRequest(trial_id=world.trial.id, actor_name="c0")
        assert world.orchestrator.join(request).actor_name == "c0"
    client.open()
    assert observed(client) == [b"o0.1"]
    assert actions(world) == []
    client.act(b"back")
    assert actions(world) == [[b"x", b"back"]]
    assert world.environment.of("act")[0][1].reply_with_snapshot
    world.step(1)
    client.act()
    world.act(a0=b"x")
    assert not world.environment.of("act")[1][1].reply_with_snapshot


def test_client_that_comes_back_sees_the_observation_of_the_map() -> None:
    world, client = running_client(agents=1)
    client.act()
    world.act(a0=b"x")
    world.step(1, observation_set=world.observations(1, actors_map=[1, 0]))
    assert observed(client) == [b"o1.0"]
    client.hang_up()
    client.open()
    assert observed(client) == [b"o1.0"]


def test_client_that_left_after_its_action_may_answer_again() -> None:
    world, client = running_client(agents=1)
    client.act(b"before")
    client.hang_up()
    client.open()
    assert observed(client) == [b"o0.1"]
    world.act(a0=b"x")
    assert actions(world) == []
    client.act(b"again")
    assert actions(world) == [[b"x", b"again"]]


def test_client_that_returns_during_a_step_gets_the_next_observation() -> None:
    world, client = running_client()
    client.act()
    client.hang_up()
    client.open()
    assert client.read() == []
    world.step(1)
    assert observed(client) == [b"o1.0"]


def test_data_for_a_disconnected_client_is_kept_until_the_client_returns() -> None:
    world, client = running_client()
    client.act()
    client.hang_up()
    world.step(1, rewards=[reward("c0", 5)])
    client.open()
    (reply,) = client.read()
    assert [each.tick_id for each in reply.data.observations] == [1]
    assert values(reply.data.rewards) == [(1, 5)]


def test_reply_that_could_not_be_sent_is_sent_again() -> None:
    world, client = running_client()
    client.act()
    world.step(1, rewards=[reward("c0", 5)])
    reply = client.actor.take(client.stream)
    assert reply is not None
    client.actor.put_back(client.stream, reply)
    client.hang_up()
    client.open()
    (again,) = client.read()
    assert values(again.data.rewards) == [(1, 5)]
    assert [each.tick_id for each in again.data.observations] == [1]


def test_client_that_stays_away_ends_the_trial() -> None:
    world, client = running_client(agents=1)
    client.hang_up()
    world.clock.advance(30)
    assert "'c0' did not return within 30 s: cancelled" in world.trial.end_reason
    world.drain()
    assert world.trial.state is State.ENDED


def test_client_that_rejoins_without_a_stream_is_not_waited_for_for_ever() -> None:
    world, client = running_client()
    client.hang_up()
    world.clock.advance(29)
    request = TrialJoinRequest(trial_id=world.trial.id, actor_name="c0")
    world.orchestrator.join(request)
    world.clock.advance(29)
    assert world.trial.state is State.RUNNING
    world.clock.advance(1)
    assert "no stream followed JoinTrial" in world.trial.end_reason


def test_client_may_leave_and_return_before_the_trial_runs() -> None:
    world = World(agents=1, clients=1)
    client = world.client()
    client.hang_up()
    client.open()
    world.run()
    assert observed(client) == [b"o0.1"]


@pytest.mark.parametrize(
    ("settings", "window"),
    [
        (Settings(heartbeat_timeout=7), 7),
        (Settings(heartbeat_timeout=0), 30),
        (Settings(heartbeat_timeout=7, reconnect_window=3), 3),
    ],
)
def test_reconnect_window_limits_how_long_a_client_may_be_away(
    settings: Settings, window: float
) -> None:
    world, client = running_client(settings=settings)
    client.hang_up()
    world.clock.advance(window - 0.1)
    assert world.trial.state is State.RUNNING
    world.clock.advance(0.1)
    assert world.trial.state is State.TERMINATING


def test_reconnect_window_ends_when_the_client_comes_back() -> None:
    world, client = running_client(agents=1)
    client.hang_up()
    client.open()
    client.read()
    client.act()
    world.clock.advance(1000)
    assert world.trial.state is State.RUNNING


def test_client_cannot_return_to_a_trial_that_is_over() -> None:
    world, client = running_client(agents=1)
    client.hang_up()
    world.environment.events.failed("OnAction", "gone")
    assert world.trial.state is State.TERMINATING
    request = TrialJoinRequest(trial_id=world.trial.id, actor_name="c0")
    with pytest.raises(PreconditionError, match="TERMINATING"):
        world.orchestrator.join(request)


def test_action_of_a_client_after_the_end_is_ignored() -> None:
    world, client = running_client()
    world.environment.events.failed("OnAction", "gone")
    client.act()
    assert actions(world) == []
    assert world.trial.counts["extra actions"] == 1


def test_calls_of_a_replaced_stream_are_ignored() -> None:
    world, client = running_client()
    old = client.stream
    client.hang_up()
    client.open()
    client.actor.hung_up(old, "again")
    assert client.actor.take(old) is None
    assert observed(client) == [b"o0.0"]
    client.act(b"x")
    assert actions(world) == [[b"x"]]


# --- heartbeats ------------------------------------------------------------------------------


def test_client_that_owes_an_action_and_is_silent_is_lost() -> None:
    world, client = running_client(settings=Settings(heartbeat_timeout=30))
    world.clock.advance(29)
    assert client.reader.error is None
    world.clock.advance(1)
    assert isinstance(client.reader.error, LateError)
    assert world.trial.state is State.RUNNING
    client.open()
    assert observed(client) == [b"o0.0"]
    client.act()
    assert len(actions(world)) == 1


def test_client_that_acted_has_no_heartbeat_timeout() -> None:
    world, client = running_client(settings=Settings(heartbeat_timeout=30))
    world.orchestrator.terminate(world.trial.id)
    world.clock.advance(59)
    assert client.reader.error is None
    world.environment.events.ended(EnvActionReply(final_update=True))
    (final,) = client.read()
    assert final.final_data


def test_silent_client_that_stays_away_ends_the_trial() -> None:
    world, _ = running_client(settings=Settings(heartbeat_timeout=30))
    world.clock.advance(60)
    assert "not heard from within 30 s" in world.trial.end_reason


def test_client_without_a_pending_action_may_be_silent() -> None:
    world, client = running_client(agents=1)
    client.act()
    world.orchestrator.heartbeat(world.trial.id, "c0")
    world.clock.advance(1000)
    assert client.reader.error is None
    world.act(a0=b"x")
    world.clock.advance(1000)
    assert world.trial.state is State.RUNNING
    world.step(1)
    world.clock.advance(30)
    assert isinstance(client.reader.error, LateError)


@pytest.mark.parametrize("what", ["heartbeat", "reward", "message", "request"])
def test_every_request_of_a_client_restarts_its_heartbeat_timeout(what: str) -> None:
    world, client = running_client(agents=1)
    orchestrator, trial_id = world.orchestrator, world.trial.id
    requests = {
        "heartbeat": lambda: orchestrator.heartbeat(trial_id, "c0"),
        "reward": lambda: orchestrator.send(trial_id, "c0", rewards=[reward("a0", 1)]),
        "message": lambda: orchestrator.send(trial_id, "c0", messages=[message("a0", "x")]),
        "request": client.greet,
    }
    world.clock.advance(20)
    requests[what]()
    world.clock.advance(29)
    assert client.reader.error is None
    world.clock.advance(1)
    assert client.reader.error is not None


def test_heartbeat_timeout_of_0_waits_forever() -> None:
    world, client = running_client(settings=Settings(heartbeat_timeout=0))
    world.clock.advance(1e9)
    assert world.trial.state is State.RUNNING
    assert client.reader.error is None


def test_heartbeat_of_an_actor_that_is_not_a_joined_client_raises() -> None:
    world = World(agents=1, clients=1)
    beat = world.orchestrator.heartbeat
    with pytest.raises(NotFoundError):
        beat("unknown", "c0")
    with pytest.raises(NotFoundError):
        beat(world.trial.id, "nobody")
    with pytest.raises(InvalidError):
        beat(world.trial.id, "a0")
    with pytest.raises(PreconditionError):
        beat(world.trial.id, "c0")
    world.client()
    beat(world.trial.id, "c0")


def test_silent_client_ends_with_the_trial() -> None:
    world, client = running_client()
    world.orchestrator.terminate(world.trial.id)
    world.environment.events.ended(EnvActionReply(final_update=True))
    client.hang_up()
    assert world.trial.state is State.ENDED
    world.clock.advance(0)
    assert world.clock.waiting == 1
