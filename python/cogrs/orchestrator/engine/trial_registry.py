"""The trials that are listed, how many there may be, and the calls that watch them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from cogrs.orchestrator.engine.errors import ExhaustedError, NotFoundError, OrchestratorError, short
from cogrs.orchestrator.engine.late_rewards import LateRewards
from cogrs.orchestrator.engine.state import State
from cogrs.orchestrator.engine.trial import Trial
from cogrs.orchestrator.engine.trial_record import TrialContext, TrialRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from cogrs.api.common_pb2 import TrialParams
    from cogrs.orchestrator.engine.ports import ReaderPort


class StateChange(NamedTuple):
    """A trial that has entered a state."""

    trial_id: str
    state: State
    end_reason: str
    """Why the trial ends; empty before TERMINATING."""
    failed: bool
    """Whether it ends because something failed or was lost."""


class TrialWatcher:
    """The changes of state that one watching call has yet to send."""

    def __init__(self, reader: ReaderPort, states: Collection[State], backlog: int) -> None:
        """Watch for these states, or for all if `states` is empty."""
        self._reader = reader
        self._states = frozenset(states) or frozenset(State)
        self._backlog = backlog
        self._changes: deque[StateChange] = deque()

    def tell(self, change: StateChange, *, new: bool = True) -> bool:
        """Queue a change; end the watch and return False if too many wait already."""
        if change.state not in self._states:
            return True
        if new and len(self._changes) >= self._backlog:
            self.close(ExhaustedError(f"{self._backlog} changes of state wait to be read"))
            return False
        self._changes.append(change)
        self._reader.wake()
        return True

    def take(self) -> StateChange | None:
        """Take the next change, or None."""
        return self._changes.popleft() if self._changes else None

    def close(self, error: OrchestratorError) -> None:
        """End the watch."""
        self._reader.close(error)


class TrialRegistry:
    """Trials in the order in which they were registered."""

    def __init__(self, context: TrialContext, ended: Callable[[], None]) -> None:
        """Create an empty registry, which calls `ended` whenever a trial has ended."""
        self._context = context
        self._settings = context.settings
        self._ended = ended
        self._trials: dict[str, TrialRecord] = {}
        self._watchers: set[TrialWatcher] = set()
        self._waiting: set[TrialRecord] = set()
        self._over: deque[TrialRecord] = deque()
        self._over_actors = 0
        self._actors = 0
        self._params_bytes = 0
        self.late = LateRewards(context)
        """Rewards for trials that have ended."""
        self.live = 0
        """Trials that have not ended."""

    def open(self, trial_id: str, user_id: str, params_bytes: int = 0) -> TrialRecord:
        """Register a trial that has no parameters yet; the request for it has `params_bytes`.

        Raises:
            ExhaustedError: There are too many trials, or their parameters have too many bytes.
        """
        settings = self._settings
        if self.live >= settings.max_trials:
            raise ExhaustedError(
                f"{self.live} trials have not ended; the limit is {settings.max_trials}"
            )
        self._check_params_bytes(params_bytes)
        self.live += 1
        self._params_bytes += params_bytes
        record = TrialRecord(trial_id, user_id, params_bytes, self._context, self._report)
        self._trials[trial_id] = record
        self._context.metrics.started += 1
        self._report(record)
        return record

    def admit(self, record: TrialRecord, params: TrialParams) -> Trial:
        """Put a trial with parameters in the place of its record; it has yet to be started.

        Raises:
            ExhaustedError: The parameters of all trials would have too many bytes, or see `check`.
        """
        size = params.ByteSize()
        more = size - record.params_bytes
        self._check_params_bytes(more)
        needs_clients = self.check(params)
        trial = self._trials[record.id] = Trial(record, params)
        trial.params_bytes = size
        self._params_bytes += more
        self._actors += len(trial.actors)
        if needs_clients:
            self._waiting.add(trial)
        return trial

    def check(self, params: TrialParams) -> bool:
        """Return whether a trial with these parameters would wait for clients.

        Raises:
            ExhaustedError: It would, and too many wait already, or all trials would have too many
                actors.
        """
        actors, there, most = len(params.actors), self._actors, self._settings.max_actors
        if there + actors > most:
            raise ExhaustedError(
                f"actors: expected at most {max(most - there, 0)}, got {actors}; the trials that "
                f"have not ended have {there}, and the limit is {most}"
            )
        if not any(actor.endpoint == "client" for actor in params.actors):
            return False
        most = self._settings.max_waiting_trials
        if len(self._waiting) >= most:
            self._waiting = {each for each in self._waiting if _needs_clients(each)}
        if len(self._waiting) >= most:
            raise ExhaustedError(f"{most} trials wait for clients to join; the limit is {most}")
        return True

    def _check_params_bytes(self, more: int) -> None:
        most, held = self._settings.max_params_bytes, self._params_bytes
        if more > 0 and held + more > most:
            raise ExhaustedError(
                f"params: expected at most {max(most - held, 0)} bytes, got {more}; the trials "
                f"that have not ended have {held}, and the limit is {most}"
            )

    def get(self, trial_id: str) -> TrialRecord:
        """Return a trial; a NotFoundError if no trial has this id."""
        trial = self.find(trial_id)
        if trial is None:
            raise NotFoundError(f"no trial {short(trial_id)}")
        return trial

    def find(self, trial_id: str) -> TrialRecord | None:
        """Return a trial, or None if no trial has this id."""
        return self._trials.get(trial_id)

    def __iter__(self) -> Iterator[TrialRecord]:
        """Return all trials."""
        return iter(list(self._trials.values()))

    def running(self) -> list[TrialRecord]:
        """Return the trials that have not ended."""
        return [trial for trial in self if trial.state is not State.ENDED]

    def watch(self, reader: ReaderPort, states: Collection[State]) -> TrialWatcher:
        """Queue all states, then every change; an ExhaustedError if too many calls watch."""
        most = self._settings.max_watchers
        if len(self._watchers) >= most:
            raise ExhaustedError(f"{most} calls watch trials; the limit is {most}")
        watcher = TrialWatcher(reader, states, self._settings.watch_backlog)
        for trial in self._trials.values():
            watcher.tell(_change(trial), new=False)
        self._watchers.add(watcher)
        return watcher

    def unwatch(self, watcher: TrialWatcher) -> None:
        """Forget a watcher."""
        self._watchers.discard(watcher)

    def close(self, error: OrchestratorError) -> None:
        """End all watches."""
        for watcher in self._watchers:
            watcher.close(error)
        self._watchers.clear()

    def _report(self, trial: TrialRecord) -> None:
        change = _change(trial)  # shared by all watchers, which keep it while it waits
        slow = {watcher for watcher in self._watchers if not watcher.tell(change)}
        self._watchers -= slow
        if trial.state is State.ENDED:
            self.live -= 1
            self._params_bytes -= trial.params_bytes
            self._waiting.discard(trial)
            self._retain(trial)
            self.late.keep(trial)
            trial_id = trial.id  # the clock is not to keep a trial that was forgotten before
            delay = self._settings.retention
            self._context.clock.call_later(delay, lambda: self._forget(trial_id))
            self._ended()

    def _retain(self, trial: TrialRecord) -> None:
        """Keep a trial listed for a while; of ended trials, no more than of those that run."""
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


def _needs_clients(trial: TrialRecord) -> bool:
    """Return whether a trial cannot run before clients join."""
    return trial.state is State.PENDING and trial.index.has_free


def _change(trial: TrialRecord) -> StateChange:
    return StateChange(trial.id, trial.state, trial.end_reason, trial.failed)
