"""Pre-trial hooks and data logs over gRPC."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import grpc.aio
import pytest

from cogrs.api import orchestrator_pb2 as api
from cogrs.orchestrator import Config, Settings, serve
from tests.orchestrator.net import Net, on_loop
from tests.orchestrator.world import values


@on_loop
async def test_each_hook_gets_the_parameters_of_the_hook_before() -> None:
    async with Net(agents=1, hooks=2) as net:

        async def change(request: Any, context: Any) -> None:
            del context
            request.params.max_steps += 2
            request.params.environment.implementation += "+"
            request.user_id = "nobody"

        net.hook.change = change
        trial_id = await net.start(user_id="me")
        await net.until(trial_id)
        assert len(net.environment.of(trial_id, "action")) == 4
        (start,) = net.environment.of(trial_id, "start")
        assert start.impl_name == "++"
        assert [called for called, _ in net.hook.contexts] == [trial_id] * 2
        (again,) = {context.user_id for _, context in net.hook.contexts} - {"nobody"} or {"me"}
        assert again == "me"


@pytest.mark.parametrize(
    ("how", "expected", "text"),
    [
        ("abort", "ABORTED", "PERMISSION_DENIED: not you"),
        ("raise", "ABORTED", "UNKNOWN: Unexpected"),
        ("hang", "UNAVAILABLE", "no answer within 0.3 s"),
        ("away", "UNAVAILABLE", "OnPreTrial: UNAVAILABLE"),
    ],
)
@on_loop
async def test_hook_that_fails_refuses_the_start(how: str, expected: str, text: str) -> None:
    async with Net(agents=1, hooks=1, settings=Settings(hook_timeout=0.3)) as net:

        async def trouble(request: Any, context: Any) -> None:
            del request
            if how == "abort":
                await context.abort(grpc.StatusCode.PERMISSION_DENIED, "not you")
            if how == "hang":
                await asyncio.Event().wait()
            raise ValueError("broken")

        net.hook.change = trouble
        if how == "away":
            await net.server.stop(0)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await net.start()
        assert caught.value.code().name == expected
        assert f"pre-trial hook {net.endpoint}: " in str(caught.value.details())
        assert text in str(caught.value.details())
        (info,) = (await net.lifecycle.GetTrialInfo(api.TrialInfoRequest())).trial
        assert info.state == api.ENDED


@on_loop
async def test_start_that_is_cancelled_ends_the_trial() -> None:
    async with Net(agents=1, hooks=1) as net:
        called = asyncio.Event()

        async def hang(request: Any, context: Any) -> None:
            del request, context
            called.set()
            await asyncio.Event().wait()

        net.hook.change = hang
        call = net.lifecycle.StartTrial(api.TrialStartRequest())
        starting = asyncio.ensure_future(call)
        await called.wait()
        (info,) = (await net.lifecycle.GetTrialInfo(api.TrialInfoRequest())).trial
        assert info.state == api.INITIALIZING
        call.cancel()
        await asyncio.wait({starting})
        assert "CancelledError" in await net.end_of(info.trial_id)


@on_loop
async def test_log_gets_parameters_and_all_samples_in_order() -> None:
    async with Net(agents=2, log=True) as net:
        trials = [await net.start(user_id="me") for _ in range(3)]
        for _ in trials:
            await net.log.over.get()
        for trial_id in trials:
            first, *rest = net.log.requests[trial_id]
            assert [actor.name for actor in first.trial_params.actors] == ["a0", "a1"]
            samples = [request.sample for request in rest]
            assert [sample.observations.tick_id for sample in samples] == list(range(6))
            assert [[a.content for a in sample.actions] for sample in samples] == [
                *([b"a0:%d" % tick, b"a1:%d" % tick] for tick in range(5)),
                [b"", b""],
            ]
            assert [values(sample.rewards) for sample in samples] == [
                [],
                *([(tick, 1.0)] * 2 for tick in range(1, 6)),
            ]
            assert {sample.user_id for sample in samples} == {"me"}
            assert [sample.end_reason for sample in samples] == [
                *[""] * 5,
                "environment: final update",
            ]


@on_loop
async def test_log_does_not_get_excluded_fields() -> None:
    net = Net(agents=1, log=True)
    net.config = {"log_exclude": ("rewards", "actions")}
    async with net:
        trial_id = await net.start(user_id="me")
        assert await net.log.over.get() == trial_id
        _, *samples = net.log.requests[trial_id]
        for each in samples:
            told = {field.name for field, _ in each.sample.ListFields()}
            assert told - {"end_reason"} == {"user_id", "observations"}


@pytest.mark.parametrize("how", ["abort", "raise", "away"])
@on_loop
async def test_log_that_fails_does_not_disturb_trials(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    params: dict[str, Any] = {}
    async with Net(agents=1, log=True, settings=Settings(call_timeout=5), **params) as net:

        async def trouble(context: Any) -> None:
            if how == "abort":
                await context.abort(grpc.StatusCode.DATA_LOSS, "disk full")
            raise ValueError("broken")

        net.log.trouble = trouble
        if how == "away":
            away = Config(params=net.params(), log_url="grpc://127.0.0.1:1")
            await net.orchestrator.stop(0)
            net.orchestrator = await serve(away, port=net.orchestrator.port)
        trial_id = await net.start()
        assert await net.end_of(trial_id) == "environment: final update"
        for _ in range(200):
            if "did not get" in caplog.text:
                break
            await asyncio.sleep(0.05)
    stops = [record for record in caplog.records if "its data log stops" in record.getMessage()]
    assert len(stops) == 1
    assert "did not get" in caplog.text


@on_loop
async def test_slow_log_is_abandoned_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    settings = Settings(log_backlog=2, call_timeout=0.2)
    async with Net(agents=1, log=True, settings=settings) as net:

        async def hang(context: Any) -> None:
            del context
            await asyncio.Event().wait()

        net.log.trouble = hang
        net.environment.length = 200
        observations = net.environment.observations

        def large(trial_id: str, number: int) -> Any:
            made = observations(trial_id, number)
            made.observations[0].content = bytes(100_000)
            return made

        net.environment.observations = large  # type: ignore[method-assign]
        trial_id = await net.start()
        assert await net.end_of(trial_id) == "environment: final update"
        for _ in range(200):
            if "did not get" in caplog.text:
                break
            await asyncio.sleep(0.05)
    assert "wait to be sent" in caplog.text
    assert caplog.text.count("its data log stops") == 1
    assert "did not get" in caplog.text
