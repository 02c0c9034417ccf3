"""Actors of a trial: what all have in common, and those that the orchestrator calls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Protocol

from cogrs.api.agent_pb2 import AgentObservationRequest, AgentStartRequest
from cogrs.orchestrator.engine.clock import Alarm
from cogrs.orchestrator.engine.endpoint import parse_endpoint
from cogrs.orchestrator.engine.environment import Life
from cogrs.orchestrator.engine.observation import add_observations, fill, taken_apart
from cogrs.orchestrator.engine.reason import Reason

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from cogrs.api.agent_pb2 import AgentActionReply
    from cogrs.api.common_pb2 import (
        ActorParams,
        ActorPeriodData,
        Message,
        Observation,
        ObservationData,
        Reward,
    )
    from cogrs.api.environment_pb2 import ObservationSet
    from cogrs.orchestrator.engine.clock import Clock
    from cogrs.orchestrator.engine.options import ActorOptions
    from cogrs.orchestrator.engine.ports import Links
    from cogrs.orchestrator.engine.settings import Settings


class Stage(Protocol):
    """What a trial hears of its actors."""

    def heard(self) -> None:
        """An actor gave a sign of life."""

    def actor_ready(self) -> None:
        """An actor started, or joined."""

    def actor_acted(self, actor: Actor, action: bytes) -> None:
        """An actor gave an action."""

    def actor_sent(
        self, actor: Actor, rewards: Collection[Reward], messages: Collection[Message]
    ) -> None:
        """An actor sent something to others."""

    def actor_lost(self, actor: Actor, reason: str) -> None:
        """An actor will act no more: the trial goes on without it, or ends."""

    def actor_late(self, actor: Actor, reason: str) -> None:
        """An actor did not answer an observation in time."""

    def actor_away(self) -> None:
        """An actor missed something and may come back: the next observation is to be whole."""

    def actor_missed(self) -> None:
        """Data of a tick was dropped, which waited for an actor that does not read."""

    def recall(self, actor: Actor) -> Observation | None:
        """Ask an actor that came back again for the action that it may not have given.

        Returns:
            The latest observation; None when the actions have gone out, and the next will come.
        """

    def actor_done(self) -> None:
        """An actor has its final data, or will never take it."""

    def crash(self, what: str) -> None:
        """Something of ours failed."""


class Actor(ABC):
    """One participant of a trial."""

    def __init__(
        self,
        index: int,
        params: ActorParams,
        options: ActorOptions,
        stage: Stage,
        settings: Settings,
        clock: Clock,
    ) -> None:
        """Be neither started nor joined."""
        self.index = index
        self.name = params.name
        self.actor_class = params.actor_class
        self.params = params
        self.options = options
        self.ready = False
        """Whether it started or joined."""
        self.gone = False
        """Whether the trial goes on without it."""
        self.done = False
        """Whether it has its final data, or will never take it."""
        self._stage = stage
        self._settings = settings
        self._patience = Alarm(clock, self._late_action)

    @abstractmethod
    def start(self, everybody: AgentStartRequest) -> None:
        """Begin to take part.

        Args:
            everybody: Names all actors of the trial; not to be changed.
        """

    @abstractmethod
    def deliver(self, period: ActorPeriodData) -> None:
        """Take the data of a tick, and owe an action."""

    @abstractmethod
    def observe(self, tick_id: int, timestamp: int, data: ObservationData) -> None:
        """Take the data of a tick of which an observation is all, and owe an action."""

    def settle(self) -> None:
        """Owe no action any more."""
        if self.options.response_timeout:
            self._patience.stop()

    def pause(self) -> None:  # noqa: B027 - only whose silence is measured cares
        """Owe no action for now: a default one stood in."""

    def leave(self, reason: str) -> None:
        """Be gone: the trial goes on, and sends nothing more before the end."""
        del reason  # for whoever can be told
        self.gone = True
        self._patience.stop()

    def _await_action(self) -> None:
        if self.options.response_timeout:
            self._patience.set(self.options.response_timeout)

    def _late_action(self) -> None:
        timeout = self.options.response_timeout or 0.0
        why = f"actor {self.name!r}: no action within {timeout:g} s"
        self._stage.actor_late(self, why)

    def heard(self) -> None:
        """The actor gave a sign of life."""
        self._stage.heard()

    @abstractmethod
    def finish(self, period: ActorPeriodData) -> None:
        """Take the final data."""

    @abstractmethod
    def close(self) -> None:
        """Take nothing any more; what is on its way is given up."""


class ServiceActor(Actor):
    """An agent, which the orchestrator calls."""

    def __init__(
        self,
        index: int,
        params: ActorParams,
        options: ActorOptions,
        stage: Stage,
        settings: Settings,
        clock: Clock,
        trial_id: str,
        links: Links,
    ) -> None:
        """Make the port; nothing is called yet."""
        super().__init__(index, params, options, stage, settings, clock)
        self._who = f"actor {params.name!r}"
        self._where = f"{self._who} at {params.endpoint}"
        endpoint = parse_endpoint(self._where, params.endpoint)
        self._port = links.agent(trial_id, params.name, endpoint, self)
        self._alarm = Alarm(clock, self._late)
        connect = options.initial_connection_timeout
        self._timeout = settings.start_timeout if connect is None else connect
        self._life = Life.IDLE
        self._final: ActorPeriodData | None = None

    # What the trial asks for.

    def start(self, everybody: AgentStartRequest) -> None:
        """Call OnStart."""
        request = AgentStartRequest()
        request.CopyFrom(everybody)
        request.impl_name = self.params.implementation
        if self.params.HasField("config"):
            request.config.CopyFrom(self.params.config)
        self._life = Life.STARTING
        self._alarm.set(self._timeout)
        self._port.start(request)

    def deliver(self, period: ActorPeriodData) -> None:
        """Send the data of a tick."""
        self._await_action()
        self._port.deliver(period)

    def observe(self, tick_id: int, timestamp: int, data: ObservationData) -> None:
        """Send an observation."""
        self._await_action()
        request = AgentObservationRequest()
        fill(request.observation, tick_id, timestamp, data)
        self._port.observe(request)

    def finish(self, period: ActorPeriodData) -> None:
        """Call OnEnd, since nothing else frees an agent's session; but only if there is one."""
        if self._life is Life.STARTING:
            self._final = period
        elif self.ready:
            self._end(period)
        else:
            self._final = period
            self.done = True

    def close(self) -> None:
        """Cancel what is under way; but a start that is late may still end well."""
        if self._life is not Life.OVER:
            grace = 0.0 if self.ready else self._settings.close_grace
            self._life = Life.OVER
            self.done = True
            self._alarm.stop()
            self._patience.stop()
            self._port.close(grace)

    # What its port tells.

    def started(self) -> None:
        """OnStart was answered."""
        if self._life is Life.LOST:
            self._free()
        if self._life is not Life.STARTING:
            return
        self._alarm.stop()
        self._life = Life.STARTED
        self.ready = True
        self._stage.heard()
        if self._final is not None:
            self._end(self._final)
        else:
            self._stage.actor_ready()

    def acted(self, reply: AgentActionReply) -> None:
        """The stream brought an action; what came with it counts as sent before it."""
        if self._life is Life.STARTED and not self.gone:
            self._stage.heard()
            rewards, messages = reply.rewards, reply.messages
            if rewards or messages:
                self._stage.actor_sent(self, rewards, messages)
            self._stage.actor_acted(self, reply.action.content)

    def ended(self) -> None:
        """OnEnd was answered, or failed."""
        if self._life is Life.ENDING:
            self._life = Life.OVER
            self.done = True
            self._port.close(self._settings.close_grace)
            self._stage.actor_done()

    def failed(self, call: str, what: str) -> None:
        """OnStart failed, or the stream is over."""
        if self._life in (Life.STARTING, Life.STARTED):
            self._lose(Reason(f"{self._where}: {call}: {what}", f"{self._who}: {call} failed"))

    def crashed(self, what: str) -> None:
        """The port itself failed."""
        self._stage.crash(f"{self._where}: {what}")

    def _free(self) -> None:
        # It comes too late to take part, but nothing else than OnEnd frees its session.
        self.ready = True
        if self._final is not None:
            self.done = False
            self._end(self._final)

    def _late(self) -> None:
        late = f": OnStart: no answer within {self._timeout:g} s"
        self._lose(Reason(self._where + late, self._who + late))

    def _lose(self, reason: str) -> None:
        self._alarm.stop()
        self._life = Life.LOST
        if self._final is not None:
            self.done = True
            self._stage.actor_done()
        else:
            self._stage.actor_lost(self, reason)

    def _end(self, period: ActorPeriodData) -> None:
        self._life = Life.ENDING
        self._port.end(period)


def deliver(
    actors: Iterable[Actor], observations: ObservationSet, periods: Sequence[ActorPeriodData]
) -> None:
    """Send a set to the actors that are there.

    Args:
        actors: All.
        observations: What each is shown.
        periods: What else is due to each; empty if nothing is to anybody.
    """
    if periods:
        add_observations(periods, observations)
        for actor, period in zip(actors, periods, strict=True):
            if not actor.gone:
                actor.deliver(period)
        return
    tick_id, timestamp = observations.tick_id, observations.timestamp
    for actor, data in zip(actors, taken_apart(observations), strict=True):
        if not actor.gone:
            actor.observe(tick_id, timestamp, data)
