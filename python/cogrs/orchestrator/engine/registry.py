"""All trials that are known, and who watches them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from cogrs.orchestrator.engine.errors import ExhaustedError, NotFoundError, short
from cogrs.orchestrator.engine.figures import Figures
from cogrs.orchestrator.engine.state import State
from cogrs.orchestrator.engine.trial import Trial

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from cogrs.api.common_pb2 import TrialParams
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

    def tell(self, change: Change, *, new: bool = True) -> bool:
        """Tell of a trial; False when it is not told because too much waits already."""
        if change.state not in self._states:
            return True
        if new and len(self._changes) >= self._backlog:
            self.close(ExhaustedError(f"{self._backlog} changes of state wait to be read"))
            return False
        self._changes.append(change)
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
        self._waiting: set[Trial] = set()
        self._over: deque[Trial] = deque()
        self._over_actors = 0
        self._actors = 0
        self._params_bytes = 0
        self.live = 0
        """Trials that have not ended."""

    def open(self, trial_id: str, user_id: str, params_bytes: int = 0) -> Trial:
        """Make a trial known.

        Args:
            trial_id: Its id.
            user_id: Of the user that starts it.
            params_bytes: Of the request, until the parameters are known.

        Raises:
            ExhaustedError: There are too many.
        """
        settings = self._settings
        if self.live >= settings.max_trials:
            raise ExhaustedError(
                f"{self.live} trials have not ended, of at most {settings.max_trials}"
            )
        self._check_params_bytes(params_bytes)
        self.live += 1
        self._params_bytes += params_bytes
        common = (self._settings, self._clock, self._report, self.figures)
        trial = Trial(trial_id, user_id, *common, brief=self._brief)
        trial.params_bytes = params_bytes
        self._trials[trial_id] = trial
        self.figures.started += 1
        self._report(trial)
        return trial

    def admit(self, trial: Trial, params: TrialParams) -> None:
        """Count the parameters that a trial is to have, instead of its request.

        Raises:
            ExhaustedError: All together would have too many bytes, or too many trials wait for
                clients.
        """
        size = params.ByteSize()
        self._check_params_bytes(size - trial.params_bytes)
        if self.check(params):
            self._waiting.add(trial)
        self._actors += len(params.actors)
        self._params_bytes += size - trial.params_bytes
        trial.params_bytes = size

    def check(self, params: TrialParams) -> bool:
        """Return whether a trial of these parameters would wait for clients.

        Raises:
            ExhaustedError: It would, and too many wait already, or all trials would have too many
                actors.
        """
        actors, there, most = len(params.actors), self._actors, self._settings.max_actors
        if there + actors > most:
            raise ExhaustedError(
                f"actors: the trials that have not ended have {there}, of at most {most}: "
                f"expected at most {max(most - there, 0)}, got {actors}"
            )
        if not any(actor.endpoint == "client" for actor in params.actors):
            return False
        most = self._settings.max_waiting_trials
        if len(self._waiting) >= most:
            self._waiting = {each for each in self._waiting if _waits(each)}
        if len(self._waiting) >= most:
            raise ExhaustedError(f"{most} trials wait for clients to join, of at most {most}")
        return True

    def _check_params_bytes(self, more: int) -> None:
        most, held = self._settings.max_params_bytes, self._params_bytes
        if more > 0 and held + more > most:
            raise ExhaustedError(
                f"params: the trials that have not ended have {held} bytes, of at most {most}: "
                f"expected at most {max(most - held, 0)}, got {more}"
            )

    def get(self, trial_id: str) -> Trial:
        """Return a trial.

        Raises:
            NotFoundError: There is none of this id.
        """
        trial = self._trials.get(trial_id)
        if trial is None:
            raise NotFoundError(f"no trial {short(trial_id)}")
        return trial

    def __iter__(self) -> Iterator[Trial]:
        """Return all trials."""
        return iter(list(self._trials.values()))

    def running(self) -> list[Trial]:
        """Return the trials that have not ended."""
        return [trial for trial in self if trial.state is not State.ENDED]

    def watch(self, reader: ReaderPort, states: Collection[State]) -> Watcher:
        """Tell of all trials as they are, and then of every change.

        Raises:
            ExhaustedError: Too many watch already.
        """
        most = self._settings.max_watchers
        if len(self._watchers) >= most:
            raise ExhaustedError(f"{most} calls watch trials, of at most {most}")
        watcher = Watcher(reader, states, self._settings.watch_backlog)
        for trial in self._trials.values():
            watcher.tell(_change(trial), new=False)
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
        change = _change(trial)  # one for all watchers: they keep it while it waits
        slow = {watcher for watcher in self._watchers if not watcher.tell(change)}
        self._watchers -= slow
        if trial.state is State.ENDED:
            self.live -= 1
            self._params_bytes -= trial.params_bytes
            self._waiting.discard(trial)
            self._retain(trial)
            trial_id = trial.id  # the clock is not to keep what was forgotten before
            self._clock.call_later(self._settings.retention, lambda: self._forget(trial_id))
            self._ended()

    def _retain(self, trial: Trial) -> None:
        """Keep a trial listed for a while, and no more of them than of those that run."""
        settings, actors = self._settings, len(trial.actors)
        self._actors -= actors
        self._over_actors += actors
        self._over.append(trial)
        while len(self._over) > settings.max_trials or self._over_actors > settings.max_actors:
            self._forget_first()

    def _forget(self, trial_id: str) -> None:
        # They are forgotten in the order in which they ended, since all are kept as long.
        while trial_id in self._trials:
            self._forget_first()

    def _forget_first(self) -> None:
        trial = self._over.popleft()
        self._over_actors -= len(trial.actors)
        del self._trials[trial.id]


def _waits(trial: Trial) -> bool:
    """Return whether a trial cannot run before clients join."""
    return trial.state is State.PENDING and trial.roster.has_vacant


def _change(trial: Trial) -> Change:
    return Change(trial.id, trial.state, trial.end_reason, trial.failed)
