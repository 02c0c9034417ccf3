"""One trial, from its first parameter to its last reward."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

from cogrs.api.agent_pb2 import AgentStartRequest
from cogrs.api.environment_pb2 import EnvActionRequest, ObservationSet
from cogrs.escape import escaped
from cogrs.orchestrator.engine import observation
from cogrs.orchestrator.engine.actor import ServiceActor, deliver
from cogrs.orchestrator.engine.backlog import Backlog, find_excess
from cogrs.orchestrator.engine.client import ClientActor
from cogrs.orchestrator.engine.clock import Alarm, GuardedClock
from cogrs.orchestrator.engine.environment import Environment, Life
from cogrs.orchestrator.engine.gathering import Gathering
from cogrs.orchestrator.engine.journal import Journal
from cogrs.orchestrator.engine.log import trial_logger
from cogrs.orchestrator.engine.options import OptionBook
from cogrs.orchestrator.engine.params import ENVIRONMENT, actors_in_trial
from cogrs.orchestrator.engine.phase import Phase, awaited
from cogrs.orchestrator.engine.post import Post
from cogrs.orchestrator.engine.reason import Reason, brief_of
from cogrs.orchestrator.engine.roster import Roster
from cogrs.orchestrator.engine.state import State, check_step

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from cogrs.api.common_pb2 import ActorPeriodData, Message, Observation, Reward, TrialParams
    from cogrs.api.environment_pb2 import EnvActionReply, EnvStartReply
    from cogrs.orchestrator.engine.actor import Actor
    from cogrs.orchestrator.engine.clock import Clock
    from cogrs.orchestrator.engine.figures import Figures
    from cogrs.orchestrator.engine.ports import Links
    from cogrs.orchestrator.engine.settings import Settings

_NO_OPTIONS = OptionBook()


class Trial:
    """The rules of a trial. Events come in by the methods named after who they come from."""

    def __init__(
        self,
        trial_id: str,
        user_id: str,
        settings: Settings,
        clock: Clock,
        report: Callable[[Trial], None],
        figures: Figures,
        *,
        brief: bool = False,
    ) -> None:
        """Be known, before there are parameters.

        Args:
            trial_id: Its id.
            user_id: Who starts it.
            settings: Durations.
            clock: Time.
            report: Told of each change of state.
            figures: Counts what happens.
            brief: Whether clients are not told what failures say.
        """
        self._brief = brief
        self.id = trial_id
        self.user_id = user_id
        self._log = trial_logger(trial_id)
        self.state = State.INITIALIZING
        self.actors: tuple[Actor, ...] = ()
        self.roster = Roster()
        self.everybody = AgentStartRequest()
        """Names all actors; not to be changed."""
        self.params_bytes = 0
        """Of the parameters, or of the request that asks for them."""
        self.latest: ObservationSet | None = None
        self.end_reason = ""
        self.told_reason = ""
        """What clients are told of it."""
        self.failed = False
        """Whether it ended because something failed or was lost."""
        self.counts: Counter[str] = Counter()
        """What was dropped."""
        self._settings = settings
        self._clock = GuardedClock(clock, self.crash)
        self._report = report
        self._figures = figures
        self._concluded = False
        self._idle = Alarm(self._clock, self._inactive)
        self._deadline = Alarm(self._clock, self._too_late)
        self._phase = Phase.STARTING
        self._tick = -1
        self._dispatched = 0.0
        self._exchanges = 0
        self._snapshot = False
        self._early: Backlog[EnvActionReply] = Backlog()

    # The start.

    def accept(
        self,
        params: TrialParams,
        links: Links,
        exclude: Collection[str] = (),
        options: OptionBook = _NO_OPTIONS,
    ) -> None:
        """Take the parameters, and start everything at once.

        Args:
            params: Checked ones.
            links: Makes the ports.
            exclude: Fields that the data log is not told.
            options: Of actors.
        """
        self.params = params
        self._options = options
        self._environment = Environment(self.id, params, self, links, self._clock)
        self.actors = tuple(self._make_actor(index, links) for index in range(len(params.actors)))
        self.roster = Roster(self.actors)
        names = [actor.name for actor in self.actors]
        self._post = Post(self.id, names, self.counts, self._settings)
        self._gathering = Gathering(len(names))
        self._journal = Journal(links.log(self.id), self.user_id, exclude)
        self._enter(State.PENDING)
        self.heard()
        self._environment.start(self._settings)
        # Made once: to copy a message takes a twentieth of what it takes to make it.
        self.everybody = AgentStartRequest(actors_in_trial=actors_in_trial(params))
        for actor in self.actors:
            actor.start(self.everybody)

    def _make_actor(self, index: int, links: Links) -> Actor:
        params = self.params.actors[index]
        common = (index, params, self._options.of(params), self, self._settings, self._clock)
        if params.endpoint == "client":
            return ClientActor(*common)
        return ServiceActor(*common, self.id, links)

    def environment_started(self, reply: EnvStartReply) -> None:
        """OnStart was answered."""
        self.heard()
        if self.state is State.TERMINATING:
            self._ask_end()
            return
        fault = "no observation set"
        if reply.HasField("observation_set"):
            fault = observation.find_fault(reply.observation_set, len(self.actors)) or ""
        if fault:
            self.end(f"environment: OnStart: {fault}", failed=True)
            return
        self.latest = reply.observation_set
        self._run()

    def actor_ready(self) -> None:
        """An agent started, or a client joined."""
        self._run()

    def _run(self) -> None:
        if self.state is not State.PENDING or self.latest is None:
            return
        if not all(actor.ready or actor.gone for actor in self.actors):
            return
        self._enter(State.RUNNING)
        self.heard()
        self._journal.open(self.params)
        self._dispatch(self.latest)
        early, self._early = self._early, Backlog()
        for reply in early:
            self._environment.replied(reply)

    # The tick.

    def environment_replied(self, reply: EnvActionReply) -> None:
        """The environment made a step, asked or not."""
        self.heard()
        if reply.final_update:
            self._concluded = self.state is not State.TERMINATING
            self.end("environment: final update", ask=False)
            for missed in self._early:
                self._register(missed)
            self._conclude(reply)
        elif self._phase is Phase.ENDING:
            # Its observations are overtaken by those that OnEnd will bring.
            self._register(reply)
        elif self._phase is Phase.STARTING:
            self._keep_early(reply)
        elif fault := observation.find_fault_of_step(reply, len(self.actors)):
            self._fail(f"environment: reply: {fault}")
        else:
            self._register(reply)
            self._dispatch(reply.observation_set)
            # A client that does not read may have been lost by this, and the end asked for.
            if self.state is State.TERMINATING and self._phase is Phase.ACTORS:
                self._ask_end()

    def _keep_early(self, reply: EnvActionReply) -> None:
        """Keep a reply until the trial runs."""
        early, settings = self._early, self._settings
        early.append(reply)
        most, most_bytes = settings.client_backlog, settings.client_backlog_bytes
        if excess := find_excess(len(early), early.bytes, most, most_bytes):
            early.clear()
            self.end(f"environment: before the trial runs, {excess}", failed=True)

    def _fail(self, reason: str) -> None:
        # What the environment was to answer has been answered, if not well.
        self._phase = Phase.ACTORS
        if self.state is State.TERMINATING:
            self._ask_end()
        else:
            self.end(reason, failed=True)

    def _register(self, reply: EnvActionReply) -> None:
        rewards, messages = reply.rewards, reply.messages
        if rewards or messages:
            self._post.add(ENVIRONMENT, rewards, messages)

    def _dispatch(self, observations: ObservationSet) -> None:
        """Send an observation set, and what is due with it, to all actors."""
        now = self._clock.now()
        if self._tick >= 0:
            self._figures.tick(now - self._dispatched)
        self._dispatched = now
        self._stamp(observations)
        self._phase = Phase.ACTORS
        self._gathering.open()
        periods = [] if self._post.is_empty else self._periods(final=False)
        self._journal.turn(observations, periods)
        deliver(self.actors, observations, periods)
        self._stand_in()

    def _stamp(self, observations: ObservationSet, *, final: bool = False) -> None:
        """Give a set its number, and a time if it has none."""
        self._tick += 1
        told = observations.tick_id
        if told not in (0, self._tick) and not (final and told == self._tick - 1):
            self.counts["wrong ticks"] += 1
            if self.counts["wrong ticks"] == 1:
                what = "trial %s: environment: expected tick %d, got %d; the orchestrator counts"
                self._log.warning(what, self.id, self._tick, told)
        observations.tick_id = self._tick
        observations.timestamp = observations.timestamp or self._clock.wall_ns()
        self.latest = observations

    def _periods(self, *, final: bool) -> list[ActorPeriodData]:
        return [self._post.period(actor.name, self._tick, final=final) for actor in self.actors]

    def actor_acted(self, actor: Actor, action: bytes) -> None:
        """An actor gave an action; the first of a tick counts."""
        if self._phase is Phase.FINAL or not self._gathering.put(actor.index, action):
            if not actor.options.observer:
                self.counts["extra actions"] += 1
            return
        actor.settle()
        if self._gathering.complete:
            self._step()

    def actor_late(self, actor: Actor, reason: str) -> None:
        """An actor did not answer in time: its default action does."""
        if self.state is not State.RUNNING or not self._gathering.owes(actor.index):
            return
        if actor.options.default_action is None:
            self.actor_lost(actor, reason)
            return
        self.counts["default actions"] += 1
        self._gathering.put(actor.index, actor.options.default_action)
        actor.pause()
        if self._gathering.complete:
            self._step()

    def _stand_in(self) -> None:
        """Act for actors that are gone, and for observers."""
        if self.state is not State.RUNNING or self._phase is not Phase.ACTORS:
            return
        absent = [actor for actor in self.actors if actor.gone or actor.options.observer]
        for actor in absent:
            put = self._gathering.put(actor.index, actor.options.default_action or b"")
            if actor.options.observer:
                actor.settle()
            elif put:
                self.counts["default actions"] += 1
        if absent and self._gathering.complete:
            self._step()

    def _step(self) -> None:
        """Send the actions to the environment."""
        limit = self.params.max_steps
        if limit and self._exchanges == limit:
            self.end(f"max_steps: {limit} steps are done")
            return
        self._phase = Phase.ENVIRONMENT
        self._exchanges += 1
        self._environment.act(*self._answer())

    def _last_answer(self) -> tuple[list[Message], EnvActionRequest]:
        for actor in self.actors:
            actor.settle()
        return self._answer()

    def _answer(self) -> tuple[list[Message], EnvActionRequest]:
        actions = self._gathering.close() if self.actors else []
        messages = self._post.environment_messages(max(self._tick, 0))
        self._journal.answer(actions, messages)
        request = EnvActionRequest()
        request.action_set.actions.extend(actions)
        request.reply_with_snapshot, self._snapshot = self._snapshot, False
        return messages, request

    # What actors do besides.

    def heard(self) -> None:
        """Somebody gave a sign of life."""
        if self.params.max_inactivity and self.state in (State.PENDING, State.RUNNING):
            self._idle.set(self.params.max_inactivity)

    def take_sent(
        self, actor: Actor, rewards: Collection[Reward], messages: Collection[Message]
    ) -> None:
        """Take rewards and messages of a request of an actor, or refuse all.

        Raises:
            InvalidError, ExhaustedError: As `Post.check`.
        """
        self._post.check(actor.name, rewards, messages)
        self._post.keep(actor.name, rewards, messages)

    def actor_sent(
        self, actor: Actor, rewards: Collection[Reward], messages: Collection[Message]
    ) -> None:
        """An agent sent rewards and messages with an action, which wait for the next dispatch."""
        self._post.add(actor.name, rewards, messages)

    def actor_away(self) -> None:
        """An actor may have missed observations."""
        self._snapshot = True

    def actor_missed(self) -> None:
        """An actor will never see a tick."""
        self.counts["missed ticks"] += 1

    def recall(self, actor: Actor) -> Observation | None:
        """Ask an actor that is back again; see `Stage`."""
        if self._phase is not Phase.ACTORS or self.latest is None:
            return None
        if not actor.options.observer:
            self._gathering.take_back(actor.index)
        return observation.for_actor(self.latest, actor.index)

    # The end.

    @property
    def over(self) -> bool:
        """Whether nothing can be sent to anybody any more."""
        return self._phase is Phase.FINAL or self.state is State.ENDED

    def awaited(self) -> list[str]:
        """Return what the trial waits for: `environment`, and the classes of actors."""
        gathering = self._gathering if self.actors else None
        seen = self.latest is not None
        return awaited(self.state, self._phase, self.actors, gathering, seen=seen)

    def actor_lost(self, actor: Actor, reason: str) -> None:
        """An actor failed, or is gone: without one that is optional the trial goes on."""
        if not actor.options.may_be_lost or self.state >= State.TERMINATING:
            self.end(reason, failed=True)
        elif not actor.gone:
            actor.leave(reason)
            what = "trial %s goes on without an actor: %s"
            self._log.warning(what, self.id, escaped(reason))
            players = [each for each in self.actors if not each.options.observer]
            if all(each.gone for each in players or self.actors):
                why = f"no actor is left: {reason}"
                self.end(Reason(why, f"no actor is left: {brief_of(reason)}"), failed=True)
            else:
                self._run()
                self._stand_in()

    def environment_lost(self, reason: str) -> None:
        """The environment failed, or is gone: there is nobody to ask for the end."""
        self.end(reason, ask=False, failed=True)
        if not self.over:
            self._hand_over(None)

    def crash(self, what: str) -> None:
        """Something of ours failed."""
        self.end(Reason(f"internal error: {what}", "internal error"), forced=True, failed=True)

    def end(
        self, reason: str, *, ask: bool = True, forced: bool = False, failed: bool = False
    ) -> None:
        """End the trial; what is said first is its reason.

        Args:
            reason: Why.
            ask: Ask the environment for its last data.
            forced: Do not wait for the environment; nor, when actors have been given their final
                data already, for them.
            failed: Something failed or was lost, which is logged as a warning.
        """
        if self.state < State.TERMINATING:
            self.end_reason, self.failed = escaped(reason), failed
            if self._brief:
                reason = brief_of(reason)
            self.told_reason = escaped(reason)
            level = logging.WARNING if failed else logging.INFO
            self._log.log(level, "trial %s ends: %s", self.id, self.end_reason)
            initializing = self.state is State.INITIALIZING
            self._idle.stop()
            self._enter(State.TERMINATING)
            if initializing:
                self._enter(State.ENDED)
            elif ask and not forced:
                self._end_softly()
        if forced and self.state is State.TERMINATING:
            self._force()

    def _end_softly(self) -> None:
        self._deadline.set(self._settings.end_timeout)
        if self._environment.life is Life.STARTED and self._phase is not Phase.ENVIRONMENT:
            self._ask_end()

    def _ask_end(self) -> None:
        """Send the environment its last actions."""
        self._phase = Phase.ENDING
        self._deadline.set(self._settings.end_timeout)
        self._environment.end(*self._last_answer())

    def environment_ended(self, reply: EnvActionReply) -> None:
        """OnEnd was answered."""
        self._conclude(reply)

    def _conclude(self, reply: EnvActionReply) -> None:
        """Pass on the last reply of the environment."""
        self._register(reply)
        observations = reply.observation_set if reply.HasField("observation_set") else None
        fault = observation.find_fault(reply.observation_set, len(self.actors))
        if observations is not None and fault:
            self._log.warning("trial %s: environment: last observations: %s", self.id, fault)
            observations = None
        self._hand_over(observations, replied=True)

    def _force(self) -> None:
        if self._phase is Phase.FINAL:
            self._close()
            return
        if self._environment.life is Life.STARTED:
            # Nobody waits for its answer, but its session is to be freed.
            self._environment.end(*self._last_answer())
        self._hand_over(None)

    def _hand_over(self, observations: ObservationSet | None, *, replied: bool = False) -> None:
        """Give all actors their final data."""
        self._phase = Phase.FINAL
        if observations is not None:
            self._stamp(observations, final=True)
        else:
            self._tick += 1
        periods = self._periods(final=True)
        if replied:
            self._journal.turn(observations, periods)
        self._journal.close(self.end_reason, () if replied else periods)
        self._environment.close(self._settings.close_grace)
        self._deadline.set(self._settings.final_timeout)
        if observations is not None:
            observation.add_observations(periods, observations)
        for actor, period in zip(self.actors, periods, strict=True):
            client = isinstance(actor, ClientActor)
            period.end_reason = self.told_reason if client else self.end_reason
            actor.finish(period)
        self.actor_done()

    def actor_done(self) -> None:
        """An actor has its final data, or will never take it."""
        if self.state is State.TERMINATING and all(actor.done for actor in self.actors):
            self._close()

    def _too_late(self) -> None:
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
        self._environment.close(self._settings.close_grace)
        if self.counts:
            self._log.info("trial %s: %s", self.id, dict(self.counts))
        self._enter(State.ENDED)

    def _inactive(self) -> None:
        why = f"max_inactivity: nothing was received for {self.params.max_inactivity} s"
        self.end(why, forced=self.state is State.PENDING, failed=True)

    def _enter(self, state: State) -> None:
        check_step(self.state, state)
        self.state = state
        if state is State.ENDED:
            self._figures.end(self.counts, concluded=self._concluded)
        self._report(self)
