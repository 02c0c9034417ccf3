"""A client's stream: what is an action, what is a departure, and what happens then."""

from __future__ import annotations

import pytest

from cogrs.orchestrator.engine.errors import (
    AlreadyExistsError,
    InvalidError,
    LateError,
    NotFoundError,
    PreconditionError,
)
from cogrs.orchestrator.engine.state import State
from tests.orchestrator.world import (
    Client,
    Reader,
    World,
    actions,
    message,
    observed,
    reward,
    running_client,
    texts,
    values,
)

# --- what is an action -----------------------------------------------------------------------


@pytest.mark.parametrize("greets", [True, False])
def test_hand_shake_is_not_waited_for_and_is_not_an_action(greets: bool) -> None:
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
    world, client = running_client()
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
    world, client = running_client()
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
    world, client = running_client()
    client.act(b"")
    client.hang_up()
    client.open()
    assert observed(client) == [b"o0.0"]
    client.act(b"")
    assert actions(world) == [[b""]]


def test_first_request_of_a_later_stream_may_be_an_unset_hand_shake() -> None:
    world, client = running_client()
    client.hang_up()
    client.open()
    client.read()
    client.greet()
    assert actions(world) == []
    client.act(b"")
    assert actions(world) == [[b""]]


@pytest.mark.parametrize("shape", ["unset", "empty"])
def test_first_request_without_content_after_a_rejoin_is_the_hand_shake(shape: str) -> None:
    world, client = running_client()
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


def test_request_before_the_first_observation_is_ignored() -> None:
    world = World(agents=0, clients=1)
    client = world.client()
    client.act(b"early")
    world.run()
    client.act(b"not yet sent")
    assert actions(world) == []
    client.read()
    client.act(b"now")
    assert actions(world) == [[b"now"]]


def test_request_of_a_new_stream_before_its_first_observation_is_ignored() -> None:
    world, client = running_client()
    client.hang_up()
    client.open()
    client.act(b"meant for what the old one sent")
    assert actions(world) == []
    assert observed(client) == [b"o0.0"]
    client.act(b"now")
    assert actions(world) == [[b"now"]]


def test_first_action_of_a_tick_wins() -> None:
    world, client = running_client(agents=1)
    client.act(b"first")
    client.act(b"second")
    world.act(a0=b"x")
    assert actions(world) == [[b"x", b"first"]]
    assert world.trial.counts["extra actions"] == 1


# --- what it is sent -------------------------------------------------------------------------


def test_data_of_a_client_waits_for_its_stream() -> None:
    world = World(agents=0, clients=1)
    actor = world.orchestrator.client(world.trial.id, "c0")
    actor.join()
    world.run()
    assert world.trial.state is State.RUNNING
    client = Client(actor)
    assert observed(client) == [b"o0.0"]


def test_data_of_one_tick_comes_in_one_reply() -> None:
    world, client = running_client(agents=1)
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


def test_final_data_is_the_last_reply() -> None:
    world, client = running_client()
    client.act()
    world.step(1, final_update=True, rewards=[reward("c0", 1)])
    assert world.trial.state is State.TERMINATING
    (reply,) = client.read()
    assert reply.final_data
    assert [each.tick_id for each in reply.data.observations] == [1]
    assert values(reply.data.rewards) == [(1, 1)]
    assert world.trial.state is State.ENDED
    assert client.reader.error is None


def test_client_that_does_not_read_its_final_data_is_not_waited_for_long() -> None:
    world, client = running_client()
    world.environment.events.failed("OnAction", "gone")
    world.clock.advance(10)
    assert world.trial.state is State.ENDED
    assert isinstance(client.reader.error, LateError)


@pytest.mark.parametrize("first", ["agent ends", "client reads"])
def test_stream_that_opens_while_an_agent_ends_takes_the_final_data(first: str) -> None:
    world, client = running_client(agents=1)
    client.hang_up()
    world.environment.events.failed("OnAction", "gone")
    assert world.trial.state is State.TERMINATING
    client.rejoin()
    if first == "agent ends":
        world.agent().events.ended()
    assert world.trial.state is State.TERMINATING
    assert client.read()[-1].final_data
    assert client.reader.error is None
    if first == "client reads":
        assert world.trial.state is State.TERMINATING
        world.agent().events.ended()
    assert world.trial.state is State.ENDED


# --- opening ---------------------------------------------------------------------------------


def test_stream_of_an_actor_that_is_not_a_joined_client_raises() -> None:
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


def test_stream_after_the_final_data_raises() -> None:
    world, client = running_client()
    world.environment.events.failed("OnAction", "gone")
    client.read()
    with pytest.raises(PreconditionError, match="over"):
        client.open()
