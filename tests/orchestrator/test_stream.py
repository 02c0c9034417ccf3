"""A client's stream: what is an action, what is a departure, and what happens then."""

from __future__ import annotations

from typing import Any

import pytest

from cogrs.api.environment_pb2 import EnvActionReply
from cogrs.api.orchestrator_pb2 import TrialJoinRequest
from cogrs.orchestrator.engine.errors import (
    AlreadyExistsError,
    InvalidError,
    LateError,
    NotFoundError,
    PreconditionError,
)
from cogrs.orchestrator.engine.settings import Settings
from cogrs.orchestrator.engine.state import State
from tests.orchestrator.world import Client, Reader, World, message, reward, texts, values


def running(**arguments: Any) -> tuple[World, Client]:
    """A trial of one client that has read its first observation."""
    arguments.setdefault("agents", 0)
    world = World(clients=1, **arguments)
    client = world.client()
    world.run()
    assert observed(client) == [b"o0.%d" % (world.size - 1)]
    return world, client


def observed(client: Client) -> list[bytes]:
    return [each.data.content for reply in client.read() for each in reply.data.observations]


def actions(world: World) -> list[list[bytes]]:
    return [list(request.action_set.actions) for _, request in world.environment.of("act")]


# --- what is an action -----------------------------------------------------------------------


@pytest.mark.parametrize("greets", [True, False])
def test_a_hand_shake_is_not_waited_for_and_is_no_action(greets: bool) -> None:
    world = World(agents=0, clients=1)
    client = world.client()
    world.run()
    client.read()
    if greets:
        client.greet()
        assert actions(world) == []
    client.act(b"mine")
    assert actions(world) == [[b"mine"]]


def test_only_the_first_request_can_be_a_hand_shake() -> None:
    world, client = running()
    client.greet()
    client.greet()
    assert actions(world) == [[b""]]


@pytest.mark.parametrize("shape", ["unset", "empty"])
@pytest.mark.parametrize("sent", ["before the observation", "after it was sent", "before the run"])
def test_first_request_without_content_after_a_join_is_the_hand_shake(
    shape: str, sent: str
) -> None:
    world = World(agents=0, clients=1)
    client = world.client()
    greet = client.greet if shape == "unset" else lambda: client.act(b"")
    if sent == "before the run":
        greet()
    world.run()
    if sent == "before the observation":
        greet()
    client.read()
    if sent == "after it was sent":
        greet()
    assert actions(world) == []
    client.act(b"")
    assert actions(world) == [[b""]]


def test_first_request_with_content_after_a_join_is_an_answer() -> None:
    world, client = running()
    client.act(b"first")
    world.step(1)
    client.read()
    client.act(b"")
    assert actions(world) == [[b"first"], [b""]]


@pytest.mark.parametrize("early", [b"", b"early"])
def test_second_request_may_be_an_empty_action(early: bytes) -> None:
    world = World(agents=0, clients=1)
    client = world.client()
    client.act(early)
    world.run()
    client.read()
    client.act(b"")
    assert actions(world) == [[b""]]


def test_first_request_of_a_later_stream_may_be_an_empty_action() -> None:
    world, client = running()
    client.act(b"")
    client.hang_up()
    client.open()
    assert observed(client) == [b"o0.0"]
    client.act(b"")
    assert actions(world) == [[b""]]


def test_first_request_of_a_later_stream_may_be_an_unset_hand_shake() -> None:
    world, client = running()
    client.hang_up()
    client.open()
    client.read()
    client.greet()
    assert actions(world) == []
    client.act(b"")
    assert actions(world) == [[b""]]


@pytest.mark.parametrize("shape", ["unset", "empty"])
def test_first_request_without_content_after_a_rejoin_is_the_hand_shake(shape: str) -> None:
    world, client = running()
    client.act(b"first")
    world.step(1)
    client.read()
    client.hang_up()
    client.rejoin()
    assert observed(client) == [b"o1.0"]
    if shape == "unset":
        client.greet()
    else:
        client.act(b"")
    assert actions(world) == [[b"first"]]
    client.act(b"")
    assert actions(world) == [[b"first"], [b""]]


def test_refused_second_stream_leaves_the_hand_shake_to_the_first() -> None:
    world = World(agents=0, clients=1)
    actor = world.orchestrator.client(world.trial.id, "c0")
    actor.join()
    client = Client(actor)
    with pytest.raises(AlreadyExistsError):
        actor.open(Reader())
    world.run()
    client.read()
    client.act(b"")
    assert actions(world) == []


def test_empty_first_action_of_an_agent_is_an_action() -> None:
    world = World(agents=1)
    world.run()
    world.act(a0=b"")
    assert actions(world) == [[b""]]


