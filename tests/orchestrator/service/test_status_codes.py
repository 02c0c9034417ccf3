"""What services answer to requests that cannot be met, and what they tell."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import grpc.aio
import pytest

import cogrs
from cogrs.api import orchestrator_pb2 as api
from cogrs.api.common_pb2 import ActorParams, VersionRequest
from cogrs.orchestrator import Settings
from tests.orchestrator.net import Net, on_loop, whom
from tests.orchestrator.world import message, reward


async def status_of(call: Any) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    assert caught.value.details()
    return str(caught.value.code().name)


@on_loop
async def test_version_call_returns_versions() -> None:
    async with Net() as net:
        for service in (net.lifecycle, net.actors):
            info = await service.Version(VersionRequest())
            versions = {each.name: each.version for each in info.versions}
            assert set(versions) == {"orchestrator", "cogment-api", "grpc"}
            assert versions["orchestrator"] == cogrs.__version__
            assert versions["cogment-api"] == "1.0.0-alpha6"
            assert versions["grpc"] == grpc.__version__


@on_loop
async def test_lifecycle_calls_return_the_expected_status_codes() -> None:
    async with Net(actors=[ActorParams(name="env", endpoint="client")]) as net:
        life = net.lifecycle
        unknown = whom("no such trial")
        assert await status_of(life.StartTrial(api.TrialStartRequest())) == "INVALID_ARGUMENT"
        end = api.TerminateTrialRequest()
        assert await status_of(life.TerminateTrial(end)) == "INVALID_ARGUMENT"
        assert await status_of(life.TerminateTrial(end, metadata=unknown)) == "NOT_FOUND"
        info = api.TrialInfoRequest()
        assert await status_of(life.GetTrialInfo(info, metadata=unknown)) == "NOT_FOUND"
        (failed,) = (await life.GetTrialInfo(info)).trial
        assert failed.state == api.ENDED
        watch = life.WatchTrials(api.TrialListRequest(filter=[99]))
        assert await status_of(watch.read()) == "INVALID_ARGUMENT"


@on_loop
async def test_undeclared_actor_class_is_refused() -> None:
    net = Net(agents=1, clients=1)
    net.config = {"classes": frozenset({"player"})}
    async with net:
        start = net.lifecycle.StartTrial(api.TrialStartRequest())
        assert await status_of(start) == "INVALID_ARGUMENT"


@on_loop
async def test_client_actor_calls_return_the_expected_status_codes() -> None:
    async with Net(agents=1, clients=1) as net:
        trial_id = await net.start()

        async def join(**fields: str) -> str:
            return await status_of(net.actors.JoinTrial(api.TrialJoinRequest(**fields)))

        assert await join(trial_id="unknown", actor_name="c0") == "NOT_FOUND"
        assert await join(trial_id=trial_id, actor_name="nobody") == "NOT_FOUND"
        assert await join(trial_id=trial_id) == "INVALID_ARGUMENT"
        assert await join(trial_id=trial_id, actor_class="nothing") == "INVALID_ARGUMENT"
        assert await join(trial_id=trial_id, actor_name="a0") == "INVALID_ARGUMENT"
        assert await join(actor_name="nobody") == "FAILED_PRECONDITION"

        async def stream(*metadata: Any) -> str:
            return await status_of(net.actors.ActionStream(metadata=metadata).read())

        assert await stream() == "INVALID_ARGUMENT"
        assert await stream(*whom(trial_id)) == "INVALID_ARGUMENT"
        assert await stream(*whom(trial_id, "c0")) == "FAILED_PRECONDITION"
        assert await stream(*whom(trial_id, "nobody")) == "NOT_FOUND"
        await net.join(trial_id)
        assert await join(trial_id=trial_id, actor_name="c0") == "FAILED_PRECONDITION"
        open_stream = net.client(trial_id)
        await open_stream.initial_metadata()
        assert await stream(*whom(trial_id, "c0")) == "ALREADY_EXISTS"
        open_stream.cancel()


@pytest.mark.parametrize("call", ["Heartbeat", "SendReward", "SendMessage"])
@on_loop
async def test_rewards_and_messages_of_clients_return_the_expected_status_codes(call: str) -> None:
    async with Net(agents=1, clients=1) as net:
        trial_id = await net.start()
        await net.join(trial_id)
        requests = {
            "Heartbeat": api.TrialHeartbeatRequest(),
            "SendReward": api.TrialRewardRequest(rewards=[reward("nobody", 1)]),
            "SendMessage": api.TrialMessageRequest(messages=[message("nobody", "x")]),
        }

        def send(*metadata: Any) -> Any:
            return getattr(net.actors, call)(requests[call], metadata=metadata)

        await send(*whom(trial_id, "c0"))
        assert await status_of(send()) == "INVALID_ARGUMENT"
        assert await status_of(send(*whom(trial_id))) == "INVALID_ARGUMENT"
        assert await status_of(send(*whom("unknown", "c0"))) == "NOT_FOUND"
        assert await status_of(send(*whom(trial_id, "nobody"))) == "NOT_FOUND"
        await net.lifecycle.TerminateTrial(api.TerminateTrialRequest(), metadata=whom(trial_id))
        await net.until(trial_id)
        if call != "Heartbeat":
            assert await status_of(send(*whom(trial_id, "c0"))) == "FAILED_PRECONDITION"


@on_loop
async def test_watchers_get_unavailable_when_the_orchestrator_stops() -> None:
    async with Net() as net:
        watch = net.lifecycle.WatchTrials(api.TrialListRequest())
        await watch.initial_metadata()
        stopping = asyncio.ensure_future(net.orchestrator.stop(30))
        assert await status_of(watch.read()) == "UNAVAILABLE"
        await stopping


@on_loop
async def test_slow_watcher_gets_an_error() -> None:
    async with Net(actors=[], settings=Settings(watch_backlog=2)) as net:
        watch = net.lifecycle.WatchTrials(api.TrialListRequest())
        await watch.initial_metadata()
        # Without a hook it goes through all its states before the watcher has a turn.
        assert await status_of(net.lifecycle.StartTrial(api.TrialStartRequest())) == (
            "INVALID_ARGUMENT"
        )
        assert [(await watch.read()).state for _ in range(2)] == [api.INITIALIZING, api.TERMINATING]
        assert await status_of(watch.read()) == "RESOURCE_EXHAUSTED"


@on_loop
async def test_ended_trials_are_forgotten() -> None:
    async with Net(settings=Settings(retention=0.2)) as net:
        trial_id = await net.start()
        await net.until(trial_id)
        (info,) = (await net.lifecycle.GetTrialInfo(api.TrialInfoRequest())).trial
        assert (info.trial_id, info.state) == (trial_id, api.ENDED)
        for _ in range(200):
            if not (await net.lifecycle.GetTrialInfo(api.TrialInfoRequest())).trial:
                break
            await asyncio.sleep(0.05)
        unknown = net.lifecycle.GetTrialInfo(api.TrialInfoRequest(), metadata=whom(trial_id))
        assert await status_of(unknown) == "NOT_FOUND"
