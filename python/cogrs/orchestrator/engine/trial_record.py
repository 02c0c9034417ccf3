"""A trial as it is listed: its id, its state, and why it ends."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cogrs.escape import escaped
from cogrs.orchestrator.engine.actor_index import ActorIndex
from cogrs.orchestrator.engine.actor_options import OptionTable
from cogrs.orchestrator.engine.end_reason import public_reason_of
from cogrs.orchestrator.engine.log import trial_logger
from cogrs.orchestrator.engine.metrics import TrialMetrics
from cogrs.orchestrator.engine.state import State, check_step

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from cogrs.api.common_pb2 import TrialActor
    from cogrs.api.environment_pb2 import ObservationSet
    from cogrs.orchestrator.engine.actor import Actor
    from cogrs.orchestrator.engine.clock import Clock
    from cogrs.orchestrator.engine.ports import Links
    from cogrs.orchestrator.engine.settings import Settings


@dataclass(frozen=True, kw_only=True)
class TrialContext:
    """The parts that all trials of an orchestrator share."""

    settings: Settings
    clock: Clock
    links: Links
    """Makes the ports."""
    options: OptionTable = field(default_factory=OptionTable)
    """Options of actors."""
    exclude: Collection[str] = ()
    """Fields of samples that the data log is not sent."""
    hide_failures: bool = False
    """Whether clients are not told the texts of failures."""
    metrics: TrialMetrics = field(default_factory=TrialMetrics)
    """Counts trials and ticks."""


class TrialRecord:
    """A trial that has no parameters yet; `Trial` adds the rules once it has."""

    actors: Sequence[Actor] = ()
    index = ActorIndex()
    """Finds actors."""
    actors_in_trial: Sequence[TrialActor] = ()
    """Name and class of each actor; not to be changed."""
    latest: ObservationSet | None = None
    """The latest observations."""
    tick = -1
    """The tick of these; -1 before the first ones."""
    _concluded = False

    def __init__(
        self,
        trial_id: str,
        user_id: str,
        params_bytes: int,
        context: TrialContext,
        report: Callable[[TrialRecord], None],
    ) -> None:
        """Create a record in state INITIALIZING; `report` is called at each change of state."""
        self.id = trial_id
        self.user_id = user_id
        self.params_bytes = params_bytes
        """Of the parameters, or of the request for them."""
        self.context = context
        self.report = report
        self.state = State.INITIALIZING
        self.since = context.clock.now()
        """When the wait for those that are awaited began."""
        self.end_reason = ""
        self.public_reason = ""
        """The reason as clients are told it."""
        self.failed = False
        """Whether it ended because something failed or was lost."""
        self.counts: Counter[str] = Counter()
        """Rewards, messages and actions that were dropped or made up, by kind."""
        self._log = trial_logger(trial_id)

    @property
    def over(self) -> bool:
        """Whether nothing can be sent to any actor any more."""
        return self.state is State.ENDED

    def awaited(self) -> list[str]:
        """Return the parties that the trial waits for: `environment`, and classes of actors."""
        return []

    def end(
        self, reason: str, *, ask: bool = True, forced: bool = False, failed: bool = False
    ) -> None:
        """End the trial; the first reason counts.

        Args:
            reason: Why it ends.
            ask: Ask the environment for its last data.
            forced: Do not wait for the environment; nor, when actors have been given their final
                data already, for them.
            failed: Something failed or was lost, which is logged as a warning.
        """
        del ask, forced  # there is nothing to wait for
        if self._begin_end(reason, failed=failed):
            self._enter(State.ENDED)

    def _begin_end(self, reason: str, *, failed: bool) -> bool:
        """Enter TERMINATING; return False if the trial ends already."""
        if self.state >= State.TERMINATING:
            return False
        self.end_reason, self.failed = escaped(reason), failed
        public = public_reason_of(reason) if self.context.hide_failures else reason
        self.public_reason = escaped(public)
        level = logging.WARNING if failed else logging.INFO
        self._log.log(level, "trial %s ends: %s", self.id, self.end_reason)
        self._enter(State.TERMINATING)
        return True

    def _enter(self, state: State) -> None:
        check_step(self.state, state)
        self.state, self.since = state, self.context.clock.now()
        if state is State.ENDED:
            self.context.metrics.add_end(self.counts, concluded=self._concluded)
        self.report(self)
