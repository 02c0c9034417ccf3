"""The rules of one trial, from its start to its last reward.

Within the five states of the wire a trial has phases: components start, actors answer, the
environment answers, the environment ends, actors take their final data. Every end goes through
`end` (why, and whether the environment is asked) and `_send_final_data`; the first reason counts,
and deadlines make every end certain.

An actor that is gone is not asked: its default action is put into the pending actions when a tick
begins. An actor that is late is still asked, and its default action does not stop its heartbeat
timeout.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from cogrs.api.agent_pb2 import AgentStartRequest
from cogrs.api.environment_pb2 import (
    EnvActionReply,
    EnvActionRequest,
    EnvStartReply,
    ObservationSet,
)
from cogrs.escape import escaped
from cogrs.orchestrator.engine import observation
from cogrs.orchestrator.engine.actor import Actor, ActorContext, deliver
from cogrs.orchestrator.engine.actor_index import ActorIndex
from cogrs.orchestrator.engine.backlog import Backlog, find_excess
from cogrs.orchestrator.engine.client_slot import ClientSlot
from cogrs.orchestrator.engine.clock import Alarm, GuardedClock
from cogrs.orchestrator.engine.end_reason import EndReason, public_reason_of
from cogrs.orchestrator.engine.environment import TrialEnvironment
from cogrs.orchestrator.engine.message_router import MessageRouter
from cogrs.orchestrator.engine.params import ENVIRONMENT, actors_in_trial
from cogrs.orchestrator.engine.pending_actions import PendingActions
from cogrs.orchestrator.engine.service_actor import ServiceActor
from cogrs.orchestrator.engine.state import Phase, RunState, State
from cogrs.orchestrator.engine.trial_log_recorder import TrialLogRecorder
from cogrs.orchestrator.engine.trial_record import TrialRecord
from cogrs.shown import shown

if TYPE_CHECKING:
    from collections.abc import Collection

    from cogrs.api.common_pb2 import ActorPeriodData, Message, Observation, Reward, TrialParams


class Trial(TrialRecord):
    """A trial that has parameters: `ActorCallbacks` to its actors and environment."""

    def __init__(self, record: TrialRecord, params: TrialParams) -> None:
        """Create all parts of a trial, which takes the place of its record; nothing starts yet."""
        context = record.context
        super().__init__(record.id, record.user_id, record.params_bytes, context, record.report)
        self.params = params
        self._settings = context.settings
        self._clock = clock = GuardedClock(context.clock, self.crash)
        self._inactivity = Alarm(clock, self._on_inactivity)
        self._deadline = Alarm(clock, self._on_late_end)
        self._first_action_alarm = Alarm(clock, self._on_late_first_action)
        self._environment = TrialEnvironment(
            self.id, params, self, context.links, context.settings, clock
        )
        self.actors: tuple[Actor, ...] = tuple(map(self._make_actor, range(len(params.actors))))
        self.index = ActorIndex(self.actors)
        names = [actor.name for actor in self.actors]
        self._router = MessageRouter(self.id, names, self.counts, context.settings)
        self._pending = PendingActions(len(names))
        port = context.links.log(self.id)
        self._log_recorder = TrialLogRecorder(port, self.user_id, context.exclude)
        # Made once: to copy a message takes a twentieth of the time that it takes to make it.
        self._start_request = AgentStartRequest(actors_in_trial=actors_in_trial(params))
        self.actors_in_trial = self._start_request.actors_in_trial
        self._phase = Phase.STARTING
        self._dispatched = 0.0
        self._steps = 0
        self._snapshot = False
        self.spaces = ""
        """The spaces that the environment told, as JSON, if clients may ask; else ""."""
        self._early_replies: Backlog[EnvActionReply] = Backlog()

    def _make_actor(self, index: int) -> Actor:
        params, context = self.params.actors[index], self.context
        made = ActorContext(
            index, params, context.options.of(params), self, context.settings, self._clock
        )
        if params.endpoint == "client":
            return ClientSlot(made)
        return ServiceActor(made, self.id, context.links)

    # The start.

    def start(self) -> None:
        """Start the environment and all actors at once."""
        self._enter(State.PENDING)
        self.heard()
        self._environment.start()
        for actor in self.actors:
            actor.start(self._start_request)

    def environment_started(self, reply: EnvStartReply) -> None:
        """Run the trial with its first observations, if all actors have started."""
        self.heard()
        if self.state is State.TERMINATING:
            self._ask_end()
            return
        if fault := observation.find_fault_of_start(reply, len(self.actors)):
            self.end(f"environment: OnStart: {fault}", failed=True)
            return
        self.latest, self._log_recorder.spaces = reply.observation_set, reply.spaces
        if any(isinstance(actor, ClientSlot) for actor in self.actors):
            self.spaces = sys.intern(reply.spaces)  # most trials have the same
        self._router.add(ENVIRONMENT, (), reply.messages)
        self._run()

    def actor_ready(self) -> None:
        """Run the trial, if this agent or client was the last to start or join."""
        self._run()

    def _run(self) -> None:
        """Dispatch the first tick, if everything has started."""
        if self.state is not State.PENDING or self.latest is None:
            return
        if not all(actor.ready or actor.gone for actor in self.actors):
            return
        self._enter(State.RUNNING)
        self.heard()
        # Long enough for most agents, and short for a person who wonders why nothing happens.
        self._first_action_alarm.set(10.0)
        self._log_recorder.start(self.params)
        self._dispatch(self.latest)
        early, self._early_replies = self._early_replies, Backlog()
        for reply in early:
            self._environment.replied(reply)

    # The tick.

    def environment_replied(self, reply: EnvActionReply) -> None:
        """Dispatch a step of the environment, which it may make unasked."""
        self.heard()
        if reply.final_update:
            self._concluded = self.state is not State.TERMINATING
            self.end("environment: final update", ask=False)
            for early in self._early_replies:
                self._route(early)
            self.environment_ended(reply)
        elif self._phase is Phase.ENDING:
            # OnEnd will bring later observations.
            self._route(reply)
        elif self._phase is Phase.STARTING:
            self._keep_early(reply)
        elif fault := observation.find_fault_of_step(reply, len(self.actors)):
            self._refuse_step(f"environment: reply: {fault}")
        else:
            self._route(reply)
            self._dispatch(reply.observation_set)
            # A client that does not read may have been lost by this, and the end asked for.
            if self.state is State.TERMINATING and self._phase is Phase.ACTORS:
                self._ask_end()

    def _keep_early(self, reply: EnvActionReply) -> None:
        early = self._early_replies
        early.append(reply)
        if excess := find_excess(len(early), early.bytes, self._settings):
            early.clear()
            self.end(f"environment: before the trial runs, {excess}", failed=True)

    def _refuse_step(self, reason: str) -> None:
        # The environment did answer, if not well.
        self._phase = Phase.ACTORS
        if self.state is State.TERMINATING:
            self._ask_end()
        else:
            self.end(reason, failed=True)

    def _route(self, reply: EnvActionReply) -> None:
        rewards, messages = reply.rewards, reply.messages
        if rewards or messages:
            self._router.add(ENVIRONMENT, rewards, messages)

    def _dispatch(self, observations: ObservationSet) -> None:
        """Send an observation set, and the rewards and messages due with it, to all actors."""
        now = self._clock.now()
        if self.tick >= 0:
            self.context.metrics.add_tick(now - self._dispatched)
        self._dispatched = self.since = now
        self._number(observations)
        self._phase = Phase.ACTORS
        self._pending.open()
        periods = [] if self._router.is_empty else self._periods(final=False)
        self._log_recorder.begin_sample(observations, periods)
        deliver(self.actors, observations, periods)
        self._act_for_absent()

    def _number(self, observations: ObservationSet, *, final: bool = False) -> None:
        """Give a set its tick, and a time if it has none."""
        self.tick += 1
        told = observations.tick_id
        if told not in (0, self.tick) and not (final and told == self.tick - 1):
            self.counts["wrong ticks"] += 1
            if self.counts["wrong ticks"] == 1:
                what = "trial %s: environment: expected tick %d, got %d; the given tick is ignored"
                self._log.warning(what, self.id, self.tick, told)
        observations.tick_id = self.tick
        observations.timestamp = observations.timestamp or self._clock.wall_ns()
        self.latest = observations

    def _periods(self, *, final: bool) -> list[ActorPeriodData]:
        return [self._router.take(actor.name, self.tick, final=final) for actor in self.actors]

    def actor_acted(self, actor: Actor, action: bytes) -> None:
        """Keep the action of an actor; the first of a tick counts."""
        if self._phase is Phase.FINAL or not self._pending.put(actor.index, action):
            if not actor.options.observer:
                self.counts["extra actions"] += 1
            return
        actor.settle()
        if self._pending.complete:
            self._step()

    def actor_late(self, actor: Actor, reason: str) -> None:
        """Take the default action of an actor that did not answer in time, or lose the actor."""
        if self.state is not State.RUNNING or not self._pending.owes(actor.index):
            return
        if actor.options.default_action is None:
            self.actor_lost(actor, reason)
            return
        self.counts["default actions"] += 1
        self._pending.put(actor.index, actor.options.default_action, stands_in=True)
        actor.pause()
        if self._pending.complete:
            self._step()

    def _act_for_absent(self) -> None:
        """Take the default actions of observers and of actors that are gone."""
        if self.state is not State.RUNNING or self._phase is not Phase.ACTORS:
            return
        absent = [actor for actor in self.actors if actor.gone or actor.options.observer]
        for actor in absent:
            action = actor.options.default_action or b""
            put = self._pending.put(actor.index, action, stands_in=bool(action))
            if actor.options.observer:
                actor.settle()
            elif put:
                self.counts["default actions"] += 1
        if absent and self._pending.complete:
            self._step()

    def _step(self) -> None:
        self._first_action_alarm.stop()
        limit = self.params.max_steps
        if limit and self._steps == limit:
            self.end(f"max_steps: {limit} steps are done")
            return
        self._phase, self.since = Phase.ENVIRONMENT, self._clock.now()
        self._steps += 1
        self._environment.act(*self._take_actions())

    def _take_actions(self) -> tuple[list[Message], EnvActionRequest]:
        actions = self._pending.close() if self.actors else []
        messages = self._router.take_for_environment(max(self.tick, 0))
        self._log_recorder.add_actions(actions, messages, self._pending.stood_in)
        request = EnvActionRequest()
        request.action_set.actions.extend(actions)
        request.reply_with_snapshot, self._snapshot = self._snapshot, False
        return messages, request

    # Other calls of actors.

    def heard(self) -> None:
        """Restart the inactivity timeout, at a sign of life of any party."""
        if self.params.max_inactivity and self.state in (State.PENDING, State.RUNNING):
            self._inactivity.set(self.params.max_inactivity)

    def take_sent(
        self, actor: Actor, rewards: Collection[Reward], messages: Collection[Message]
    ) -> None:
        """Take rewards and messages of a request of an actor, or refuse all; see `Actor.send`."""
        self._router.check(actor.name, rewards, messages)
        self._router.keep(actor.name, rewards, messages)

    def actor_sent(
        self, actor: Actor, rewards: Collection[Reward], messages: Collection[Message]
    ) -> None:
        """Keep rewards and messages that an agent sent with an action, for the next dispatch."""
        self._router.add(actor.name, rewards, messages)

    def actor_away(self) -> None:
        """Ask the environment for a snapshot, since an actor may have missed observations."""
        self._snapshot = True

    def actor_missed(self) -> None:
        """Count a tick that an actor will never see."""
        self.counts["missed ticks"] += 1

    def recall(self, actor: Actor) -> Observation | None:
        """Expect the action of an actor that came back; see `ActorCallbacks`."""
        if self._phase is not Phase.ACTORS or self.latest is None:
            return None
        if not actor.options.observer:
            self._pending.take_back(actor.index)
        return observation.for_actor(self.latest, actor.index)

    @property
    def over(self) -> bool:
        """Whether nothing can be sent to any actor any more."""
        return self._phase is Phase.FINAL or self.state is State.ENDED

    def awaited(self) -> list[str]:
        """Return the parties that the trial waits for: `environment`, and classes of actors."""
        environment = self._phase in (Phase.ENVIRONMENT, Phase.ENDING)
        late: list[Actor] = []
        if self.state is State.PENDING:
            environment = self.latest is None
            late = [actor for actor in self.actors if not (actor.ready or actor.gone)]
        elif self._phase is Phase.ACTORS:
            late = [actor for actor in self.actors if self._pending.owes(actor.index)]
        elif self._phase is Phase.FINAL and self.state is State.TERMINATING:
            late = [actor for actor in self.actors if not actor.done]
        return ["environment"] * environment + [actor.actor_class for actor in late]

    # The end.

    def actor_lost(self, actor: Actor, reason: str) -> None:
        """Go on without an optional actor that failed or is gone, or end the trial."""
        if not actor.options.may_be_lost or self.state >= State.TERMINATING:
            self.end(reason, failed=True)
        elif not actor.gone:
            actor.leave(reason)
            what = "trial %s goes on without an actor: %s"
            self._log.warning(what, self.id, escaped(reason))
            players = [each for each in self.actors if not each.options.observer]
            if all(each.gone for each in players or self.actors):
                public = f"no actor is left: {public_reason_of(reason)}"
                self.end(EndReason(f"no actor is left: {reason}", public), failed=True)
            else:
                self._run()
                self._act_for_absent()

    def environment_lost(self, reason: str) -> None:
        """End the trial without the last data of an environment that failed or is gone."""
        self.end(reason, ask=False, failed=True)
        if not self.over:
            self._send_final_data(None)

    def crash(self, what: str) -> None:
        """End the trial as an internal error: the engine or a port failed."""
        self.end(EndReason(f"internal error: {what}", "internal error"), forced=True, failed=True)

    def end(
        self, reason: str, *, ask: bool = True, forced: bool = False, failed: bool = False
    ) -> None:
        """End the trial; see `TrialRecord.end`."""
        if self._begin_end(reason, failed=failed):
            self._inactivity.stop()
            self._first_action_alarm.stop()
            if ask and not forced:
                self._deadline.set(self._settings.end_timeout)
                started = self._environment.state is RunState.STARTED
                if started and self._phase is not Phase.ENVIRONMENT:
                    self._ask_end()
        if forced and self.state is State.TERMINATING:
            self._force()

    def _ask_end(self) -> None:
        self._phase = Phase.ENDING
        self._deadline.set(self._settings.end_timeout)
        self._end_environment()

    def _end_environment(self) -> None:
        for actor in self.actors:
            actor.settle()
        self._environment.end(*self._take_actions())

    def environment_ended(self, reply: EnvActionReply) -> None:
        """Send the last data of the environment to the actors."""
        self._route(reply)
        observations = reply.observation_set if reply.HasField("observation_set") else None
        fault = observation.find_fault(reply.observation_set, len(self.actors))
        if observations is not None and fault:
            self._log.warning("trial %s: environment: last observations: %s", self.id, fault)
            observations = None
        self._send_final_data(observations, replied=True)

    def _force(self) -> None:
        if self._phase is Phase.FINAL:
            self._close()
            return
        if self._environment.state is RunState.STARTED:
            # Its answer is not waited for, but its session is to be freed.
            self._end_environment()
        self._send_final_data(None)

    def _send_final_data(
        self, observations: ObservationSet | None, *, replied: bool = False
    ) -> None:
        """Send all actors their final data, with the observations if there are any."""
        self._phase = Phase.FINAL
        if observations is not None:
            self._number(observations, final=True)
        else:
            self.tick += 1
        periods = self._periods(final=True)
        if replied:
            self._log_recorder.begin_sample(observations, periods)
        self._log_recorder.close(self.end_reason, () if replied else periods)
        self._environment.close()
        self._deadline.set(self._settings.final_timeout)
        if observations is not None:
            observation.add_observations(periods, observations)
        for actor, period in zip(self.actors, periods, strict=True):
            client = isinstance(actor, ClientSlot)
            period.end_reason = self.public_reason if client else self.end_reason
            actor.finish(period)
        self.actor_done()

    def actor_done(self) -> None:
        """Close the trial when all actors have their final data, or will never take it."""
        if self.state is State.TERMINATING and all(actor.done for actor in self.actors):
            self._close()

    def _on_late_end(self) -> None:
        if self._phase is Phase.FINAL:
            waiting = [actor.name for actor in self.actors if not actor.done]
            self._log.warning("trial %s: no answer to the final data from %s", self.id, waiting)
            self._close()
        else:
            what = "trial %s: environment: no last data within %g s"
            self._log.warning(what, self.id, self._settings.end_timeout)
            self._force()

    def _close(self) -> None:
        self._deadline.stop()
        for actor in self.actors:
            actor.close()
        self._environment.close()
        if self.counts:
            self._log.info("trial %s: %s", self.id, dict(self.counts))
        self._enter(State.ENDED)

    def _on_late_first_action(self) -> None:
        late = [actor.name for actor in self.actors if self._pending.owes(actor.index)]
        what = "trial %s waits for actions of %s: set the option `observer` of actors that only"
        self._log.warning(f"{what} watch", self.id, shown(late))

    def _on_inactivity(self) -> None:
        why = f"max_inactivity: nothing was received for {self.params.max_inactivity} s"
        self.end(why, forced=self.state is State.PENDING, failed=True)
