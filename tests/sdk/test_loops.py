"""Event loops: objects made outside of one, used in several, and calls that block in one."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

import cogrs
from cogrs import orchestrator, sdk
from tests.sdk.net import Counting, Echo, calls, named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LIMIT = 60.0


def uvloop_run(work: Any) -> Any:
    uvloop = pytest.importorskip("uvloop")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


@contextmanager
def running(told: Any, *, client: bool = False) -> Iterator[str]:
    """Where an orchestrator is, whose trials have an agent, or else a client."""
    local = {
        "env": sdk.local_environments({"": lambda: Counting(told)}),
        "agent": sdk.local_agents({"": lambda: Echo(calls())}),
    }
    actor = {"name": "a", "actor_class": "c", "endpoint": "client" if client else "local://agent"}
    params = {"environment": {"endpoint": "local://env"}, "actors": [actor]}
    with cogrs.serve_orchestrator({"trial_params": params}, port=0, local=local) as server:
        yield f"127.0.0.1:{server.port}"


async def play_one(controller: sdk.TrialController) -> str:
    async with asyncio.timeout(LIMIT):
        trial = await controller.start_trial()
        await controller.wait_ended(trial.id)
        return trial.id


def test_controller_made_outside_a_loop_works_in_one_after_another() -> None:
    told = calls()
    with running(told) as where:
        controller = sdk.TrialController(where)
        trials = [asyncio.run(play_one(controller)) for _ in range(3)]

        async def states() -> list[Any]:
            return [state async for _, state in first(controller.watch_trials(), 3)]

        assert len(asyncio.run(states())) == 3
        asyncio.run(controller.close())
    assert all(len(named(told[trial], "step")) == 5 for trial in trials)


async def first(items: Any, count: int) -> Any:
    async for item in items:
        yield item
        count -= 1
        if not count:
            break
    await items.aclose()


def test_client_made_outside_a_loop_works_in_one_after_another() -> None:
    told = calls()
    with running(told, client=True) as where:
        controller, client = sdk.TrialController(where), sdk.ClientActor(where)

        async def play() -> Any:
            async with asyncio.timeout(LIMIT):
                trial = await controller.start_trial()
                return await client.play(lambda seen: seen.value, trial.id, name="a")

        for _ in range(3):
            assert asyncio.run(play()).observation.terminated
        asyncio.run(client.close())
    assert [len(named(each, "step")) for each in told.values()] == [5] * 3


def test_objects_created_outside_the_thread_of_their_loop_work() -> None:
    with running(calls()) as where:
        controller = sdk.TrialController(where)
        found: list[str] = []
        thread = threading.Thread(
            target=lambda: found.append(asyncio.run(play_one(controller))), daemon=True
        )
        thread.start()
        thread.join(LIMIT)
        assert len(found) == 1


def test_objects_work_as_async_contexts_of_a_loop_that_came_later() -> None:
    with running(calls(), client=True) as where:
        controller, client = sdk.TrialController(where), sdk.ClientActor(where)

        async def play() -> Any:
            async with controller, client:
                trial = await controller.start_trial()
                return await client.play(lambda seen: seen.value, trial.id, name="a")

        assert asyncio.run(play()) is not None


def test_second_loop_that_runs_beside_the_first_is_refused() -> None:
    with running(calls(), client=True) as where:
        controller, client = sdk.TrialController(where), sdk.ClientActor(where)

        async def elsewhere(call: Callable[[], Any]) -> None:
            def run() -> None:
                with pytest.raises(RuntimeError, match="another event loop uses this connection"):
                    asyncio.run(_await(call))

            await asyncio.to_thread(run)

        async def here() -> None:
            trial = await controller.start_trial()
            async with await client.join(trial.id, name="a"):
                for call in (
                    controller.trials,
                    controller.start_trial,
                    controller.close,
                    lambda: client.join(trial.id, name="a"),
                    client.close,
                ):
                    await elsewhere(call)
            assert list(await controller.trials()) == [trial.id]
            await controller.terminate_trial(trial.id)

        asyncio.run(here())


async def _await(call: Callable[[], Any]) -> Any:
    return await call()


def test_closed_connection_refuses_calls_and_may_be_closed_again() -> None:
    with running(calls(), client=True) as where:

        async def play() -> None:
            used, unused = sdk.TrialController(where), sdk.TrialController(where)
            client = sdk.ClientActor(where)
            trial = await used.start_trial()
            session = await client.join(trial.id, name="a")
            assert isinstance(await anext(session), sdk.Observation)
            for each in (used, unused, client):
                await each.close()
                await each.close()
            for call in (
                used.trials(),
                unused.start_trial(),
                used.wait_ended(trial.id),
                anext(used.watch_trials()),
                client.join(name="a"),
                client.play(print, name="a"),
                anext(session),
                session.send_reward(sdk.Reward("a", 1.0)),
                session.act([0]),
            ):
                with pytest.raises(RuntimeError, match="the connection was closed here"):
                    async with asyncio.timeout(LIMIT):
                        await call
            await session.leave()

        asyncio.run(play())


@pytest.mark.parametrize("run", [asyncio.run, uvloop_run])
def test_play_in_a_running_loop_names_the_call_to_await(run: Callable[[Any], Any]) -> None:
    async def notebook() -> None:
        with pytest.raises(
            RuntimeError, match=r"use `await ClientActor\(\.\.\.\)\.play\(\.\.\.\)`"
        ):
            sdk.play("127.0.0.1:9", lambda seen: 0, name="a")

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(notebook())
        gc.collect()
    assert not [each for each in caught if "never awaited" in str(each.message)]


@pytest.mark.parametrize("run", [asyncio.run, uvloop_run])
def test_other_blocking_calls_work_in_a_running_loop(run: Callable[[Any], Any]) -> None:
    """As in a notebook, where what they start has threads of its own."""

    async def notebook() -> int:
        told = calls()
        with sdk.serve_endpoint(environments={"": lambda: Counting(told)}) as endpoint:
            local = {"agent": sdk.local_agents({"": lambda: Echo(calls())})}
            actor = {"name": "a", "actor_class": "c", "endpoint": "local://agent"}
            params = {"environment": {"endpoint": endpoint.address}, "actors": [actor]}
            config = {"trial_params": params}
            with cogrs.serve_orchestrator(config, port=0, local=local) as server:
                trial = sdk.run_trial(f"127.0.0.1:{server.port}", timeout=LIMIT)
        return len(named(told[trial.id], "step"))

    assert run(notebook()) == 5


@pytest.mark.parametrize("kind", ["endpoint", "orchestrator"])
def test_server_is_refused_in_another_loop_than_its_own(kind: str) -> None:
    async def start() -> Any:
        if kind == "endpoint":
            return await sdk.serve(agents={"": sdk.FunctionAgent(lambda _: 0)})
        return await orchestrator.serve({}, port=0)

    with asyncio.Runner() as runner:
        server = runner.run(start())
        for call in (server.stop, server.wait):
            with pytest.raises(RuntimeError, match="that is not the one that runs here: serve_"):
                asyncio.run(_await(call))
        runner.run(server.stop())
    for call in (server.stop, server.wait):
        with pytest.raises(RuntimeError, match="belongs to an event loop that is closed: serve_"):
            asyncio.run(_await(call))
