"""Actors that are optional, late or gone: on the engine, in a test's own time, and by gRPC."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cogrs.api.agent_pb2 import AgentActionReply
from cogrs.api.common_pb2 import Action, ActorParams
from cogrs.orchestrator import ActorOptions, Settings
from cogrs.orchestrator.engine.actor_options import OptionTable
from cogrs.orchestrator.engine.state import State
from tests.orchestrator.net import Net, act, on_loop
from tests.orchestrator.world import World, actions, reward

DEFAULT = ActorOptions(default_action=b"default", response_timeout=2.0)
OPTIONAL = ActorOptions(optional=True, default_action=b"default")


def test_default_action_stands_in_for_one_that_is_late() -> None:
    world = World(agents=2, class_options={"agent": DEFAULT}).run()
    world.act(a1=b"own")
    world.clock.advance(1.9)
    assert actions(world) == []
    world.clock.advance(0.2)
    assert actions(world) == [[b"default", b"own"]]
    assert world.trial.counts == {"default actions": 1}
    assert world.trial.state is State.RUNNING


def test_action_in_time_is_not_replaced() -> None:
    world = World(agents=2, class_options={"agent": DEFAULT}).run()
    world.act()
    world.clock.advance(60.0)
    assert actions(world) == [[b"x", b"x"]]
    assert not world.trial.counts


def test_response_timeout_restarts_with_each_observation() -> None:
    world = World(agents=1, class_options={"agent": DEFAULT}).run()
    for number in range(1, 4):
        world.clock.advance(1.5)
        world.act(a0=b"own%d" % number)
        world.clock.advance(5.0)  # the environment may take its time
        world.step(number)
    world.clock.advance(2.1)
    assert actions(world) == [[b"own1"], [b"own2"], [b"own3"], [b"default"]]


def test_action_after_the_default_one_is_extra_until_the_next_observation() -> None:
    world = World(agents=2, class_options={"agent": DEFAULT}).run()
    world.act(a0=b"a")
    world.clock.advance(2.1)
    world.act(a1=b"late")
    assert world.trial.counts == {"default actions": 1, "extra actions": 1}
    world.step(1)
    world.act()
    assert actions(world) == [[b"a", b"default"], [b"x", b"x"]]


def test_log_says_which_actions_are_default_ones() -> None:
    options = {"a1": DEFAULT, "a2": OPTIONAL, "a3": ActorOptions(observer=True)}
    world = World(agents=4, log=True, actor_options=options).run()
    world.agent("a2").events.failed("RunTrial", "broke")
    world.act(a0=b"a")
    world.clock.advance(2.1)
    world.step(1)
    world.act(a0=b"a", a1=b"own")
    world.step(2, final_update=True)
    world.drain()
    logged = world.log.of("sample")
    assert [list(sample.stood_in) for sample in logged] == [[1, 2], [2], []]
    assert [each.content for each in logged[1].actions] == [b"a", b"own", b"default", b""]


def test_without_a_default_action_a_late_actor_ends_the_trial() -> None:
    world = World(agents=2, class_options={"agent": ActorOptions(response_timeout=2.0)}).run()
    world.act(a0=b"a")
    world.clock.advance(2.1)
    assert world.trial.end_reason == "actor 'a1': no action within 2 s"
    world.drain()
    assert world.seen()[-1] is State.ENDED
    assert world.clock.waiting == 1  # that it is forgotten


def test_without_a_default_action_a_late_optional_actor_is_gone() -> None:
    options = {"a1": ActorOptions(optional=True, response_timeout=2.0)}
    world = World(agents=2, actor_options=options).run()
    world.act(a0=b"a")
    world.clock.advance(2.1)
    assert actions(world) == [[b"a", b""]]
    world.act(a1=b"too late")
    world.step(1)
    world.act(a0=b"b")
    assert actions(world)[1:] == [[b"b", b""]]
    assert len(world.agent("a1").of("deliver")) == 1


@pytest.mark.parametrize("how", ["OnStart fails", "OnStart is late", "nobody joins"])
def test_trial_starts_without_an_optional_actor(how: str) -> None:
    options = ActorOptions(optional=True, initial_connection_timeout=7.0)
    clients = int(how == "nobody joins")
    world = World(
        agents=2 - clients,
        clients=clients,
        actor_options={"a1": options, "c0": options},
        settings=Settings(start_timeout=1000.0, join_timeout=1000.0),
    )
    world.environment.events.started(world.start_reply())
    world.agent("a0").events.started()
    if how == "OnStart fails":
        world.agent("a1").events.failed("OnStart", "no")
    else:
        world.clock.advance(6.9)
        assert world.trial.state is State.PENDING
        world.clock.advance(0.2)
    assert world.trial.state is State.RUNNING
    world.act(a0=b"a")
    assert actions(world) == [[b"a", b""]]
    world.orchestrator.terminate(world.trial.id)
    world.step(1)
    world.drain()
    assert world.trial.state is State.ENDED


def test_initial_connection_timeout_replaces_the_settings() -> None:
    options = {"a0": ActorOptions(initial_connection_timeout=5.0)}
    world = World(agents=1, actor_options=options)
    world.clock.advance(5.1)
    assert world.trial.end_reason.endswith("OnStart: no answer within 5 s")
    endless = {"c0": ActorOptions(initial_connection_timeout=0.0)}
    world = World(agents=0, clients=1, actor_options=endless)
    world.environment.events.started(world.start_reply())
    world.clock.advance(1e6)
    assert world.trial.state is State.PENDING


def test_trial_goes_on_without_an_optional_agent_that_fails() -> None:
    world = World(agents=3, actor_options={"a1": OPTIONAL}, log=True).run()
    world.act(a0=b"a", a2=b"c")
    world.agent("a1").events.failed("OnObservation", "broken")
    assert actions(world) == [[b"a", b"default", b"c"]]
    world.step(1, rewards=[reward("a1", 1.0)])
    world.act(a0=b"a", a2=b"c")
    world.step(2, final_update=True)
    # Its session is to be freed, and what it missed is in the log.
    assert "end" in world.agent("a1").names
    samples = world.log.of("sample")
    assert [reward.receiver_name for reward in samples[0].rewards] == []
    assert [reward.receiver_name for reward in samples[1].rewards] == ["a1"]
    world.drain()
    assert world.trial.state is State.ENDED


def test_session_of_an_optional_agent_that_starts_too_late_is_freed() -> None:
    options = ActorOptions(optional=True, initial_connection_timeout=1.0)
    world = World(agents=2, actor_options={"a1": options})
    world.environment.events.started(world.start_reply())
    world.agent("a0").events.started()
    world.clock.advance(1.1)
    world.agent("a1").events.started()
    world.act(a0=b"a")
    world.step(1, final_update=True)
    assert "end" in world.agent("a1").names
    world.drain()
    assert world.trial.state is State.ENDED


@pytest.mark.parametrize("running", [False, True])
def test_trial_without_any_actor_ends(running: bool) -> None:
    world = World(agents=2, class_options={"agent": OPTIONAL})
    if running:
        world.run()
    for agent in world.agents:
        agent.events.failed("OnObservation" if running else "OnStart", "gone")
    assert world.trial.end_reason.startswith("no actor is left: actor 'a1'")


def test_optional_client_that_stays_away_is_replaced_and_may_come_back() -> None:
    world = World(agents=1, clients=1, actor_options={"c0": OPTIONAL})
    client = world.client()
    world.run()
    client.read()
    client.hang_up()
    world.act(a0=b"a")
    world.clock.advance(29.0)
    assert actions(world) == []  # it may be back in time
    world.clock.advance(2.0)
    assert actions(world) == [[b"a", b"default"]]
    for number in (1, 2):
        world.step(number)
        world.act(a0=b"a")
    assert actions(world) == [[b"a", b"default"]] * 3
    world.step(3)
    back = world.client()
    (reply,) = back.read()
    assert reply.data.observations[0].tick_id == 3
    back.act(b"own")
    world.act(a0=b"a")
    assert actions(world)[3:] == [[b"a", b"own"]]
    _, request = world.environment.of("act")[-1]
    assert request.reply_with_snapshot


@pytest.mark.parametrize("how", ["hangs up", "is silent"])
def test_default_action_stands_in_for_a_client_that_may_come_back(how: str) -> None:
    options = {"c0": ActorOptions(default_action=b"d", response_timeout=4.0)}
    settings = Settings(heartbeat_timeout=3.0, reconnect_window=30.0)
    world = World(agents=0, clients=1, actor_options=options, settings=settings)
    client = world.client()
    world.run()
    client.read()
    if how == "hangs up":
        client.hang_up()
    world.clock.advance(3.9)
    assert client.actor.returnable
    assert actions(world) == []
    world.clock.advance(0.2)
    world.step(1)
    world.clock.advance(4.1)
    assert actions(world) == [[b"d"], [b"d"]]
    assert world.trial.state is State.RUNNING
    world.clock.advance(30.0)
    assert "did not return within 30 s" in world.trial.end_reason


def test_response_timeout_restarts_for_a_client_that_comes_back() -> None:
    options = {"c0": ActorOptions(optional=True, default_action=b"d", response_timeout=2.0)}
    world = World(agents=1, clients=1, actor_options=options)
    client = world.client()
    world.run()
    client.hang_up()
    world.clock.advance(2.1)  # its default action, before it is gone
    back = world.client()
    assert back.read()
    world.act(a0=b"a")
    assert actions(world) == []
    world.clock.advance(2.1)
    assert actions(world) == [[b"a", b"d"]]


def test_silent_client_is_not_kept_by_its_default_action() -> None:
    options = {"c0": ActorOptions(default_action=b"d", response_timeout=2.0)}
    world = World(agents=0, clients=1, actor_options=options)
    client = world.client()
    world.run()
    for number in range(1, 15):
        world.clock.advance(2.0)
        world.clock.advance(1.0)  # the environment's, in which nothing is owed
        assert client.reader.error is None
        world.step(number)
        client.read()
    for number in (15, 16):
        world.clock.advance(2.0)
        world.step(number)
    world.clock.advance(0.1)
    assert "not heard from within 30 s" in str(client.reader.error)


def test_client_without_a_pending_action_does_not_time_out_during_a_slow_step() -> None:
    options = {"c0": ActorOptions(default_action=b"d", response_timeout=2.0)}
    world = World(agents=0, clients=1, actor_options=options)
    client = world.client()
    world.run()
    client.read()
    world.clock.advance(2.1)
    assert actions(world) == [[b"d"]]
    world.clock.advance(300.0)
    assert client.reader.error is None
    world.step(1)
    client.read()
    client.act(b"own")
    assert actions(world) == [[b"d"], [b"own"]]


def test_sign_of_life_restarts_the_heartbeat_timeout() -> None:
    options = {"c0": ActorOptions(default_action=b"d", response_timeout=20.0)}
    world = World(agents=0, clients=1, actor_options=options)
    client = world.client()
    world.run()
    for number in (1, 2, 3):
        world.clock.advance(10.0)
        client.actor.heard()
        world.clock.advance(10.1)
        world.step(number)
        client.read()
    assert client.reader.error is None
    assert len(actions(world)) == 3


def test_late_optional_client_gets_an_error() -> None:
    options = {"c0": ActorOptions(optional=True, response_timeout=2.0)}
    world = World(agents=1, clients=1, actor_options=options)
    client = world.client()
    world.run()
    world.act(a0=b"a")
    world.clock.advance(2.1)
    assert str(client.reader.error) == "actor 'c0': no action within 2 s"
    assert actions(world) == [[b"a", b""]]
    world.step(1, final_update=True)
    world.drain()
    assert world.trial.state is State.ENDED


def test_client_that_does_not_read_is_hung_up() -> None:
    options = {"c0": ActorOptions(default_action=b"d", response_timeout=1.0)}
    settings = Settings(heartbeat_timeout=0.0, client_backlog=5)
    world = World(agents=0, clients=1, actor_options=options, settings=settings)
    client = world.client()
    world.run()
    for number in range(1, 6):
        world.clock.advance(1.1)
        assert client.reader.error is None
        world.step(number)
    assert str(client.reader.error) == "actor 'c0': 6 ticks wait to be read"


def test_client_that_does_not_read_may_end_the_trial() -> None:
    options = {"c0": ActorOptions(default_action=b"d", response_timeout=1.0)}
    settings = Settings(heartbeat_timeout=0.0, reconnect_window=0.0, client_backlog=1)
    world = World(agents=1, clients=1, actor_options=options, settings=settings)
    world.client()
    world.run()
    world.act(a0=b"a")
    world.clock.advance(1.1)
    world.step(1)
    assert "2 ticks wait" in world.trial.end_reason or "did not read" in world.trial.end_reason
    assert world.environment.names.count("end") == 1
    world.drain()
    assert world.trial.state is State.ENDED


def test_default_actions_are_not_taken_when_the_trial_ends() -> None:
    world = World(agents=2, class_options={"agent": DEFAULT}).run()
    world.orchestrator.terminate(world.trial.id)
    world.clock.advance(10.0)
    assert actions(world) == []
    (_, request), *_ = world.environment.of("end")
    assert list(request.action_set.actions) == [b"", b""]
    world.agent("a0").events.failed("OnObservation", "gone")
    world.drain()
    assert world.trial.state is State.ENDED


_SECONDS = st.none() | st.floats(0, 1e6)
_OPTIONS = st.builds(
    ActorOptions,
    optional=st.none() | st.booleans(),
    default_action=st.none() | st.binary(max_size=3),
    response_timeout=_SECONDS,
    initial_connection_timeout=_SECONDS,
)


@given(_OPTIONS, _OPTIONS)
def test_options_by_name_come_first_field_by_field(
    named: ActorOptions, classed: ActorOptions
) -> None:
    book = OptionTable(by_name={"n": named}, by_class={"c": classed})
    both = book.of(ActorParams(name="n", actor_class="c"))
    for field in ("optional", "default_action", "response_timeout", "initial_connection_timeout"):
        one, other = getattr(named, field), getattr(classed, field)
        assert getattr(both, field) == (other if one is None else one)
    assert book.of(ActorParams(name="n")) == named
    assert book.of(ActorParams(name="m", actor_class="c")) == classed
    assert book.of(ActorParams(name="m", actor_class="d")) == ActorOptions()


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"optional": 1}, TypeError, "optional: expected True or False, got int"),
        ({"default_action": "x"}, TypeError, "default_action: expected bytes, got str"),
        (
            {"response_timeout": True},
            TypeError,
            "response_timeout: expected seconds >= 0, got bool",
        ),
        ({"response_timeout": -1}, ValueError, "response_timeout: expected seconds >= 0, got -1"),
        ({"initial_connection_timeout": float("nan")}, ValueError, "seconds >= 0, got nan"),
        ({"initial_connection_timeout": float("inf")}, ValueError, "seconds >= 0, got inf"),
    ],
)
def test_bad_options_are_refused_by_name(
    arguments: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        ActorOptions(**arguments)


@on_loop
async def test_options_of_actors_work_by_grpc() -> None:
    net = Net(agents=2, clients=1, settings=Settings(reconnect_window=0.2))
    net.config = {
        "class_options": {"agent": ActorOptions(default_action=b"slow", response_timeout=2.0)},
        "actor_options": {"c0": ActorOptions(optional=True, default_action=b"gone")},
    }

    async def sometimes(trial_id: str, name: str, observation: Any) -> AgentActionReply:
        if name == "a1" and observation.tick_id == 1:
            await slow.wait()
        return AgentActionReply(action=Action(content=name.encode()))

    slow = asyncio.Event()
    net.agents.act = sometimes  # type: ignore[method-assign]
    async with net:
        trial_id = await net.start()
        await net.join(trial_id)
        stream = net.client(trial_id)
        await stream.read()
        await stream.write(act(b"c"))
        await stream.read()
        stream.cancel()
        assert await net.end_of(trial_id) == "environment: final update"
        sent = [list(each.action_set.actions) for each in net.environment.of(trial_id, "action")]
        assert sent[0] == [b"a0", b"a1", b"c"]
        assert sent[1] == [b"a0", b"slow", b"gone"]
        assert {each[2] for each in sent[2:]} == {b"gone"}
        assert len(sent) == 5
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await net.join(trial_id)
        assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
