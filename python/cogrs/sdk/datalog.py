"""Data logs, which are told everything that happens in trials: the interface for users."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cogrs.space_json import ActorSpaces, actor_spaces_from_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cogrs.api.common_pb2 import TrialParams
    from cogrs.sdk.trial import Actor, Observation, ReceivedMessage, ReceivedReward


@dataclass(frozen=True, slots=True)
class LoggedTrial:
    """The trial of a data log.

    Attributes:
        id: Its id.
        actors: All actors, in the trial's order.
        params: Its parameters.
        spaces_json: The environment's spaces as `cogrs.space_json` keeps them; "" if it told none.
    """

    id: str
    actors: tuple[Actor, ...]
    params: TrialParams
    spaces_json: str = ""

    @property
    def spaces(self) -> Mapping[str, ActorSpaces]:
        """The environment's own spaces, by the actors' names; empty if it told none.

        Raises:
            ImportError: Gymnasium is not installed.
            ValueError: The text is damaged.
        """
        return actor_spaces_from_json(self.spaces_json)


@dataclass(frozen=True, slots=True)
class Sample:
    """What happened in a trial at one tick.

    Attributes:
        tick: 0 for the first; None in a last sample without observations.
        observations: The observations, by the actors' names.
        actions: The actions that answer them, by name, without those of actors that did not answer
            or answered with no bytes.
        rewards: The rewards that each actor was given with these observations. Their ticks may be
            others: see `cogrs.sdk.step_of_reward`.
        messages: The messages to each actor, or to "env", with these observations.
        user_id: Name of the user who started the trial.
        end_reason: Why the trial ended; only the last sample has one.
        stood_in: Names of actors whose default actions are among the actions, because they did not
            answer in time or are gone.
    """

    tick: int | None
    observations: Mapping[str, Observation] = field(default_factory=dict)
    actions: Mapping[str, Any] = field(default_factory=dict)
    rewards: Mapping[str, tuple[ReceivedReward, ...]] = field(default_factory=dict)
    messages: Mapping[str, tuple[ReceivedMessage, ...]] = field(default_factory=dict)
    user_id: str = ""
    end_reason: str = ""
    stood_in: frozenset[str] = frozenset()


class DatalogSink:
    """The log of one trial. Override what is needed; each method may be plain, or `async`.

    The next sample is delivered when the call with the one before has returned. The trial goes on
    meanwhile: the orchestrator keeps `Settings.log_backlog` samples for a slow log, and stops the
    log when there are more. An exception stops this trial's log, and never the trial.

    Plain methods run on a thread that the log has to itself, on which it is created too. Async
    methods run on the event loop.
    """

    inline = False
    """Whether plain methods are quick and run on the event loop; see `Environment.inline`."""

    def start(self, trial: LoggedTrial) -> Any:
        """Start the log of a trial."""

    def sample(self, sample: Sample) -> Any:
        """Take the sample of the next tick."""
        raise NotImplementedError(f"{type(self).__name__}.sample")

    def end(self) -> Any:
        """Finish after the last sample."""

    def lost(self) -> Any:
        """Clean up: the last sample will not come, or another method failed."""
