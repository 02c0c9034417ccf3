"""The service `TrialLifecycle`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cogrs.api.orchestrator_pb2 import (
    TerminateTrialReply,
    TrialInfoReply,
    TrialListEntry,
    TrialState,
)
from cogrs.api.orchestrator_pb2_grpc import TrialLifecycleServicer
from cogrs.limits import MOST_FILTERS
from cogrs.orchestrator.engine.errors import InvalidError
from cogrs.orchestrator.engine.state import State
from cogrs.orchestrator.service.context import (
    abort_on_error,
    answer_version,
    find_metadata,
    required_metadata,
)
from cogrs.orchestrator.service.report import ReportSchedule
from cogrs.orchestrator.service.waker import SharedWaker, WakeQueue

if TYPE_CHECKING:
    from cogrs.api.orchestrator_pb2 import (
        TerminateTrialRequest,
        TrialInfoRequest,
        TrialListRequest,
        TrialStartReply,
        TrialStartRequest,
    )
    from cogrs.orchestrator.engine.orchestrator import Orchestrator
    from cogrs.orchestrator.engine.trial_registry import StateChange
    from cogrs.orchestrator.service.context import Context
    from cogrs.orchestrator.service.report import Reporter
    from cogrs.orchestrator.service.throttle import Throttle


class LifecycleService(TrialLifecycleServicer):
    """Starts, ends and watches trials."""

    def __init__(self, orchestrator: Orchestrator, throttle: Throttle, reporter: Reporter) -> None:
        """Create the service of an orchestrator."""
        self._orchestrator = orchestrator
        self._throttle = throttle
        self._reporter = reporter
        self._queue = WakeQueue()

    @abort_on_error
    async def StartTrial(  # noqa: N802
        self, request: TrialStartRequest, context: Context
    ) -> TrialStartReply:
        """Start a trial."""
        del context
        async with self._throttle.turn(large=self._orchestrator.is_large(request)):
            return await self._orchestrator.start(request)

    @abort_on_error
    async def TerminateTrial(  # noqa: N802
        self, request: TerminateTrialRequest, context: Context
    ) -> TerminateTrialReply:
        """Request the end of a trial."""
        del request
        self._orchestrator.terminate(required_metadata(context, "trial-id"))
        return TerminateTrialReply()

    @abort_on_error
    async def GetTrialInfo(  # noqa: N802
        self, request: TrialInfoRequest, context: Context
    ) -> TrialInfoReply:
        """Return information about one trial or all."""
        trial_id = find_metadata(context, "trial-id")
        wanted = request.get_latest_observation
        async with self._throttle.turn(large=wanted or trial_id is None):
            return TrialInfoReply(trial=self._orchestrator.info(trial_id, observation=wanted))

    @abort_on_error
    async def WatchTrials(  # type: ignore[override]  # noqa: N802
        self, request: TrialListRequest, context: Context
    ) -> None:
        """Stream the states of trials, their changes, and reports."""
        waker = SharedWaker(self._queue)
        schedule = ReportSchedule(request.report_period, waker.wake)
        watcher = None
        try:
            watcher = self._orchestrator.watch(waker, _states(request))
            del request  # it may be large, and a watch long
            # A client that has it knows that no change will be missed.
            await context.send_initial_metadata(())
            while True:
                if (change := watcher.take()) is not None:
                    await context.write(_entry(change))
                elif schedule.is_due():
                    await context.write(TrialListEntry(report=self._reporter.take()))
                else:
                    await waker.wait()
        finally:
            schedule.stop()
            if watcher is not None:
                self._orchestrator.unwatch(watcher)

    Version = answer_version


def _states(request: TrialListRequest) -> list[State]:
    if len(request.filter) > MOST_FILTERS:
        raise InvalidError(
            f"filter: expected at most {MOST_FILTERS} states, got {len(request.filter)}"
        )
    try:
        return [State(state) for state in request.filter]
    except ValueError as error:
        raise InvalidError(f"filter: {error}") from error


def _entry(change: StateChange) -> TrialListEntry:
    return TrialListEntry(
        trial_id=change.trial_id,
        state=TrialState.Value(change.state.name),
        end_reason=change.end_reason,
        failed=change.failed,
    )