def test_what_comes_before_the_first_observation_is_ignored() -> None:
    world = World(agents=0, clients=1)
    client = world.client()
    client.act(b"early")
    world.run()
    client.act(b"not yet sent")
    assert actions(world) == []
    client.read()
    client.act(b"now")
    assert actions(world) == [[b"now"]]


def test_what_a_new_stream_brings_before_its_first_observation_is_ignored() -> None:
    world, client = running()
    client.hang_up()
    client.open()
    client.act(b"meant for what the old one sent")
    assert actions(world) == []
    assert observed(client) == [b"o0.0"]
    client.act(b"now")
    assert actions(world) == [[b"now"]]


def test_the_first_action_of_a_tick_wins() -> None:
    world, client = running(agents=1)
    client.act(b"first")
    client.act(b"second")
    world.act(a0=b"x")
    assert actions(world) == [[b"x", b"first"]]
    assert world.trial.counts["extra actions"] == 1


# --- what it is sent -------------------------------------------------------------------------


def test_data_waits_for_the_stream() -> None:
    world = World(agents=0, clients=1)
    actor = world.orchestrator.client(world.trial.id, "c0")
    actor.join()
    world.run()
    assert world.trial.state is State.RUNNING
    client = Client(actor)
    assert observed(client) == [b"o0.0"]


def test_all_of_a_tick_comes_in_one_reply() -> None:
    world, client = running(agents=1)
    sent = {"rewards": [reward("c0", 4, tick=0)], "messages": [message("c0", "late", tick=0)]}
    world.orchestrator.send(world.trial.id, "a0", **sent)
    client.act()
    world.act(a0=b"x")
    world.step(1, rewards=[reward("c0", 1)], messages=[message("c0", "x")])
    (reply,) = client.read()
    assert not reply.final_data
    assert [each.tick_id for each in reply.data.observations] == [1]
    assert values(reply.data.rewards) == [(0, 4), (1, 1)]
    assert texts(reply.data.messages) == [(0, "a0", "late"), (1, "env", "x")]


def test_the_final_data_is_the_last_reply() -> None:
    world, client = running()
    client.act()
    world.step(1, final_update=True, rewards=[reward("c0", 1)])
    assert world.trial.state is State.TERMINATING
    (reply,) = client.read()
    assert reply.final_data
    assert [each.tick_id for each in reply.data.observations] == [1]
    assert values(reply.data.rewards) == [(1, 1)]
    assert world.trial.state is State.ENDED
    assert client.reader.error is None


def test_a_client_that_does_not_read_its_final_data_is_not_waited_for_long() -> None:
    world, client = running()
    world.environment.events.failed("OnAction", "gone")
    world.clock.advance(10)
    assert world.trial.state is State.ENDED
    assert isinstance(client.reader.error, LateError)


# --- opening ---------------------------------------------------------------------------------


def test_who_may_open_a_stream() -> None:
    world = World(agents=1, clients=2)
    trial_id = world.trial.id
    with pytest.raises(PreconditionError, match="did not join"):
        world.orchestrator.client(trial_id, "c0").open(Reader())
    with pytest.raises(InvalidError, match="is not a client"):
        world.orchestrator.client(trial_id, "a0")
    with pytest.raises(NotFoundError):
        world.orchestrator.client(trial_id, "nobody")
    with pytest.raises(NotFoundError):
        world.orchestrator.client("unknown", "c0")
    client = world.client("c0")
    with pytest.raises(AlreadyExistsError):
        client.actor.open(Reader())


def test_no_stream_after_the_final_data() -> None:
    world, client = running()
    world.environment.events.failed("OnAction", "gone")
    client.read()
    with pytest.raises(PreconditionError, match="over"):
        client.open()


# --- leaving and coming back -----------------------------------------------------------------


@pytest.mark.parametrize("rejoin", [True, False])
def test_a_client_that_comes_back_is_asked_again(rejoin: bool) -> None:
    world, client = running(agents=1)
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


def test_a_client_that_comes_back_is_shown_what_the_map_says() -> None:
    world, client = running(agents=1)
    client.act()
    world.act(a0=b"x")
    world.step(1, observation_set=world.observations(1, actors_map=[1, 0]))
    assert observed(client) == [b"o1.0"]
    client.hang_up()
    client.open()
    assert observed(client) == [b"o1.0"]


def test_a_client_that_left_after_its_action_may_answer_again() -> None:
    world, client = running(agents=1)
    client.act(b"before")
    client.hang_up()
    client.open()
    assert observed(client) == [b"o0.1"]
    world.act(a0=b"x")
    assert actions(world) == []
    client.act(b"again")
    assert actions(world) == [[b"x", b"again"]]


def test_a_client_that_returns_while_the_environment_works_gets_what_comes_next() -> None:
    world, client = running()
    client.act()
    client.hang_up()
    client.open()
    assert client.read() == []
    world.step(1)
    assert observed(client) == [b"o1.0"]


