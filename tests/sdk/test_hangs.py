"""Methods that do not return: servers stop all the same, and name them."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import cogrs
from cogrs import orchestrator, sdk
from tests.orchestrator.net import LIMIT, on_loop
from tests.sdk.net import Counting, Echo, actor_params, calls, until, world

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

GRACE = 0.2
SLACK = 10.0


class Hang:
    """Holds one method, until the test is over."""

    def __init__(self) -> None:
        self.entered, self.go = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.entered.set()
        self.go.wait(2 * LIMIT)


@pytest.fixture
def hang() -> Iterator[Hang]:
    hang = Hang()
    yield hang
    hang.go.set()


def stuck(base: type[Any], method: str, hang: Hang) -> type[Any]:
    """The class with a method that hangs."""

    def held(self: Any, *args: Any) -> Any:
        hang()
        return getattr(base, method)(self, *args)

    held.__name__ = method
    return type("Stuck", (base,), {method: held})


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    named = [each for each in caplog.records if each.levelno == logging.WARNING]
    return [text for each in named if "does not return" in (text := each.getMessage())]


class Endless(Counting):
    length = -1

    def step(self, actions: Any) -> Any:
        time.sleep(0.001)
        update = super().step(actions)
        update.messages = [sdk.Message("a0", orchestrator.Config().params)]
        return update


class Speaks(Echo):
    def act(self, observation: sdk.Observation) -> Any:
        message = sdk.Message("env", orchestrator.Config().params)
        return sdk.Action(super().act(observation), messages=[message])


async def stop_in_time(*stops: Callable[[float], Any]) -> None:
    for stop in stops:
        begin = time.monotonic()
        await stop(GRACE)
        assert time.monotonic() - begin < (GRACE + 1) * SLACK


@pytest.mark.parametrize("method", ["__init__", "start", "step", "message", "end", "lost"])
@on_loop
async def test_hanging_environment_is_named_at_the_stop(
    method: str, hang: Hang, caplog: pytest.LogCaptureFixture
) -> None:
    environment = stuck(Endless, method, hang)
    await hanging(lambda: environment(calls()), lambda: Speaks(calls()), method, hang)
    (told,) = warned(caplog)
    name = "<lambda>" if method == "__init__" else f"Stuck.{method}"
    assert f"environment: {name} does not return" in told


@pytest.mark.parametrize("method", ["__init__", "start", "act", "reward", "message", "end", "lost"])
@on_loop
async def test_hanging_agent_is_named_at_the_stop(
    method: str, hang: Hang, caplog: pytest.LogCaptureFixture
) -> None:
    agent = stuck(Speaks, method, hang)
    await hanging(lambda: Endless(calls()), lambda: agent(calls()), method, hang)
    (told,) = warned(caplog)
    name = "<lambda>" if method == "__init__" else f"Stuck.{method}"
    assert f"actor 'a0': {name} does not return" in told


async def hanging(environment: Any, agent: Any, method: str, hang: Hang) -> None:
    settings = orchestrator.Settings(close_grace=0.05)
    async with world(environment, agent, settings=settings) as net:
        trial = await net.controller.start_trial()
        if method in ("end", "lost"):
            await until(lambda: net.orchestrator.stats().ticks > 2)
        else:
            await until(hang.entered.is_set)
        stops = [net.orchestrator.stop, net.endpoint.stop]
        await stop_in_time(*(reversed(stops) if method == "lost" else stops))
        assert hang.entered.is_set()
        assert net.components() == 0
        del trial


class Log(sdk.DatalogSink):
    def sample(self, sample: sdk.Sample) -> Any:
        return None


@pytest.mark.parametrize("method", ["start", "sample", "end", "lost"])
@on_loop
async def test_hanging_log_is_named_at_the_stop(
    method: str, hang: Hang, caplog: pytest.LogCaptureFixture
) -> None:
    base = Log
    if method == "lost":

        class Fails(Log):
            def sample(self, sample: sdk.Sample) -> None:
                raise OSError("disk full")

        base = Fails
    parts = {
        "env": sdk.local_environments({"": lambda: Counting(calls())}),
        "agent": sdk.local_agents({"": lambda: Echo(calls())}),
        "log": sdk.local_datalog(stuck(base, method, hang)),
    }
    params = orchestrator.Config().params
    params.environment.endpoint = "local://env"
    params.actors.append(actor_params("a0", "local://agent"))
    config = orchestrator.Config(params=params, log_url="local://log")
    async with (
        await orchestrator.serve(config, port=0, local=parts) as server,
        sdk.TrialController(f"127.0.0.1:{server.port}") as controller,
    ):
        trial = await controller.start_trial()
        await controller.wait_ended(trial.id)
        await until(hang.entered.is_set)
        await stop_in_time(server.stop)
    (told,) = warned(caplog)
    assert f"trial {trial.id}: data log: Stuck.{method} does not return" in told


@on_loop
async def test_hanging_component_delays_neither_other_trials_nor_the_stop(hang: Hang) -> None:
    made: list[Any] = []

    class First(Counting):
        def step(self, actions: Any) -> Any:
            if self.all_calls is made[0]:
                hang()
            return super().step(actions)

    def make() -> First:
        made.append(calls())
        return First(made[-1])

    async with world(make, lambda: Echo(calls())) as net:
        await net.controller.start_trial()
        await until(hang.entered.is_set)
        for _ in range(3):
            assert net.reason(await net.play()) == "environment: final update"
        await stop_in_time(net.orchestrator.stop, net.endpoint.stop)


class Raw:
    """A component of somebody's own, whose hooks neither return nor end when they are cancelled."""

    def __init__(self, hang: Hang, *, blocks: bool) -> None:
        self.hang, self.blocks = hang, blocks
        self.stopped: list[float] = []

    async def on_pre_trial(self, trial_id: str, context: Any) -> Any:
        if self.blocks:
            self.hang()
        self.hang.entered.set()
        while not self.hang.go.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue
        return context

    async def on_stop(self, grace: float) -> None:
        self.stopped.append(grace)


