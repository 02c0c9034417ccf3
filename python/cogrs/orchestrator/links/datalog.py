"""The port to a data log."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cogrs.api.datalog_pb2 import DatalogSample, LogExporterSampleRequest
from cogrs.orchestrator.engine.backlog import OVERHEAD
from cogrs.orchestrator.engine.log import trial_logger
from cogrs.orchestrator.links.component import LogComponent, describe
from cogrs.orchestrator.links.queues import AsyncQueue
from cogrs.user_errors import is_failure

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from cogrs.api.common_pb2 import TrialParams
    from cogrs.orchestrator.engine.settings import Settings
    from cogrs.orchestrator.links.link import LinkContext


@dataclass(slots=True)
class LogCounters:
    """Counters over all data logs of a server."""

    waiting: int = 0  # samples that wait to be sent
    waiting_bytes: int = 0
    lost: int = 0  # samples that were not sent
    closing: set[asyncio.Task[None]] = field(default_factory=set)
    """Tasks that wait for logs of ended trials to take the rest."""


class LogLink:
    """A `LogPort` to a component. Any failure stops the log, and never the trial."""

    def __init__(
        self,
        trial_id: str,
        component: LogComponent,
        settings: Settings,
        context: LinkContext,
        counters: LogCounters,
    ) -> None:
        """Create a port; nothing is sent yet."""
        self._trial_id = trial_id
        self._log = trial_logger(trial_id)
        self._counters = counters
        self._component = component
        self._settings = settings
        self._context = context
        self._requests: AsyncQueue[tuple[LogExporterSampleRequest, int, int]] = AsyncQueue(
            context.run_queue
        )
        self._waiting = 0
        self._waiting_bytes = 0
        self._sender: asyncio.Task[None] | None = None
        self._stopped = False
        self.lost = 0
        """Samples that were not sent."""

    def params(self, params: TrialParams, spaces: str = "") -> None:
        """Open the stream; `spaces` are those that the environment told."""
        self._sender = self._context.tasks.spawn(self._run())
        self._put(LogExporterSampleRequest(trial_params=params, spaces=spaces))

    def sample(self, sample: DatalogSample) -> None:
        """Send a sample."""
        if self._stopped:
            self._lose(1)
        else:
            self._put(LogExporterSampleRequest(sample=sample))

    def close(self) -> None:
        """End the stream, and give the log a while to take the rest."""
        self._requests.close()
        task = self._context.tasks.spawn(self._close())
        self._counters.closing.add(task)
        task.add_done_callback(self._counters.closing.discard)

    def _put(self, request: LogExporterSampleRequest) -> None:
        samples, size = _measure(request)
        full = self._waiting >= self._settings.log_backlog
        if full or self._waiting_bytes + size > self._settings.log_backlog_bytes:
            self._lose(samples)
            self._stop(f"{self._waiting} samples of {self._waiting_bytes} bytes wait to be sent")
            if self._sender is not None:
                self._sender.cancel()
            return
        self._wait(samples, size)
        self._requests.put((request, samples, size))

    def _wait(self, samples: int, size: int) -> None:
        self._waiting += samples
        self._waiting_bytes += size
        self._counters.waiting += samples
        self._counters.waiting_bytes += size

    def _lose(self, samples: int) -> None:
        self.lost += samples
        self._counters.lost += samples

    async def _take(self) -> AsyncIterator[LogExporterSampleRequest]:
        async for request, samples, size in self._requests:
            if not self._stopped:
                self._wait(-samples, -size)
            yield request

    async def _run(self) -> None:
        try:
            await self._component.on_log_sample(self._trial_id, self._take())
        except BaseException as error:
            if not is_failure(error):
                raise
            self._stop(describe(error))
        else:
            if not self._requests.closed:
                self._stop("the log ended the stream")

    def _stop(self, why: str) -> None:
        if not self._stopped:
            self._stopped = True
            self._lose(self._waiting)
            self._wait(-self._waiting, -self._waiting_bytes)
            self._requests.close()
            self._log.warning("trial %s: its data log stops: %s", self._trial_id, why)

    async def _close(self) -> None:
        try:
            if self._sender is not None:
                await asyncio.wait({self._sender}, timeout=self._settings.call_timeout or None)
        finally:
            self._give_up()
            self._context.release()

    def _give_up(self) -> None:
        if self._sender is not None:
            self._sender.cancel()
        if self._waiting_bytes:
            self._stop("it did not take the rest in time")
        if self.lost:
            what = "trial %s: its data log did not get %d samples"
            self._log.warning(what, self._trial_id, self.lost)


def _measure(request: LogExporterSampleRequest) -> tuple[int, int]:
    """Return the samples in a request, 1 or 0, and its bytes in memory."""
    if not request.HasField("sample"):
        return 0, request.ByteSize()
    sample = request.sample
    parts = len(sample.rewards) + len(sample.messages)  # each may have no bytes at all
    return 1, request.ByteSize() + OVERHEAD * parts