def test_what_came_while_a_client_was_away_waits_for_it() -> None:
    world, client = running()
    client.act()
    client.hang_up()
    world.step(1, rewards=[reward("c0", 5)])
    client.open()
    (reply,) = client.read()
    assert [each.tick_id for each in reply.data.observations] == [1]
    assert values(reply.data.rewards) == [(1, 5)]


def test_a_reply_that_could_not_be_sent_is_sent_again() -> None:
    world, client = running()
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


def test_a_client_that_stays_away_ends_the_trial() -> None:
    world, client = running(agents=1)
    client.hang_up()
    world.clock.advance(30)
    assert "'c0' did not come back within 30 s: cancelled" in world.trial.end_reason
    world.drain()
    assert world.trial.state is State.ENDED


def test_a_client_that_rejoins_without_a_stream_is_not_waited_for_for_ever() -> None:
    world, client = running()
    client.hang_up()
    world.clock.advance(29)
    request = TrialJoinRequest(trial_id=world.trial.id, actor_name="c0")
    world.orchestrator.join(request)
    world.clock.advance(29)
    assert world.trial.state is State.RUNNING
    world.clock.advance(1)
    assert "no stream followed JoinTrial" in world.trial.end_reason


def test_a_client_may_leave_and_return_before_the_trial_runs() -> None:
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
def test_the_window_can_be_set(settings: Settings, window: float) -> None:
    world, client = running(settings=settings)
    client.hang_up()
    world.clock.advance(window - 0.1)
    assert world.trial.state is State.RUNNING
    world.clock.advance(0.1)
    assert world.trial.state is State.TERMINATING


def test_a_client_that_came_back_is_not_missed_later() -> None:
    world, client = running(agents=1)
    client.hang_up()
    client.open()
    client.read()
    client.act()
    world.clock.advance(1000)
    assert world.trial.state is State.RUNNING


def test_nobody_returns_to_a_trial_that_is_over() -> None:
    world, client = running(agents=1)
    client.hang_up()
    world.environment.events.failed("OnAction", "gone")
    assert world.trial.state is State.TERMINATING
    request = TrialJoinRequest(trial_id=world.trial.id, actor_name="c0")
    with pytest.raises(PreconditionError, match="TERMINATING"):
        world.orchestrator.join(request)


def test_an_action_after_the_end_goes_nowhere() -> None:
    world, client = running()
    world.environment.events.failed("OnAction", "gone")
    client.act()
    assert actions(world) == []
    assert world.trial.counts["extra actions"] == 1


def test_an_old_stream_has_no_say() -> None:
    world, client = running()
    old = client.stream
    client.hang_up()
    client.open()
    client.actor.hung_up(old, "again")
    assert client.actor.take(old) is None
    assert observed(client) == [b"o0.0"]
    client.act(b"x")
    assert actions(world) == [[b"x"]]


# --- heartbeats ------------------------------------------------------------------------------


def test_a_client_that_owes_an_action_and_is_silent_has_departed() -> None:
    world, client = running(settings=Settings(heartbeat_timeout=30))
    world.clock.advance(29)
    assert client.reader.error is None
    world.clock.advance(1)
    assert isinstance(client.reader.error, LateError)
    assert world.trial.state is State.RUNNING
    client.open()
    assert observed(client) == [b"o0.0"]
    client.act()
    assert len(actions(world)) == 1


def test_a_client_that_owes_nothing_any_more_is_not_hurried() -> None:
    world, client = running(settings=Settings(heartbeat_timeout=30))
    world.orchestrator.terminate(world.trial.id)
    world.clock.advance(59)
    assert client.reader.error is None
    world.environment.events.ended(EnvActionReply(final_update=True))
    (final,) = client.read()
    assert final.final_data


def test_a_client_that_departed_in_silence_and_stays_away_ends_the_trial() -> None:
    world, _ = running(settings=Settings(heartbeat_timeout=30))
    world.clock.advance(60)
    assert "not heard from within 30 s" in world.trial.end_reason


def test_a_client_that_owes_nothing_may_be_silent() -> None:
    world, client = running(agents=1)
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
def test_every_request_of_the_client_counts(what: str) -> None:
    world, client = running(agents=1)
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


def test_heartbeats_can_be_switched_off() -> None:
    world, client = running(settings=Settings(heartbeat_timeout=0))
    world.clock.advance(1e9)
    assert world.trial.state is State.RUNNING
    assert client.reader.error is None


def test_whose_heart_may_beat() -> None:
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


def test_a_silent_client_ends_with_the_trial() -> None:
    world, client = running()
    world.orchestrator.terminate(world.trial.id)
    world.environment.events.ended(EnvActionReply(final_update=True))
    client.hang_up()
    assert world.trial.state is State.ENDED
    world.clock.advance(0)
    assert world.clock.waiting == 1
