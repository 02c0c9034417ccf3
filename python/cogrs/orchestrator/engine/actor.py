"""The base of all actors of a trial: agents, which are called, and clients, which call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from cogrs.orchestrator.engine.clock import Alarm, Clock
from cogrs.orchestrator.engine.observation import add_observations, split

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from cogrs.api.agent_pb2 import AgentStartRequest
    from cogrs.api.common_pb2 import (
        ActorParams,
        ActorPeriodData,
        Message,
        Observation,
        ObservationData,
        Reward,
    )
    from cogrs.api.environment_pb2 import ObservationSet
    from cogrs.orchestrator.engine.actor_options import ActorOptions
    from cogrs.orchestrator.engine.settings import Settings


class ActorCallbacks(Protocol):
    """The events that an actor reports to its trial."""

    def heard(self) -> None:
        """Handle a sign of life of an actor."""

    def actor_ready(self) -> None:
        """Handle the start of an actor, or its join."""

    def actor_acted(self, actor: Actor, action: bytes) -> None:
        """Handle an action."""

    def actor_sent(
        self, actor: Actor, rewards: Collection[Reward], messages: Collection[Message]
    ) -> None:
        """Keep rewards and messages that an agent sent with an action; too many are dropped."""

    def take_sent(
        self, actor: Actor, rewards: Collection[Reward], messages: Collection[Message]
    ) -> None:
        """Take rewards and messages of a request, or refuse all, as `MessageRouter.check`."""

    def actor_lost(self, actor: Actor, reason: str) -> None:
        """Go on without an actor that will not act any more, or end the trial."""

    def actor_late(self, actor: Actor, reason: str) -> None:
        """Handle an actor that did not answer an observation in time."""

    def actor_away(self) -> None:
        """Ask for a snapshot, for an actor that missed something and may come back."""

    def actor_missed(self) -> None:
        """Count a tick whose data was dropped, as the actor does not read."""

    def recall(self, actor: Actor) -> Observation | None:
        """Expect the action of an actor that came back, even if it has given one.

        Returns:
            The latest observation; None when the actions have gone out, and the next will come.
        """

    @property
    def spaces(self) -> str:
        """The spaces that the environment told, as JSON; "" if it told none."""

    def actor_done(self) -> None:
        """Handle an actor that has its final data, or will never take it."""

    def crash(self, what: str) -> None:
        """Handle an error of the engine or of a port."""


@dataclass(frozen=True, slots=True)
class ActorContext:
    """The parts that all actors are made of."""

    index: int
    """Its place among the actors of the trial."""
    params: ActorParams
    options: ActorOptions
    trial: ActorCallbacks
    settings: Settings
    clock: Clock


class Actor(ABC):
    """One participant of a trial."""

    def __init__(self, context: ActorContext) -> None:
        """Create an actor that has neither started nor joined."""
        self.index = context.index
        self.params = context.params
        self.name = context.params.name
        self.actor_class = context.params.actor_class
        self.options = context.options
        self.ready = False
        """Whether it started or joined."""
        self.gone = False
        """Whether the trial goes on without it."""
        self.done = False
        """Whether it has its final data, or will never take it."""
        self._trial = context.trial
        self._settings = context.settings
        self._response_alarm = Alarm(context.clock, self._on_late_action)

    @abstractmethod
    def start(self, start_request: AgentStartRequest) -> None:
        """Start to take part; the request lists all actors, and is not to be changed."""

    @abstractmethod
    def deliver(self, period: ActorPeriodData) -> None:
        """Take the data of a tick; an action is owed from now on."""

    @abstractmethod
    def observe(self, tick_id: int, timestamp: int, data: ObservationData) -> None:
        """Take the data of a tick that is an observation alone; an action is owed from now on."""

    def send(self, rewards: Collection[Reward], messages: Collection[Message]) -> None:
        """Send rewards and messages to others, or refuse all, as `MessageRouter.check`."""
        self.heard()
        self._trial.take_sent(self, rewards, messages)

    def settle(self) -> None:
        """Expect no action any more."""
        if self.options.response_timeout:
            self._response_alarm.stop()

    def pause(self) -> None:  # noqa: B027 - only matters to actors whose silence is measured
        """Expect no action for now: a default one took its place."""

    def leave(self, reason: str) -> None:
        """Mark the actor as gone: the trial goes on, and sends nothing more before its end."""
        del reason  # only clients are told
        self.gone = True
        self._response_alarm.stop()

    def _await_action(self) -> None:
        if self.options.response_timeout:
            self._response_alarm.set(self.options.response_timeout)

    def _on_late_action(self) -> None:
        timeout = self.options.response_timeout or 0.0
        why = f"actor {self.name!r}: no action within {timeout:g} s"
        self._trial.actor_late(self, why)

    def heard(self) -> None:
        """Handle a sign of life."""
        self._trial.heard()

    @abstractmethod
    def finish(self, period: ActorPeriodData) -> None:
        """Take the final data."""

    @abstractmethod
    def close(self) -> None:
        """Give up everything that is under way."""


def deliver(
    actors: Iterable[Actor], observations: ObservationSet, periods: Sequence[ActorPeriodData]
) -> None:
    """Send a set to the actors that are not gone, with the rewards and messages in `periods`.

    `periods` has one item for each actor, or is empty where there is nothing for any of them.
    """
    if periods:
        add_observations(periods, observations)
        for actor, period in zip(actors, periods, strict=True):
            if not actor.gone:
                actor.deliver(period)
        return
    tick_id, timestamp = observations.tick_id, observations.timestamp
    for actor, data in zip(actors, split(observations), strict=True):
        if not actor.gone:
            actor.observe(tick_id, timestamp, data)
