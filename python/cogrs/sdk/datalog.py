"""Data logs: what is told of everything that happens in trials."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cogrs.api.common_pb2 import TrialParams
    from cogrs.sdk.trial import Actor, Observation, ReceivedMessage, ReceivedReward


@dataclass(frozen=True, slots=True)
class LoggedTrial:
    """A trial whose samples follow.

    Attributes:
        id: Its id.
        actors: All actors, in the trial's order.
        params: Its parameters.
    """

    id: str
    actors: tuple[Actor, ...]
    params: TrialParams


@dataclass(frozen=True, slots=True)
class Sample:
    """What happened in a trial at one tick.

    Attributes:
        tick: 0 for the first; None in a last sample without observations.
        observations: What each actor observed, by its name.
        actions: What the actors answered, by name; whoever did not is left out. An action of no
            bytes cannot be told from none.
        rewards: What each actor was rewarded with, together with these observations. A reward's
            tick may be another: see `cogrs.sdk.step_of_reward`.
        messages: What was sent to each actor, or to "env", with these observations.
        user_id: Who started the trial.
        end_reason: Why the trial ended; only the last sample has one.
    """

    tick: int | None
    observations: Mapping[str, Observation] = field(default_factory=dict)
    actions: Mapping[str, Any] = field(default_factory=dict)
    rewards: Mapping[str, tuple[ReceivedReward, ...]] = field(default_factory=dict)
    messages: Mapping[str, tuple[ReceivedMessage, ...]] = field(default_factory=dict)
    user_id: str = ""
    end_reason: str = ""


class DatalogSink:
    """The log of one trial. Override what is needed; each method may be plain, or `async`.

    The next sample is taken when the method that has one returned, and its trial goes on meanwhile:
    the orchestrator keeps `Settings.log_backlog` samples for a log that is slow, and stops it when
    there are more. An exception stops this trial's log, and never the trial.

    Plain methods run on a thread that the log has to itself, where it is made, too. Async methods
    run on the event loop.
    """

    inline = False
    """Whether plain methods are quick: they run on the event loop then. See `Environment.inline`,
    which is the same."""

    def start(self, trial: LoggedTrial) -> Any:
        """Begin."""

    def sample(self, sample: Sample) -> Any:
        """Take what happened at a tick, in their order."""
        raise NotImplementedError(f"{type(self).__name__}.sample")

    def end(self) -> Any:
        """Finish: the last sample was told."""

    def lost(self) -> Any:
        """Give up: there will be no last sample, or another method failed."""
