"""`TrialController.watch_reports`: what reports say, when they come, and what is refused."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from typing import Any

import grpc
import pytest

import cogrs
from cogrs import limits, sdk
from cogrs.api import orchestrator_pb2 as pb
from cogrs.api.orchestrator_pb2_grpc import TrialLifecycleStub

SLACK = 60.0

PARAMS = {
    "environment": {"endpoint": "local://counter"},
    "actors": [
        {"name": f"p{k}", "actor_class": "person" if k else "judge", "endpoint": "client"}
        for k in range(3)
    ],
}


class Counter(sdk.Environment):
    """Counts for ever."""

    async def start(self, trial: sdk.Trial) -> Any:
        return sdk.Update(0)

    async def step(self, actions: Any) -> Any:
        return sdk.Update(0)


@pytest.fixture
def server():
    parts = {"counter": sdk.local_environments({"": Counter})}
    with cogrs.serve_orchestrator({"trial_params": PARAMS}, port=0, local=parts) as running:
        yield running


def run(coroutine: Any) -> Any:
    async def limited() -> Any:
        async with asyncio.timeout(SLACK):
            return await coroutine

    return asyncio.run(limited())


def test_report_lists_the_parties_that_a_trial_waits_for_and_then_its_end(server) -> None:
    async def watch() -> None:
        async with sdk.TrialController(f"127.0.0.1:{server.port}") as controller:
            reports: Any = controller.watch_reports(0.5)
            async with aclosing(reports):
                first = await anext(reports)
                assert (first.trials, first.ended, first.started) == ((), {}, 0)
                trial = await controller.start_trial()
                while not (report := await anext(reports)).trials:
                    assert not report.ended
                (progress,) = report.trials
                assert (progress.id, progress.state) == (trial.id, sdk.TrialState.PENDING)
                assert progress.awaited["person"] == 2
                assert progress.awaited["judge"] == 1
                assert progress.tick == -1
                (later,) = (await anext(reports)).trials
                assert later.waited > progress.waited
                await controller.terminate_trial(trial.id)
                while not (report := await anext(reports)).ended:
                    pass
                assert report.ended[trial.id].reason == "TerminateTrial was called"
                assert (report.trials, report.cut) == ((), 1)
                assert (await anext(reports)).ended == {}

    run(watch())


def test_reports_keep_their_period(server) -> None:
    async def watch() -> float:
        async with sdk.TrialController(f"127.0.0.1:{server.port}") as controller:
            reports: Any = controller.watch_reports(0.5)
            async with aclosing(reports):
                await anext(reports)
                begin = time.monotonic()
                for _ in range(3):
                    await anext(reports)
                return time.monotonic() - begin

    assert run(watch()) > 3 * 0.5 / 2  # no flood; a late report only delays the later ones


def test_report_counts_the_latest_trials_which_have_no_rows(server, monkeypatch) -> None:
    monkeypatch.setattr("cogrs.orchestrator.service.report.MOST_REPORTED_TRIALS", 2)

    async def watch() -> None:
        async with sdk.TrialController(f"127.0.0.1:{server.port}") as controller:
            ids = [(await controller.start_trial()).id for _ in range(5)]
            async for report in controller.watch_reports(0.5):
                assert [each.id for each in report.trials] == ids[:2]
                assert report.unlisted == 3
                return

    run(watch())


@pytest.mark.parametrize("period", [0, 0.4, -1, float("nan"), float("inf"), "1", None])
def test_period_out_of_range_is_refused(period) -> None:
    async def watch() -> None:
        async with sdk.TrialController("127.0.0.1:9") as controller:
            await anext(controller.watch_reports(period))

    with pytest.raises((TypeError, ValueError), match=r"^period: expected"):
        run(watch())


def test_period_below_the_limit_is_refused_by_the_orchestrator(server) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        stub = TrialLifecycleStub(channel)
        request = pb.TrialListRequest(report_period=limits.LEAST_REPORT_PERIOD - 1)
        with pytest.raises(grpc.RpcError) as caught:
            next(stub.WatchTrials(request, timeout=SLACK))
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert caught.value.details() == "report_period: expected 0, or at least 500 ms, got 499"


def test_watch_that_asks_for_no_reports_gets_none(server) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        watch = TrialLifecycleStub(channel).WatchTrials(pb.TrialListRequest(), timeout=1)
        with pytest.raises(grpc.RpcError) as caught:
            next(watch)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
