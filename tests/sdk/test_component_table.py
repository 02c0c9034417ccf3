"""ComponentTable are freed in every case; a stub calls, as odd as an orchestrator may be."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
import pytest

from cogrs import sdk
from cogrs.api import agent_pb2 as agent
from cogrs.api import environment_pb2 as environment
from cogrs.api.agent_pb2_grpc import AgentEndpointStub
from cogrs.api.common_pb2 import Message, Observation, TrialActor, VersionRequest
from cogrs.api.environment_pb2_grpc import EnvironmentEndpointStub
from cogrs.sdk.agent_host import AgentHost
from cogrs.sdk.codecs import CodecRegistry
from cogrs.sdk.environment_host import EnvironmentHost
from tests.orchestrator.net import on_loop, whom
from tests.sdk.net import LOST, Counting, Echo, calls, kinds, named, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TRIAL = whom("t")
ACTOR = whom("t", "a0")
ACTORS = [TrialActor(name="a0", actor_class="player")]
SEEN = Observation()
SEEN.data.content = sdk.ArrayCodec().encode([7])
ACT = environment.EnvActionRequest()
ACT.action_set.actions.append(SEEN.data.content)


class Parts:
    """Stubs to an endpoint, and what was called there."""

    def __init__(self, endpoint: sdk.Endpoint, channel: grpc.aio.Channel) -> None:
        self.endpoint = endpoint
        self.channel = channel
        self.environment: Any = EnvironmentEndpointStub(channel)
        self.agent: Any = AgentEndpointStub(channel)

    async def start(self) -> None:
        request = environment.EnvStartRequest(actors_in_trial=ACTORS)
        await self.environment.OnStart(request, metadata=TRIAL)
        await self.agent.OnStart(agent.AgentStartRequest(actors_in_trial=ACTORS), metadata=ACTOR)

    def components(self) -> int:
        return sum(len(host.components) for host in self.endpoint._hosts)


@asynccontextmanager
async def parts(environment: Any, agent: Any) -> AsyncIterator[Parts]:
    async with (
        await sdk.serve(environments={"env": environment}, agents={"agent": agent}) as endpoint,
        grpc.aio.insecure_channel(endpoint.address.removeprefix("grpc://")) as channel,
    ):
        yield Parts(endpoint, channel)


async def refused(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code(), caught.value.details() or ""


@on_loop
async def test_calls_without_metadata_are_refused() -> None:
    async with parts(lambda: Counting(calls()), lambda: Echo(calls())) as net:
        code = grpc.StatusCode.INVALID_ARGUMENT
        text = "metadata: expected trial-id; missing: trial-id"
        assert await refused(net.environment.OnStart(environment.EnvStartRequest())) == (code, text)
        text = "metadata: expected trial-id, actor-name; missing: actor-name"
        call = net.agent.OnStart(agent.AgentStartRequest(), metadata=TRIAL)
        assert await refused(call) == (code, text)


@on_loop
async def test_calls_before_the_start_and_after_the_end_are_not_found() -> None:
    told, heard = calls(), calls()
    async with parts(lambda: Counting(told), lambda: Echo(heard)) as net:

        async def all_refused() -> None:
            for call in (
                net.environment.OnEnd(ACT, metadata=TRIAL),
                net.environment.OnMessage(environment.EnvMessageRequest(), metadata=TRIAL),
                net.environment.OnAction(metadata=TRIAL).read(),
            ):
                text = "trial t: environment is not served here"
                assert await refused(call) == (grpc.StatusCode.NOT_FOUND, text)
            for call in (
                net.agent.OnReward(agent.AgentRewardRequest(), metadata=ACTOR),
                net.agent.OnMessage(agent.AgentMessageRequest(), metadata=ACTOR),
                net.agent.OnObservation(metadata=ACTOR).read(),
                net.agent.OnEnd(agent.AgentEndRequest(), metadata=ACTOR),
            ):
                text = "trial t: actor 'a0' is not served here"
                assert await refused(call) == (grpc.StatusCode.NOT_FOUND, text)

        await all_refused()
        await net.start()
        messages = [Message(sender_name="a0", tick_id=1)] * 2
        await net.environment.OnMessage(
            environment.EnvMessageRequest(messages=messages), metadata=TRIAL
        )
        assert (await net.environment.OnEnd(ACT, metadata=TRIAL)).final_update
        await net.agent.OnEnd(agent.AgentEndRequest(), metadata=ACTOR)
        assert net.components() == 0
        await all_refused()
    assert kinds(told["t"]) == ["start", "message", "message", "end"]
    assert kinds(heard["t", "a0"]) == ["start", "end"]


@on_loop
async def test_second_start_of_a_component_is_refused() -> None:
    told, heard = calls(), calls()
    async with parts(lambda: Counting(told), lambda: Echo(heard)) as net:
        await net.start()
        call = net.environment.OnStart(environment.EnvStartRequest(), metadata=TRIAL)
        exists = grpc.StatusCode.ALREADY_EXISTS
        assert await refused(call) == (exists, "trial t: environment is already served here")
        call = net.agent.OnStart(agent.AgentStartRequest(), metadata=ACTOR)
        assert await refused(call) == (exists, "trial t: actor 'a0' is already served here")
        stream = net.environment.OnAction(metadata=TRIAL)
        await stream.write(ACT)
        await stream.read()
        second = net.environment.OnAction(metadata=TRIAL).read()
        assert await refused(second) == (exists, "trial t: environment has a stream already")
        await stream.write(ACT)
        assert (await stream.read()).observation_set.tick_id == 2
    assert kinds(told["t"]) == ["start", "step", "step", "lost"]


@pytest.mark.parametrize("how", ["cancel", "half-close", "lost connection"])
@on_loop
async def test_stream_that_ends_without_an_end_call_frees_its_session(how: str) -> None:
    told, heard = calls(), calls()
    async with parts(lambda: Counting(told), lambda: Echo(heard)) as net:
        await net.start()
        actions = net.environment.OnAction(metadata=TRIAL)
        observations = net.agent.OnObservation(metadata=ACTOR)
        await actions.write(ACT)
        await observations.write(agent.AgentObservationRequest(observation=SEEN))
        await actions.read()
        await observations.read()
        assert net.components() == 2
        if how == "lost connection":
            await net.channel.close()
        for stream in (actions, observations):
            if how == "cancel":
                stream.cancel()
            elif how == "half-close":
                await stream.done_writing()
        await until(lambda: LOST in told["t"])
        await until(lambda: LOST in heard["t", "a0"])
        assert net.components() == 0
    assert kinds(told["t"]) == ["start", "step", "lost"]
    assert kinds(heard["t", "a0"]) == ["start", "act", "lost"]


class Stuck(Counting):
    """An environment that waits for ever, until it is cancelled."""

    at = "step"

    async def start(self, trial: sdk.Trial) -> Any:
        update = super().start(trial)
        await self.wait("start")
        return update

    async def step(self, actions: Any) -> Any:
        await self.wait("step")

    async def wait(self, at: str) -> None:
        if at == self.at:
            self.calls.append(("stuck", None))
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.calls.append(("cancelled", None))
                raise


class StuckAtStart(Stuck):
    at = "start"


@on_loop
async def test_step_is_abandoned_when_its_stream_is_cancelled() -> None:
    told = calls()
    async with parts(lambda: Stuck(told), lambda: Echo(calls())) as net:
        await net.start()
        stream = net.environment.OnAction(metadata=TRIAL)
        await stream.write(ACT)
        await until(lambda: ("stuck", None) in told["t"])
        stream.cancel()
        await until(lambda: LOST in told["t"])
    assert kinds(told["t"]) == ["start", "stuck", "cancelled", "lost"]


@on_loop
async def test_end_of_a_trial_waits_for_a_step_that_was_given_up() -> None:
    told = calls()
    async with parts(lambda: Stuck(told), lambda: Echo(calls())) as net:
        await net.start()
        stream = net.environment.OnAction(metadata=TRIAL)
        await stream.write(ACT)
        await until(lambda: ("stuck", None) in told["t"])
        end = net.environment.OnEnd(environment.EnvActionRequest(), metadata=TRIAL)
        # The end has come in when the session cannot be had any more.
        await until(lambda: not net.endpoint._hosts[0].components)
        code, _ = await refused(net.environment.OnEnd(ACT, metadata=TRIAL))
        assert code is grpc.StatusCode.NOT_FOUND
        stream.cancel()
        assert (await end).observation_set.tick_id == 0
    assert kinds(told["t"]) == ["start", "stuck", "cancelled", "end"]


@on_loop
async def test_cancelled_start_leaves_no_session() -> None:
    told = calls()
    async with parts(lambda: StuckAtStart(told), lambda: Echo(calls())) as net:
        request = environment.EnvStartRequest(actors_in_trial=ACTORS)
        call = net.environment.OnStart(request, metadata=TRIAL)
        sent = asyncio.ensure_future(call.code())
        await until(lambda: ("stuck", None) in told["t"])
        call.cancel()
        await sent
        await until(lambda: LOST in told["t"])
        assert net.components() == 0
    assert kinds(told["t"]) == ["start", "stuck", "cancelled", "lost"]


@on_loop
async def test_cancelled_agent_start_leaves_no_episode() -> None:
    class Hesitant(Echo):
        async def start(self, trial: sdk.Trial) -> None:
            super().start(trial)
            await asyncio.Event().wait()

    heard = calls()
    async with parts(lambda: Counting(calls()), lambda: Hesitant(heard)) as net:
        call = net.agent.OnStart(agent.AgentStartRequest(actors_in_trial=ACTORS), metadata=ACTOR)
        sent = asyncio.ensure_future(call.code())
        await until(lambda: kinds(heard["t", "a0"]) == ["start"])
        call.cancel()
        await sent
        await until(lambda: LOST in heard["t", "a0"])
        assert net.components() == 0


@on_loop
async def test_stopping_the_server_loses_requests_in_flight() -> None:
    told, heard = calls(), calls()
    async with parts(lambda: Stuck(told), lambda: Echo(heard)) as net:
        await net.start()
        stream = net.environment.OnAction(metadata=TRIAL)
        await stream.write(ACT)
        await until(lambda: ("stuck", None) in told["t"])
        await net.endpoint.stop(0)
        assert net.components() == 0
        assert told["t"][-1] == heard["t", "a0"][-1] == LOST
        await net.endpoint.stop(0)
        await net.endpoint.wait()
    assert kinds(told["t"]) == ["start", "stuck", "cancelled", "lost"]


@on_loop
async def test_lost_that_does_not_return_does_not_keep_the_server_from_stopping() -> None:
    class Clinging(Echo):
        async def lost(self) -> None:
            await asyncio.Event().wait()

    async with parts(lambda: Counting(calls()), lambda: Clinging(calls())) as net:
        await net.start()
        logging.disable()
        try:
            await net.endpoint.stop(0.01)
        finally:
            logging.disable(logging.NOTSET)
        assert net.components() == 0


@on_loop
async def test_session_without_a_stream_is_freed() -> None:
    told, heard = calls(), calls()
    hosts = (
        EnvironmentHost({"env": lambda: Counting(told)}, CodecRegistry(None), 0.01),
        AgentHost({"agent": lambda: Echo(heard)}, CodecRegistry(None), 0.01),
    )
    await hosts[0].on_start("t", environment.EnvStartRequest(actors_in_trial=ACTORS))
    await hosts[1].on_start("t", "a0", agent.AgentStartRequest(actors_in_trial=ACTORS))
    await until(lambda: LOST in told["t"])
    await until(lambda: LOST in heard["t", "a0"])
    assert [len(host.components) for host in hosts] == [0, 0]


@on_loop
async def test_open_stream_may_be_silent_beyond_the_timeout_of_a_start() -> None:
    told = calls()
    host = EnvironmentHost({"env": lambda: Counting(told)}, CodecRegistry(None), 0.01)
    await host.on_start("t", environment.EnvStartRequest(actors_in_trial=ACTORS))

    async def requests() -> AsyncIterator[environment.EnvActionRequest]:
        await asyncio.sleep(0.1)
        yield ACT

    ticks = [reply.observation_set.tick_id async for reply in host.on_action("t", requests())]
    assert ticks == [1]
    await host.close()
    assert kinds(told["t"]) == ["start", "step", "lost"]


@on_loop
async def test_methods_of_one_agent_do_not_overlap() -> None:
    inside: list[str] = []
    go = asyncio.Event()

    class Alone(sdk.Agent):
        async def message(self, message: Any) -> None:
            inside.append("in")
            await go.wait()
            inside.append("out")

    async with parts(lambda: Counting(calls()), Alone) as net:
        await net.start()
        request = agent.AgentMessageRequest(messages=[Message()])
        both = [
            asyncio.ensure_future(net.agent.OnMessage(request, metadata=ACTOR).code())
            for _ in range(2)
        ]
        await until(lambda: inside)
        # A call that was sent later has been answered; the second message waits all the same.
        await net.agent.Version(VersionRequest())
        assert inside == ["in"]
        go.set()
        await asyncio.gather(*both)
        await net.agent.OnEnd(agent.AgentEndRequest(), metadata=ACTOR)
    assert inside == ["in", "out"] * 2


@on_loop
async def test_unawaited_action_does_not_delay_the_end() -> None:
    class Stubborn(Echo):
        async def reward(self, reward: Any) -> None:
            self.calls.append(("reward", reward))
            await go.wait()

        async def act(self, observation: Any) -> None:
            self.calls.append(("act", observation))
            await asyncio.Event().wait()

    go = asyncio.Event()
    heard = calls()
    async with parts(lambda: Counting(calls()), lambda: Stubborn(heard)) as net:
        await net.start()
        told = asyncio.ensure_future(
            net.agent.OnReward(agent.AgentRewardRequest(), metadata=ACTOR).code()
        )
        await until(lambda: named(heard["t", "a0"], "reward"))
        stream = net.agent.OnObservation(metadata=ACTOR)
        await stream.write(agent.AgentObservationRequest(observation=SEEN))
        end = asyncio.ensure_future(net.agent.OnEnd(agent.AgentEndRequest(), metadata=ACTOR).code())
        await until(lambda: not net.endpoint._hosts[1].components)
        go.set()
        assert await end is grpc.StatusCode.OK
        assert await told is grpc.StatusCode.OK
        assert await stream.read() is grpc.aio.EOF
        assert await stream.code() is grpc.StatusCode.OK
    assert kinds(heard["t", "a0"]) == ["start", "reward", "end"]


@on_loop
async def test_each_actor_has_one_action() -> None:
    told = calls()
    async with parts(lambda: Counting(told), lambda: Echo(calls())) as net:
        await net.start()
        stream = net.environment.OnAction(metadata=TRIAL)
        await stream.write(environment.EnvActionRequest())
        code, text = await refused(stream.read())
        assert code is grpc.StatusCode.UNKNOWN
        assert text.endswith("step failed: ValueError: actions: expected 1, got 0")
        await until(lambda: LOST in told["t"])


@on_loop
async def test_version_calls_return_api_and_grpc_versions() -> None:
    async with parts(lambda: Counting(calls()), lambda: Echo(calls())) as net:
        for stub in (net.environment, net.agent):
            reply = await stub.Version(VersionRequest())
            versions = {each.name: each.version for each in reply.versions}
            assert versions["cogment-api"] == "1.0.0-alpha6"
            assert versions["grpc"] == grpc.__version__