@pytest.mark.parametrize("blocks", [False, True])
def test_hanging_local_components_are_abandoned(
    blocks: bool, hang: Hang, caplog: pytest.LogCaptureFixture
) -> None:
    raw = Raw(hang, blocks=blocks)
    config = {"trial": {"pre_hooks": ["local://raw"]}}
    server = cogrs.serve_orchestrator(config, port=0, local={"raw": raw, "same": raw})
    starting = threading.Thread(target=start, args=(server.port,), daemon=True)
    starting.start()
    assert hang.entered.wait(LIMIT)
    for _ in range(2):
        begin = time.monotonic()
        server.stop(GRACE)
        assert time.monotonic() - begin < (GRACE + 1) * SLACK
    assert "stopped" in repr(server)
    assert server.wait(0)
    if blocks:
        (told,) = [each.getMessage() for each in caplog.records if each.name == "cogrs"]
        assert "cogrs-orchestrator does not end within 0.2 s and is abandoned: it is busy" in told
        assert "Hang.__call__" in told
        assert "Raw.on_pre_trial" in told
    else:
        assert len(raw.stopped) == 1
    starting.join(LIMIT)


def start(port: int) -> None:
    try:
        sdk.run_trial(f"127.0.0.1:{port}", timeout=5)
    except (ConnectionError, TimeoutError, sdk.RemoteCallError):
        return


def test_player_that_ignores_its_cancellation_is_abandoned(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def ignores(session: sdk.ActorSession) -> None:
        while True:
            try:
                await asyncio.sleep(LIMIT)
            except asyncio.CancelledError:
                continue

    client = {"name": "ada", "actor_class": "p", "endpoint": "client"}
    params = {"environment": {"endpoint": "local://env"}, "actors": [client]}
    local = {"env": sdk.local_environments({"": lambda: Counting(calls())})}
    with cogrs.serve_orchestrator({"trial_params": params}, port=0, local=local) as server:
        where = f"127.0.0.1:{server.port}"

        async def begin() -> None:
            async with sdk.TrialController(where) as controller:
                await controller.start_trial()

        asyncio.run(begin())
        with pytest.raises(TimeoutError, match="the trial was not over within 0"):
            sdk.play(where, ignores, name="ada", timeout=0.2)
        server.stop(GRACE)
    (told,) = warned(caplog)
    assert told.startswith(f"ignores at {where} does not return")


def test_player_that_exits_the_program_causes_no_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def leave(observation: sdk.Observation) -> int:
        raise SystemExit(observation.tick + 3)

    client = {"name": "ada", "actor_class": "p", "endpoint": "client"}
    params = {"environment": {"endpoint": "local://env"}, "actors": [client]}
    local = {"env": sdk.local_environments({"": lambda: Counting(calls())})}
    with cogrs.serve_orchestrator({"trial_params": params}, port=0, local=local) as server:
        where = f"127.0.0.1:{server.port}"

        async def begin() -> None:
            async with sdk.TrialController(where) as controller:
                await controller.start_trial()

        asyncio.run(begin())
        with pytest.raises(SystemExit) as left:
            sdk.play(where, leave, name="ada", timeout=LIMIT)
        assert left.value.code == 3
        server.stop(GRACE)
    del left
    gc.collect()
    assert [each.getMessage() for each in caplog.records if each.name == "asyncio"] == []
