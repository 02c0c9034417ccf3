"""Plain methods run on threads of their sessions, quick ones and async ones on the event loop."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections import defaultdict
from functools import partial
from typing import Any

import numpy as np
import pytest

from cogrs import orchestrator, sdk
from tests.orchestrator.net import LIMIT, on_loop
from tests.sdk.net import Counting, Echo, calls, kinds, until, world

TRIALS = 4


def here() -> int:
    return threading.get_ident()


@pytest.mark.parametrize("role", ["environment", "agent"])
@on_loop
async def test_plain_methods_of_four_trials_run_at_once(role: str) -> None:
    barrier = threading.Barrier(TRIALS)

    class Together(Counting):
        length = 3

        def step(self, actions: Any) -> Any:
            if role == "environment":
                barrier.wait(LIMIT)
            return super().step(actions)

    class Acts(Echo):
        def act(self, observation: sdk.Observation) -> Any:
            if role == "agent" and not (observation.terminated or observation.tick == 3):
                barrier.wait(LIMIT)
            return super().act(observation)

    told, heard = calls(), calls()
    async with world(lambda: Together(told), lambda: Acts(heard)) as net:
        trials = [await net.controller.start_trial() for _ in range(TRIALS)]
        for trial in trials:
            await net.controller.wait_ended(trial.id)
            assert net.reason(trial.id) == "environment: final update"


@on_loop
async def test_plain_hooks_of_four_trials_run_at_once() -> None:
    barrier = threading.Barrier(TRIALS)

    def hook(_new: sdk.NewTrial) -> None:
        barrier.wait(LIMIT)
        raise ValueError("no trial today")

    config = {"trial": {"pre_hooks": ["local://hook"]}}
    local = {"hook": sdk.local_hooks({"": hook})}
    async with (
        await orchestrator.serve(config, port=0, local=local) as server,
        sdk.TrialController(f"127.0.0.1:{server.port}") as controller,
    ):
        starts = [controller.start_trial() for _ in range(TRIALS)]
        refused = await asyncio.gather(*starts, return_exceptions=True)
    assert all("no trial today" in str(each) for each in refused)


@on_loop
async def test_plain_logs_of_four_trials_write_at_once() -> None:
    barrier = threading.Barrier(TRIALS)
    ended: list[str] = []

    class Writes(sdk.DatalogSink):
        def sample(self, sample: sdk.Sample) -> None:
            barrier.wait(LIMIT)

        def end(self) -> None:
            ended.append("end")

    parts = {
        "env": sdk.local_environments({"": lambda: Counting(calls())}),
        "agent": sdk.local_agents({"": lambda: Echo(calls())}),
        "log": sdk.local_datalog(Writes),
    }
    actor = {"name": "a", "actor_class": "p", "endpoint": "local://agent"}
    config = {
        "trial_params": {"environment": {"endpoint": "local://env"}, "actors": [actor]},
        "datalog": {"type": "grpc", "url": "local://log"},
    }
    async with (
        await orchestrator.serve(config, port=0, local=parts) as server,
        sdk.TrialController(f"127.0.0.1:{server.port}") as controller,
    ):
        for _ in range(TRIALS):
            await controller.start_trial()
        await until(lambda: len(ended) == TRIALS)


class Bound(sdk.Environment):
    """Writes down on which thread it is called; its database refuses any other."""

    def __init__(self, threads: list[int], *, last: str = "end") -> None:
        self.threads = threads
        self.last = last
        self.database = sqlite3.connect(":memory:")
        self.note()

    def note(self) -> None:
        self.threads.append(here())
        self.database.execute("select 1").fetchone()

    def start(self, trial: sdk.Trial) -> sdk.Update:
        self.note()
        return sdk.Update([0])

    def step(self, actions: Any) -> sdk.Update:
        self.note()
        if self.last == "lost":
            raise ValueError("no more")
        return sdk.Update([0])

    def message(self, message: sdk.ReceivedMessage) -> None:
        self.note()

    def end(self, actions: Any) -> None:
        self.note()
        self.database.close()

    def lost(self) -> None:
        self.note()
        self.database.close()


class Speaks(Echo):
    def act(self, observation: sdk.Observation) -> Any:
        message = sdk.Message("env", orchestrator.Config().params)
        return sdk.Action(super().act(observation), messages=[message])


@pytest.mark.parametrize("last", ["end", "lost"])
@on_loop
async def test_environment_is_made_and_called_on_one_thread(last: str) -> None:
    threads: list[list[int]] = []

    def make() -> Bound:
        threads.append([])
        return Bound(threads[-1], last=last)

    async with world(make, lambda: Speaks(calls()), max_steps=3) as net:
        for _ in range(3):
            trial_id = await net.play()
            expected = "max_steps" if last == "end" else "step failed: ValueError: no more"
            assert expected in net.reason(trial_id)
        await net.freed()
    for each in threads:
        assert len(each) >= 4
        assert len(set(each)) == 1
        assert each[0] != here()


@pytest.mark.parametrize("how", ["class", "partial", "function"])
@on_loop
async def test_inline_methods_run_on_the_loop(how: str) -> None:
    threads: list[int] = []

    class Quick(Bound):
        inline = True

        def __init__(self, given: list[int] = threads) -> None:
            super().__init__(given)

    def make() -> Quick:
        return Quick()

    make.inline = True  # type: ignore[attr-defined]
    factories: dict[str, Any] = {"class": Quick, "partial": partial(Quick, threads)}
    agents: list[int] = []

    class Agent(sdk.Agent):
        inline = True

        def act(self, observation: sdk.Observation) -> int:
            agents.append(here())
            return 0

    async with world(factories.get(how, make), Agent, max_steps=3) as net:
        await net.play()
    assert set(threads) == set(agents) == {here()}


@on_loop
async def test_agent_functions_run_on_the_declared_thread_or_loop() -> None:
    seen: dict[str, set[bool]] = defaultdict(set)

    def plain(observation: sdk.Observation) -> int:
        seen["plain"].add(here() == loop)
        return 0

    def quick(observation: sdk.Observation) -> int:
        seen["quick"].add(here() == loop)
        return 0

    async def waits(observation: sdk.Observation) -> int:
        seen["waits"].add(here() == loop)
        return 0

    loop = here()
    agents = {
        "plain": sdk.FunctionAgent(plain),
        "quick": sdk.FunctionAgent(quick, inline=True),
        "waits": sdk.FunctionAgent(waits),
    }
    actors = [f"{name}:p:{name}" for name in agents]
    async with world(lambda: Counting(calls()), agents, actors=actors) as net:
        await net.play()
    assert seen == {"plain": {False}, "quick": {True}, "waits": {True}}
    with pytest.raises(TypeError, match="inline: expected True or False, got int"):
        sdk.FunctionAgent(plain, inline=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("base", [sdk.Environment, sdk.Agent, sdk.DatalogSink])
def test_inline_that_is_not_a_bool_is_refused(base: type[Any]) -> None:
    odd = type("Odd", (base,), {"inline": "yes"})
    plug: dict[Any, Any] = {
        sdk.Environment: lambda: sdk.local_environments({"": odd}),
        sdk.Agent: lambda: sdk.local_agents({"": odd}),
        sdk.DatalogSink: lambda: sdk.local_datalog(odd),
    }
    with pytest.raises(TypeError, match="inline: expected True or False, got str"):
        plug[base]()


@on_loop
async def test_plain_method_may_return_an_awaitable() -> None:
    async def later(value: Any) -> Any:
        await asyncio.sleep(0)
        return value

    class Returns(Counting):
        def step(self, actions: Any) -> Any:
            return later(super().step(actions))

    async with world(lambda: Returns(calls()), lambda: Echo(calls())) as net:
        assert net.reason(await net.play()) == "environment: final update"


@on_loop
async def test_methods_on_thread_and_loop_do_not_overlap() -> None:
    inside: list[str] = []
    entered, go = threading.Event(), threading.Event()

    class Both(sdk.Environment):
        def start(self, trial: sdk.Trial) -> sdk.Update:
            return sdk.Update([0])

        def step(self, actions: Any) -> sdk.Update:
            inside.append("step")
            entered.set()
            go.wait(LIMIT)
            inside.append("stepped")
            return sdk.Update([0])

        async def lost(self) -> None:
            inside.append("lost")

    host = sdk.local_environments({"": Both})
    from cogrs.api import environment_pb2 as pb

    await host.on_start("t", pb.EnvStartRequest())

    async def requests() -> Any:
        yield pb.EnvActionRequest()
        await asyncio.Event().wait()

    stream = host.on_action("t", requests())
    reading = asyncio.ensure_future(anext(stream))
    await until(entered.is_set)
    reading.cancel()
    await asyncio.wait({reading})
    assert inside == ["step"]
    go.set()
    await until(lambda: len(inside) == 3)
    assert inside == ["step", "stepped", "lost"]
    await host.close()


BEYOND = [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError, StopIteration]


@pytest.mark.parametrize("error", BEYOND)
@pytest.mark.parametrize("role", ["environment", "agent"])
@on_loop
async def test_exception_on_a_thread_is_a_failure(role: str, error: type[BaseException]) -> None:
    class Fails(Counting):
        def step(self, actions: Any) -> Any:
            raise error("no more")

    class Gives(Echo):
        def act(self, observation: sdk.Observation) -> Any:
            raise error("no more")

    environment = Fails if role == "environment" else Counting
    agent = Gives if role == "agent" else Echo
    told, heard = calls(), calls()
    async with world(lambda: environment(told), lambda: agent(heard)) as net:
        for _ in range(2):
            trial_id = await net.play()
            what = {"environment": "environment: step", "agent": "actor 'a0': act"}[role]
            assert f"trial {trial_id}: {what} failed: " in net.reason(trial_id)
            assert error.__name__ in net.reason(trial_id)
        await net.freed()
    sessions = told[trial_id] if role == "environment" else heard[trial_id, "a0"]
    assert kinds(sessions)[-1] == "lost"


def names() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("cogrs-")]


@on_loop
async def test_threads_are_reused_and_end_with_the_server() -> None:
    before = names()
    most = 0
    async with world(lambda: Counting(calls()), lambda: Echo(calls())) as net:
        for _ in range(10):
            await net.play()
            await net.freed()
            most = max(most, len(names()) - len(before))
    assert most <= 3  # an environment, an agent, and one that is about to be given back
    await until(lambda: names() == before)


@on_loop
async def test_threads_of_local_parts_end_with_the_orchestrator() -> None:
    before = names()
    parts = {
        "env": sdk.local_environments({"": lambda: Counting(calls())}),
        "agent": sdk.local_agents({"": lambda: Echo(calls())}),
    }
    actor = {"name": "a", "actor_class": "p", "endpoint": "local://agent"}
    params = {"environment": {"endpoint": "local://env"}, "actors": [actor]}
    for _ in range(2):  # parts can be used again
        async with (
            await orchestrator.serve({"trial_params": params}, port=0, local=parts) as server,
            sdk.TrialController(f"127.0.0.1:{server.port}") as controller,
        ):
            trial = await controller.start_trial()
            await controller.wait_ended(trial.id)
            assert server.stats().concluded == 1
        await until(lambda: names() == before)


@on_loop
async def test_object_without_plain_methods_has_no_thread() -> None:
    taken: list[int] = []

    class Waits(sdk.Agent):
        async def act(self, observation: sdk.Observation) -> int:
            # Those on which agents were made are free again.
            taken.append(len(pool) - len(pool._idle))
            return 0

    async with world(lambda: Counting(calls()), Waits, actors=["a", "b"]) as net:
        pool = net.endpoint._hosts[1].components.threads  # type: ignore[union-attr]
        await net.play()
    assert set(taken) == {0}


@on_loop
async def test_gymnasium_of_classic_control_runs_on_the_loop() -> None:
    import gymnasium

    class Held(sdk.GymnasiumEnvironment):
        def step(self, actions: Any) -> sdk.Update:
            threads.add(here() == loop)
            return super().step(actions)

    loop = here()
    agent = sdk.FunctionAgent(lambda _: np.int64(0))
    for make, inline in (
        (Held.factory("CartPole-v1"), True),
        (Held.factory("CartPole-v1", inline=False), False),
        (Held.factory(lambda: gymnasium.make("CartPole-v1")), False),
        (Held.factory(lambda: gymnasium.make("CartPole-v1"), inline=True), True),
    ):
        threads: set[bool] = set()
        async with world({"env": make}, {"agent": agent}, max_steps=3) as net:
            await net.play()
        assert threads == {inline}
    with pytest.raises(TypeError, match="inline: expected True, False or None, got int"):
        sdk.GymnasiumEnvironment.factory("CartPole-v1", inline=1)()


@on_loop
async def test_method_that_outlives_its_trial_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("cogrs.sdk.component_table._PATIENCE", 0.01)
    entered, held = threading.Event(), threading.Event()

    class Late(Counting):
        def step(self, actions: Any) -> Any:
            entered.set()
            held.wait(LIMIT)
            return super().step(actions)

    def told_of() -> list[str]:
        warned = [each for each in caplog.records if each.name == "cogrs.sdk"]
        return [each.getMessage() for each in warned if each.levelno == logging.WARNING]

    told = calls()
    settings = orchestrator.Settings(end_timeout=0.05, close_grace=0.05)
    async with world(lambda: Late(told), lambda: Echo(calls()), settings=settings) as net:
        trial = await net.controller.start_trial()
        await until(entered.is_set)
        await net.controller.terminate_trial(trial.id)
        await net.controller.wait_ended(trial.id)
        await until(told_of)
        assert f"trial {trial.id}: environment: Late.step does not return" in told_of()[0]
        held.set()
        await until(lambda: kinds(told[trial.id])[-1] == "lost")
    assert len(told_of()) == 1
