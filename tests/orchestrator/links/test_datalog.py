"""What becomes of samples between a trial and its data log."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest

from cogrs.api.common_pb2 import TrialParams
from cogrs.api.datalog_pb2 import DatalogSample, LogExporterSampleReply
from cogrs.orchestrator import Settings
from cogrs.orchestrator.links.background_tasks import BackgroundTasks
from cogrs.orchestrator.links.datalog import LogCounters, LogLink
from cogrs.orchestrator.links.link import LinkContext
from tests.orchestrator.net import on_loop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SAMPLE = DatalogSample(user_id="x" * 100)


class Log:
    """Takes as many requests as it is told to, and then does something else."""

    def __init__(self, takes: int | None, then: str = "return") -> None:
        self.takes = takes
        self.then = then
        self.got: list[Any] = []

    async def on_log_sample(self, trial_id: str, requests: AsyncIterator[Any]) -> Any:
        assert trial_id == "t"
        while self.takes is None or len(self.got) < self.takes:
            request = await anext(requests, None)
            if request is None:
                break
            self.got.append(request)
        if self.then == "hang":
            await asyncio.Event().wait()
        if self.then == "raise":
            raise ValueError("disk full")
        return LogExporterSampleReply()


class Bench:
    """A link to a log, with what it works with."""

    def __init__(self, log: Log, **settings: Any) -> None:
        self.tasks = BackgroundTasks()
        self.tally = LogCounters()
        self.released = asyncio.Event()
        context = LinkContext(
            self.tasks, self.tasks.scheduler.run_queue("t"), 5.0, self.released.set
        )
        given = Settings(call_timeout=0.2, **settings)
        self.link = LogLink("t", log, given, context, self.tally)
        self.link.params(TrialParams())

    async def send(self, samples: int) -> None:
        """Send samples, and let everybody do what there is to do."""
        for _ in range(samples):
            self.link.sample(SAMPLE)
        for _ in range(20):
            await asyncio.sleep(0)

    async def close(self) -> None:
        self.link.close()
        await self.released.wait()
        await self.tasks.close()


def stops(caplog: Any) -> list[str]:
    told = [record.getMessage() for record in caplog.records]
    assert not [record for record in caplog.records if record.levelno != logging.WARNING]
    return [text.partition("its data log ")[2] for text in told]


@on_loop
async def test_log_that_takes_all_samples_gets_all(caplog: pytest.LogCaptureFixture) -> None:
    log = Log(None)
    bench = Bench(log)
    await bench.send(5)
    assert bench.tally.waiting == bench.tally.waiting_bytes == 0
    await bench.close()
    assert [request.WhichOneof("msg") for request in log.got] == ["trial_params", *["sample"] * 5]
    assert bench.link.lost == bench.tally.lost == 0
    assert stops(caplog) == []


@pytest.mark.parametrize(
    "bound", [{"log_backlog": 3}, {"log_backlog_bytes": 3 * (SAMPLE.ByteSize() + 10)}]
)
@on_loop
async def test_log_that_reads_no_sample_is_stopped_at_its_bound(
    bound: dict[str, int], caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(Log(0, "hang"), **bound)
    await bench.send(3)
    assert bench.tally.waiting == 3
    assert bench.tally.waiting_bytes > 3 * SAMPLE.ByteSize()
    assert bench.tally.lost == 0
    await bench.send(1)
    assert bench.tally.waiting == bench.tally.waiting_bytes == 0
    assert bench.link.lost == bench.tally.lost == 4
    await bench.send(2)
    assert bench.link.lost == bench.tally.lost == 6
    await bench.close()
    first, last = stops(caplog)
    assert first.startswith("stops: 3 samples of ")
    assert last == "did not get 6 samples"


@pytest.mark.parametrize(
    ("then", "why"), [("raise", "disk full"), ("return", "the log ended the stream")]
)
@on_loop
async def test_log_that_ends_early_is_logged_once(
    then: str, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    log = Log(3, then)
    bench = Bench(log)
    await bench.send(5)
    assert len(log.got) == 3
    assert bench.link.lost == bench.tally.lost == 3
    await bench.send(1)
    await bench.close()
    assert stops(caplog) == [f"stops: {why}", "did not get 4 samples"]
    assert bench.tally.waiting == 0


@on_loop
async def test_log_that_does_not_read_the_rest_is_abandoned(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench(Log(1, "hang"))
    await bench.send(2)
    assert bench.tally.waiting == 2
    await bench.close()
    assert bench.tally.lost == 2
    assert stops(caplog) == [
        "stops: it did not take the rest in time",
        "did not get 2 samples",
    ]
