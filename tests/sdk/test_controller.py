"""Starting, watching and ending trials."""

from __future__ import annotations

import asyncio
import uuid

import grpc
import pytest

import cogrs
from cogrs import sdk
from cogrs.orchestrator import Settings
from cogrs.sdk import TrialState
from tests.orchestrator.net import on_loop
from tests.sdk.net import Counting, Echo, calls, until, world


class Endless(Counting):
    length = -1


@on_loop
async def test_controller_sees_the_states_of_a_trial() -> None:
    async with world(
        lambda: Endless(calls()), lambda: Echo(calls()), actors=("a0", "a1:other")
    ) as net:
        control = net.controller
        seen: list[tuple[str, TrialState]] = []
        ended: list[str] = []

        async def watch() -> None:
            async for change in control.watch_trials():
                seen.append(change)
                if change[1] is TrialState.ENDED:
                    return

        async def watch_ends() -> None:
            async for trial_id, state in control.watch_trials([TrialState.ENDED]):
                assert state is TrialState.ENDED
                ended.append(trial_id)
                return

        watching = asyncio.gather(watch(), watch_ends())
        await until(lambda: len(net.orchestrator._orchestrator._trials._watchers) == 2)
        trial = await control.start_trial()
        assert trial.actors == (sdk.Actor("a0", "player"), sdk.Actor("a1", "other"))
        await until(lambda: (trial.id, TrialState.RUNNING) in seen)
        assert await control.trial_state(trial.id) is TrialState.RUNNING
        assert await control.trials() == {trial.id: TrialState.RUNNING}
        await control.terminate_trial(trial.id)
        await control.terminate_trial(trial.id)
        await watching
        assert seen == [(trial.id, state) for state in TrialState if state]
        assert ended == [trial.id]
        versions = await control.versions()
        assert versions["cogment-api"] == "1.0.0-alpha6"


@on_loop
async def test_unknown_trial_is_not_found() -> None:
    async with world(lambda: Counting(calls()), lambda: Echo(calls())) as net:
        for call in (net.controller.terminate_trial, net.controller.trial_state):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call(str(uuid.uuid4()))
            assert caught.value.code() is grpc.StatusCode.NOT_FOUND


@on_loop
async def test_wait_ended_returns_before_after_and_long_after_the_end() -> None:
    settings = Settings(retention=0.05)
    async with world(lambda: Endless(calls()), lambda: Echo(calls()), settings=settings) as net:
        trial = await net.controller.start_trial()
        other = await net.controller.start_trial()
        waiting = [asyncio.ensure_future(net.controller.wait_ended(trial.id)) for _ in range(3)]
        await net.controller.terminate_trial(other.id)
        await net.controller.wait_ended(other.id)
        assert not any(each.done() for each in waiting)
        await net.controller.terminate_trial(trial.id)
        await asyncio.gather(*waiting)
        await net.controller.wait_ended(trial.id)
        trials = net.orchestrator._orchestrator._trials
        await until(lambda: not list(trials))
        await net.controller.wait_ended(trial.id)
        # Nobody watches any more.
        await until(lambda: not trials._watchers)


@on_loop
async def test_cancelled_wait_leaves_no_watcher() -> None:
    async with world(lambda: Endless(calls()), lambda: Echo(calls())) as net:
        trial = await net.controller.start_trial()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await net.controller.wait_ended(trial.id)
        await until(lambda: not net.orchestrator._orchestrator._trials._watchers)
        assert await net.controller.trial_state(trial.id) is TrialState.RUNNING
        await net.controller.terminate_trial(trial.id)
        await net.controller.wait_ended(trial.id)


@on_loop
async def test_wait_ends_when_the_orchestrator_disconnects() -> None:
    async with world(lambda: Endless(calls()), lambda: Echo(calls())) as net:
        trial = await net.controller.start_trial()
        waiting = asyncio.ensure_future(net.controller.wait_ended(trial.id))
        await until(lambda: net.orchestrator._orchestrator._trials._watchers)
        # What the wait asks at its start is answered before this.
        await net.controller.trial_state(trial.id)
        await net.orchestrator.stop()
        # Told of the end, for stopping ends trials.
        await waiting
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await net.controller.wait_ended(trial.id)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


@on_loop
async def test_configs_and_users_are_passed_on() -> None:
    told = calls()
    async with world(lambda: Counting(told), lambda: Echo(calls())) as net:
        trials = net.orchestrator._orchestrator._trials
        for config in (None, b"", b"x"):
            trial = trials.get(await net.play(config))
            assert trial.params.HasField("trial_config") is (config is not None)
            assert trial.params.trial_config.content == (config or b"")
        async with sdk.TrialController(
            f"grpc://127.0.0.1:{net.orchestrator.port}", user_id="me"
        ) as other:
            started = await other.start_trial()
            assert trials.get(started.id).user_id == "me"
            await other.wait_ended(started.id)


PARAMS = {
    "environment": {"endpoint": "local://env"},
    "actors": [{"name": "a0", "actor_class": "player", "endpoint": "local://agent"}],
}


@pytest.mark.parametrize("environment", [Counting, Endless])
def test_trial_runs_without_an_event_loop(environment: type[Counting]) -> None:
    told = calls()
    local = {
        "env": sdk.local_environments({"env": lambda: environment(told)}),
        "agent": sdk.local_agents({"agent": lambda: Echo(calls())}),
    }
    config = {"trial_params": PARAMS}
    with cogrs.serve_orchestrator(config, port=0, local=local) as server:
        endpoint = f"127.0.0.1:{server.port}"
        if environment is Counting:
            trial = sdk.run_trial(endpoint, b"x", user_id="me", timeout=60)
            assert trial.actors == (sdk.Actor("a0", "player"),)
            assert len(told[trial.id]) == 6
            assert len({trial.id, sdk.run_trial(endpoint).id}) == 2
        else:
            with pytest.raises(TimeoutError, match="within 1 s"):
                sdk.run_trial(endpoint, timeout=1)
    # It was asked to end, and did.
    assert all(each[-1][0] in ("step", "end") for each in told.values())


def test_run_trial_without_an_orchestrator_raises() -> None:
    with pytest.raises(grpc.RpcError) as caught:
        sdk.run_trial("127.0.0.1:1", timeout=60)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
