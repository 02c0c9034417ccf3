"""Components in the orchestrator's own process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from cogrs.api import orchestrator_pb2 as api
from cogrs.api.datalog_pb2 import LogExporterSampleReply
from cogrs.orchestrator import (
    AgentComponent,
    Config,
    EnvironmentComponent,
    HookComponent,
    LogComponent,
    Settings,
    serve,
)
from cogrs.orchestrator.engine.errors import InvalidError
from tests.orchestrator.local_components import PARAMS, Echo, Everything, Walls
from tests.orchestrator.net import Net, on_loop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Three(Everything):
    async def on_pre_trial(self, trial_id: str, context: Any) -> Any:
        context.params.max_steps = 3
        return context


class Log(Everything):
    async def on_log_sample(self, trial_id: str, requests: AsyncIterator[Any]) -> Any:
        self.samples = [request async for request in requests]
        self.over.set()
        return LogExporterSampleReply()


def types_agree() -> tuple[EnvironmentComponent, AgentComponent, HookComponent, LogComponent]:
    return Walls(), Echo(), Three(), Log()


@on_loop
async def test_trial_of_local_components_plays_without_a_socket() -> None:
    walls, echo, log = Walls(), Echo(), Log()
    local = {"walls": walls, "echo": echo, "three": Three(), "log": log}
    net = Net(local=local, **PARAMS)
    net.config = {"hooks": ("local://three",), "log_url": "local://log"}
    async with net:
        trial_id = await net.start()
        assert "max_steps: 3" in await net.end_of(trial_id)
        assert [call[0] for call in walls.calls] == ["start", *["action"] * 3, "end"]
        assert [call[2] for call in walls.calls[1:]] == [[b"o%d.0" % tick] for tick in range(4)]
        assert echo.calls == [
            ("start", trial_id, "a0"),
            *(("reward", (tick, tick)) for tick in range(1, 4)),
            ("end",),
        ]
        for component in (walls, echo, log):
            await component.over.wait()
        assert [request.WhichOneof("msg") for request in log.samples] == [
            "trial_params",
            *["sample"] * 5,
        ]


@on_loop
async def test_hooks_are_asked_in_the_order_of_the_configuration() -> None:
    class Named(Everything):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        async def on_pre_trial(self, trial_id: str, context: Any) -> Any:
            context.params.environment.implementation += self.name
            return context

    walls = Walls()
    names = ("b", "c", "a")
    net = Net(local={"walls": walls, "echo": Echo(), **{n: Named(n) for n in names}}, **PARAMS)
    net.config = {"hooks": tuple(f"local://{name}" for name in names)}
    async with net:
        trial_id = await net.start()
        await net.until(trial_id, api.RUNNING)
        ((_, _, request), *_) = walls.calls
        assert request.impl_name == "bca"


@on_loop
async def test_failure_of_a_local_component_ends_its_trial() -> None:
    class Broken(Walls):
        async def on_start(self, trial_id: str, request: Any) -> Any:
            raise ValueError("no walls today")

    async with Net(local={"walls": Broken(), "echo": Echo()}, **PARAMS) as net:
        reason = await net.end_of(await net.start())
        assert reason == "environment local://walls: OnStart: no walls today"


class Panic(BaseException):
    """What extensions raise where Rust panics."""


BEYOND = [SystemExit, asyncio.CancelledError, Panic, StopAsyncIteration, TimeoutError]
"""Exceptions that a loop, a task or a stream takes for something other than a failure."""


@pytest.mark.parametrize("error", BEYOND)
@pytest.mark.parametrize("call", ["OnStart", "OnAction", "OnEnd"])
@on_loop
async def test_local_environment_may_raise_anything(call: str, error: type[BaseException]) -> None:
    class Broken(Walls):
        async def on_start(self, trial_id: str, request: Any) -> Any:
            if call == "OnStart":
                raise error("no more")
            return await super().on_start(trial_id, request)

        async def on_action(self, trial_id: str, requests: AsyncIterator[Any]) -> Any:
            async for reply in super().on_action(trial_id, requests):
                if call == "OnAction":
                    raise error("no more")
                yield reply

        async def on_end(self, trial_id: str, request: Any) -> Any:
            raise error("no more")

    async with Net(local={"walls": Broken(), "echo": Echo()}, **PARAMS, max_steps=2) as net:
        reason = await net.end_of(await net.start())
        if call == "OnEnd":
            assert "max_steps" in reason
        else:
            assert reason.startswith(f"environment local://walls: {call}: ")
            assert "no more" in reason or error.__name__ in reason


@pytest.mark.parametrize("error", BEYOND)
@pytest.mark.parametrize("call", ["OnStart", "OnObservation", "OnReward", "OnEnd"])
@on_loop
async def test_local_agent_may_raise_anything(
    call: str, error: type[BaseException], caplog: Any
) -> None:
    class Broken(Echo):
        async def on_start(self, trial_id: str, actor_name: str, request: Any) -> Any:
            if call == "OnStart":
                raise error("no more")
            return await super().on_start(trial_id, actor_name, request)

        async def on_observation(self, *args: Any) -> Any:
            async for reply in super().on_observation(*args):
                if call == "OnObservation":
                    raise error("no more")
                yield reply

        async def on_reward(self, trial_id: str, actor_name: str, request: Any) -> Any:
            if call == "OnReward":
                raise error("no more")
            return await super().on_reward(trial_id, actor_name, request)

        async def on_end(self, trial_id: str, actor_name: str, request: Any) -> Any:
            raise error("no more")

    async with Net(local={"walls": Walls(), "echo": Broken()}, **PARAMS, max_steps=2) as net:
        reason = await net.end_of(await net.start())
    if call in ("OnReward", "OnEnd"):
        assert "max_steps" in reason
        assert f"{call}: no more" in caplog.text
    else:
        assert reason.startswith(f"actor 'a0' at local://echo: {call}: ")
        assert "no more" in reason or error.__name__ in reason


@pytest.mark.parametrize("error", BEYOND)
@on_loop
async def test_local_hooks_and_logs_may_raise_anything(error: type[BaseException]) -> None:
    class Refuses:
        async def on_pre_trial(self, trial_id: str, context: Any) -> Any:
            raise error("no more")

    class Breaks:
        async def on_log_sample(self, trial_id: str, requests: AsyncIterator[Any]) -> Any:
            async for _ in requests:
                raise error("no more")

    local = {"walls": Walls(), "echo": Echo(), "refuses": Refuses(), "breaks": Breaks()}
    net = Net(local=local, **PARAMS)
    net.config = {"hooks": ("local://refuses",)}
    async with net:
        with pytest.raises(grpc.aio.AioRpcError, match="OnPreTrial: no more") as caught:
            await net.start()
        assert caught.value.code() is grpc.StatusCode.ABORTED
    net = Net(local=local, **PARAMS, max_steps=5)
    net.config = {"log_url": "local://breaks"}
    async with net:
        assert "max_steps" in await net.end_of(await net.start())
        while not net.orchestrator.stats().log_lost:  # noqa: ASYNC110
            await asyncio.sleep(0.005)


@on_loop
async def test_local_hook_that_returns_none_is_named() -> None:
    class Forgets:
        async def on_pre_trial(self, trial_id: str, context: Any) -> None:
            del trial_id, context

    net = Net(local={"walls": Walls(), "echo": Echo(), "forgets": Forgets()}, **PARAMS)
    net.config = {"hooks": ("local://forgets",)}
    async with net:
        said = "local://forgets: OnPreTrial: expected PreTrialContext to be returned, got None"
        with pytest.raises(grpc.aio.AioRpcError, match=said):
            await net.start()


@on_loop
async def test_local_component_of_the_wrong_kind_is_named() -> None:
    async with Net(local={"walls": Log(), "echo": Echo()}, **PARAMS) as net:
        reason = await net.end_of(await net.start())
        assert "'Log' object has no attribute 'on_start'" in reason


@on_loop
async def test_unknown_local_names_are_refused() -> None:
    async with Net(local={"echo": Echo()}, **PARAMS) as net:
        with pytest.raises(Exception, match="known local components: echo"):
            await net.start()
    for config in (Config(hooks=("local://x",)), Config(log_url="local://x")):
        with pytest.raises((InvalidError, ValueError), match="known local components: none"):
            await serve(config, port=0, settings=Settings())
