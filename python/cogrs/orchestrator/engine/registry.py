"""All trials that are known, and who watches them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from cogrs.orchestrator.engine.errors import ExhaustedError, NotFoundError
from cogrs.orchestrator.engine.figures import Figures
from cogrs.orchestrator.engine.state import State
from cogrs.orchestrator.engine.trial import Trial

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from cogrs.orchestrator.engine.clock import Clock
    from cogrs.orchestrator.engine.errors import OrchestratorError
    from cogrs.orchestrator.engine.ports import ReaderPort
    from cogrs.orchestrator.engine.settings import Settings


class Change(NamedTuple):
    """A trial that has come to a state."""

    trial_id: str
    state: State
    end_reason: str
    """Why the trial ends; empty before TERMINATING."""
    failed: bool
    """Whether it ends because something failed or was lost."""


class Watcher:
    """What one watcher has yet to be told."""

    def __init__(self, reader: ReaderPort, states: Collection[State], backlog: int) -> None:
        """Want these states, or all if there are none."""
        self._reader = reader
        self._states = frozenset(states) or frozenset(State)
        self._backlog = backlog
        self._changes: deque[Change] = deque()

    def tell(self, trial: Trial, *, change: bool = True) -> bool:
        """Tell of a trial; False when it is not told because too much waits already."""
        if trial.state not in self._states:
            return True
        if change and len(self._changes) >= self._backlog:
            self.close(ExhaustedError(f"{self._backlog} changes of state wait to be read"))
            return False
        self._changes.append(Change(trial.id, trial.state, trial.end_reason, trial.failed))
        self._reader.wake()
        return True

    def take(self) -> Change | None:
        """Take the next change, if there is one."""
        return self._changes.popleft() if self._changes else None

    def close(self, error: OrchestratorError) -> None:
        """End the watch."""
        self._reader.close(error)


class Registry:
    """Trials in the order in which they were started."""

    def __init__(
        self, settings: Settings, clock: Clock, ended: Callable[[], None], *, brief: bool = False
    ) -> None:
        """Know none.

        Args:
            settings: For all trials.
            clock: For all trials.
            ended: Called whenever a trial has ended.
            brief: Whether clients are not told what failures say.
        """
        self._brief = brief
        self._settings = settings
        self._clock = clock
        self._ended = ended
        self.figures = Figures()
        """Counts over all trials."""
        self._trials: dict[str, Trial] = {}
        self._watchers: set[Watcher] = set()

    def open(self, trial_id: str, user_id: str) -> Trial:
        """Make a trial known."""
        common = (self._settings, self._clock, self._report, self.figures)
        trial = Trial(trial_id, user_id, *common, brief=self._brief)
        self._trials[trial_id] = trial
        self.figures.started += 1
        self._report(trial)
        return trial

    def get(self, trial_id: str) -> Trial:
        """Return a trial.

        Raises:
            NotFoundError: There is none of this id.
        """
        trial = self._trials.get(trial_id)
        if trial is None:
            raise NotFoundError(f"no trial {trial_id!r}")
        return trial

    def __iter__(self) -> Iterator[Trial]:
        """Return all trials."""
        return iter(list(self._trials.values()))

    def running(self) -> list[Trial]:
        """Return the trials that have not ended."""
        return [trial for trial in self if trial.state is not State.ENDED]

    def watch(self, reader: ReaderPort, states: Collection[State]) -> Watcher:
        """Tell of all trials as they are, and then of every change."""
        watcher = Watcher(reader, states, self._settings.watch_backlog)
        for trial in self:
            watcher.tell(trial, change=False)
        self._watchers.add(watcher)
        return watcher

    def unwatch(self, watcher: Watcher) -> None:
        """Tell no more."""
        self._watchers.discard(watcher)

    def close(self, error: OrchestratorError) -> None:
        """End all watches."""
        for watcher in self._watchers:
            watcher.close(error)
        self._watchers.clear()

    def _report(self, trial: Trial) -> None:
        slow = {watcher for watcher in self._watchers if not watcher.tell(trial)}
        self._watchers -= slow
        if trial.state is State.ENDED:
            self._clock.call_later(self._settings.retention, lambda: self._forget(trial.id))
            self._ended()

    def _forget(self, trial_id: str) -> None:
        self._trials.pop(trial_id, None)
