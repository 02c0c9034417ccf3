"""What operators see: the trials of an orchestrator and the figures of replay servers.

One call of WatchTrials serves all operators; it lasts while one of them looks.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from cogrs.escape import escaped
from cogrs.sdk import RemoteCallError
from cogrs.tokens import digest
from cogrs.validation import check_text
from cogrs.web.replay_figures import ReplayFigures
from cogrs.web.stored_trials import StoredTrials
from cogrs.web.wire import write_message

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from cogrs.sdk import TrialController, TrialsReport
    from cogrs.store import Store
    from cogrs.web.viewer import Viewer

_logger = logging.getLogger("cogrs.web")

PERIOD = 1.0
"""Seconds between reports."""

_SILENCE = 10.0
"""Seconds without a report after which operators are told of the silence."""

_MOST_ENDED = 20
"""Ended trials that are shown."""


class Console:
    """Shows operators the trials of an orchestrator, and ends trials for them.

    Attributes:
        title: The orchestrator, as it is shown.
        stored: The trials of a store; None without one.
    """

    def __init__(
        self,
        controller: TrialController,
        title: str,
        replays: Mapping[str, Any] | None = None,
        *,
        store: Store | None = None,
    ) -> None:
        """Do not connect before somebody looks.

        Args:
            controller: By which to reach the orchestrator; the caller closes it.
            title: The orchestrator, as it is shown.
            replays: Replay servers or memories by name: objects with a method `stats`.
            store: A store of trials, which operators can look at; the caller closes it.

        Raises:
            TypeError: An argument has the wrong type.
        """
        check_text("title", title)
        self.title = title
        self._controller = controller
        self.stored = None if store is None else StoredTrials(store)
        self._replays = ReplayFigures(replays or {})
        self._viewers: set[Viewer] = set()
        self._running: asyncio.Task[None] | None = None
        self._tokens: set[bytes] = set()
        self._ended: deque[dict[str, Any]] = deque(maxlen=_MOST_ENDED)
        self._ticks: dict[str, int] = {}
        self._total_ticks: int | None = None
        self._taken_at = 0.0
        self._state_text: str | None = None

    def invite(self) -> str:
        """Return a token for operators, good for any number of joins.

        A link has it in its fragment: `http://127.0.0.1:8000/console#TOKEN`.
        """
        token = secrets.token_urlsafe(32)
        self._tokens.add(digest(token))
        return token

    def admits(self, token: str) -> bool:
        """Return whether a token is one of those that `invite` gave."""
        given = digest(token)
        return given in self._tokens  # digests, so the time that this takes tells nothing of tokens

    async def terminate(self, trial_id: str) -> str | None:
        """Ask for the end of a trial; return why that failed, or None."""
        try:
            async with asyncio.timeout(_SILENCE):
                await self._controller.terminate_trial(trial_id)
        except (RemoteCallError, OSError, ValueError) as error:
            return _in_words(error)
        _logger.info("an operator terminates trial %s", escaped(trial_id))
        return None

    def add(self, viewer: Viewer) -> None:
        """Show an operator reports, from now on."""
        self._viewers.add(viewer)
        viewer.tell(write_message("console", title=self.title, store=self.stored is not None))
        if self._state_text is not None:
            viewer.tell(self._state_text)
        if self._running is None:
            self._running = asyncio.ensure_future(self._run())

    def remove(self, viewer: Viewer) -> None:
        """Show an operator nothing more; without operators nothing is asked for."""
        self._viewers.discard(viewer)
        if not self._viewers and self._running is not None:
            self._running.cancel()
            self._running, self._state_text = None, None

    async def _run(self) -> None:
        while True:
            self._ended.clear()
            self._ticks, self._total_ticks = {}, None
            try:
                async with aclosing(_punctual(self._controller.watch_reports(PERIOD))) as reports:
                    async for report in reports:
                        await self._show(report)
                fault = "the orchestrator ended the watch"
            except (RemoteCallError, OSError) as error:
                fault = _in_words(error)
            self._set_state("waiting", fault)
            await asyncio.sleep(PERIOD)

    def _set_state(self, state: str, reason: str) -> None:
        text = write_message("state", state=state, reason=reason)
        if text != self._state_text:
            self._state_text = text
            for viewer in self._viewers:
                viewer.tell(text)

    async def _show(self, report: TrialsReport) -> None:
        now = asyncio.get_running_loop().time()
        elapsed, self._taken_at = now - self._taken_at, now
        replays = await self._replays.take()
        for trial_id, end in report.ended.items():
            self._ended.append({"id": trial_id, "reason": end.reason, "failed": end.failed})
        text = write_message(
            "report",
            trials=self._rows(report, elapsed),
            unlisted=report.unlisted,
            ended=list(self._ended)[::-1],
            counts={
                "trials started": report.started,
                "ended by the environment": report.concluded,
                "ended otherwise": report.cut,
                "ticks": report.ticks,
                "samples waiting for data logs": report.log_waiting,
                "samples lost by data logs": report.log_lost,
            },
            dropped=dict(report.dropped),
            replays=replays,
            charts=self._charts(report, elapsed, replays),
        )
        self._set_state("connected", "")
        for viewer in self._viewers:
            viewer.show_tick(text)

    def _rows(self, report: TrialsReport, elapsed: float) -> list[dict[str, Any]]:
        before, self._ticks = self._ticks, {each.id: each.tick for each in report.trials}
        return [
            {
                "id": each.id,
                "state": each.state.name.lower(),
                "tick": each.tick,
                "rate": _rate(each.tick, before.get(each.id), elapsed),
                "awaited": dict(each.awaited),
                "waited": round(each.waited, 1),
            }
            for each in report.trials
        ]

    def _charts(
        self, report: TrialsReport, elapsed: float, replays: list[dict[str, Any]]
    ) -> dict[str, float | None]:
        before, self._total_ticks = self._total_ticks, report.ticks
        drawn: dict[str, float | None] = {
            "trials": len(report.trials) + report.unlisted,
            "ticks per second": _rate(report.ticks, before, elapsed),
            "dropped": sum(report.dropped.values()),
        }
        for replay in replays:
            for name, value in replay["figures"].items():
                drawn[f"{replay['name']}: {name}"] = value
        return drawn


async def _punctual(reports: Any) -> AsyncGenerator[TrialsReport, None]:
    """Yield the reports of a generator; a TimeoutError after a long silence."""
    async with aclosing(reports):
        while True:
            try:
                async with asyncio.timeout(_SILENCE):
                    report = await anext(reports)
            except StopAsyncIteration:
                return
            except TimeoutError as error:
                raise TimeoutError(
                    f"no report came within {_SILENCE:g} s: the orchestrator is busy, or too old "
                    "to send any"
                ) from error
            yield report


def _rate(now: int, before: int | None, elapsed: float) -> float | None:
    if before is None or elapsed <= 0:
        return None
    return round(max(now - before, 0) / elapsed, 1)


def _in_words(error: Exception) -> str:
    if isinstance(error, TimeoutError) and not str(error):
        return "the orchestrator did not answer in time"
    if isinstance(error, RemoteCallError):
        return f"the orchestrator refused: {error.details()}"[:200]
    return str(error)[:200]
