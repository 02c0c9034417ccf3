"""Actors that connect to the orchestrator by themselves: people in browsers, for instance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cogrs.api.common_pb2 import ActorPeriodData
from cogrs.api.orchestrator_pb2 import TrialActionReply
from cogrs.orchestrator.engine.actor import Actor, Stage
from cogrs.orchestrator.engine.backlog import Backlog, find_excess, measure_period
from cogrs.orchestrator.engine.caller import SlotLock
from cogrs.orchestrator.engine.clock import Alarm
from cogrs.orchestrator.engine.errors import (
    AlreadyExistsError,
    ExhaustedError,
    LateError,
    PreconditionError,
)
from cogrs.orchestrator.engine.observation import fill

if TYPE_CHECKING:
    from cogrs.api.agent_pb2 import AgentStartRequest
    from cogrs.api.common_pb2 import ActorParams, ObservationData
    from cogrs.api.orchestrator_pb2 import TrialActionRequest
    from cogrs.orchestrator.engine.clock import Clock
    from cogrs.orchestrator.engine.errors import OrchestratorError
    from cogrs.orchestrator.engine.options import ActorOptions
    from cogrs.orchestrator.engine.ports import ReaderPort
    from cogrs.orchestrator.engine.settings import Settings


def _measure(reply: TrialActionReply) -> int:
    return measure_period(reply.data)


_AT_ONCE = 0.001
"""Seconds; an alarm of 0 never rings."""


class Line:
    """One stream of a client actor: its reader, and what has passed so far."""

    def __init__(self, reader: ReaderPort, *, after_join: bool) -> None:
        """Create a stream that has carried nothing yet."""
        self.reader = reader
        self.after_join = after_join
        """Whether it is the first stream since JoinTrial was called."""
        self.greeted = False
        """Whether a request came."""
        self.observed = False
        """Whether an observation was sent."""


class ClientActor(Actor):
    """A slot for a client.

    Data for it waits in a queue for whatever stream is there to take it. A client that is lost has
    a while to come back, by joining under its name or by opening another stream.
    """

    def __init__(
        self,
        index: int,
        params: ActorParams,
        options: ActorOptions,
        stage: Stage,
        settings: Settings,
        clock: Clock,
    ) -> None:
        """Be free."""
        super().__init__(index, params, options, stage, settings, clock)
        connect = options.initial_connection_timeout
        self._timeout = settings.join_timeout if connect is None else connect
        self.lock = SlotLock(f"actor {params.name!r}")
        """Who may call as this actor."""
        self._outbox: Backlog[TrialActionReply] = Backlog(_measure)
        self._line: Line | None = None
        self._joined = False
        """Whether no stream was opened since JoinTrial was called."""
        self._away = ""
        """Why it is being waited for; empty if it is not."""
        self._owes = False
        self._clock = clock
        self._quiet = 0.0
        """Seconds without a sign of life in earlier ticks, in which default actions stood in."""
        self._asked = 0.0
        """When it came to owe an action, or was last heard from since."""
        self._finishing = False
        self._silence = Alarm(clock, self._silent)
        self._absence = Alarm(clock, self._absent)
        self._vacancy = Alarm(clock, self._vacant)

    # What the trial asks for.

    def start(self, everybody: AgentStartRequest) -> None:
        """Wait for somebody to join."""
        del everybody  # JoinTrial tells them
        self._vacancy.set(self._timeout)

    def deliver(self, period: ActorPeriodData) -> None:
        """Queue the data of a tick; an action is owed from now on."""
        self._owes = True
        self._expect()
        self._await_action()
        self._send(TrialActionReply(data=period))
        if excess := self._find_excess():
            self._hang_up(ExhaustedError(self._say(excess)))
            while self._find_excess():
                self._outbox.popleft()
                self._stage.actor_missed()

    def observe(self, tick_id: int, timestamp: int, data: ObservationData) -> None:
        """Queue an observation; an action is owed from now on."""
        period = ActorPeriodData()
        fill(period.observations.add(), tick_id, timestamp, data)
        self.deliver(period)

    def leave(self, reason: str) -> None:
        """Be gone; a client may come back all the same."""
        super().leave(reason)
        self._owes = False
        for alarm in (self._silence, self._vacancy, self._absence):
            alarm.stop()
        if self.ready:
            self._away = self._away or reason
        if self._line is not None:
            line, self._line = self._line, None
            line.reader.close(LateError(reason))

    def settle(self) -> None:
        """Owe no action any more."""
        super().settle()
        self._owes = False
        self._silence.stop()

    def pause(self) -> None:
        """Owe no action for now; silence goes on where it was when the next is owed."""
        if self._owes:
            self._quiet += self._clock.now() - self._asked
            self.settle()

    def finish(self, period: ActorPeriodData) -> None:
        """Queue the final data; done at once when there is no stream to take it."""
        self._finishing = True
        self._stop()
        if self.ready:
            self._send(TrialActionReply(data=period, final_data=True))
        self.done = self._line is None

    def close(self) -> None:
        """End the stream."""
        self.done = True
        self._stop()
        if self._line is not None:
            line, self._line = self._line, None
            line.reader.close(LateError(f"actor {self.name!r} did not take its final data"))

    # What the client asks for.

    @property
    def returnable(self) -> bool:
        """Whether it is away, and may come back."""
        return bool(self._away)

    def join(self) -> None:
        """Take the slot, for the first time or again."""
        if self._away:
            self._leave("no stream followed JoinTrial")
        else:
            self.gone = False
        self._vacancy.stop()
        self.ready = self._joined = True
        self._stage.heard()
        self._stage.actor_ready()

    def open(self, reader: ReaderPort) -> Line:
        """Open a stream.

        Raises:
            PreconditionError: Nobody joined, or all is said.
            AlreadyExistsError: There is another.
        """
        if not self.ready:
            raise PreconditionError(f"actor {self.name!r} did not join")
        if self._line is not None:
            raise AlreadyExistsError(f"actor {self.name!r} has a stream already")
        if self._finishing and not self._outbox:
            raise PreconditionError(f"actor {self.name!r}: the trial is over")
        self._line = Line(reader, after_join=self._joined)
        self._joined = False
        if self._finishing:
            self.done = False  # it takes its final data now, and the trial waits for that
        else:
            self._return()
            self._stage.heard()
        return self._line

    def take(self, line: Line) -> TrialActionReply | None:
        """Take what is to be sent next, if there is something."""
        if line is not self._line or not self._outbox:
            return None
        reply = self._outbox.popleft()
        line.observed = line.observed or bool(reply.data.observations)
        return reply

    def put_back(self, line: Line, reply: TrialActionReply) -> None:
        """Keep what could not be sent for the next stream."""
        if line is self._line:
            self._outbox.appendleft(reply)

    def received(self, line: Line, request: TrialActionRequest) -> None:
        """The stream brought a request.

        The first request of a stream is a hand-shake if its action is unset; on the first stream
        after JoinTrial also if its action is empty, whatever was sent by then. A request that comes
        before the stream has sent an observation cannot answer one. Everything else is an action,
        even if it is empty: a message of defaults has no bytes.
        """
        if line is not self._line:
            return
        self.heard()
        action = request.action.content if line.after_join else request.HasField("action")
        handshake = not line.greeted and not action
        line.greeted = True
        if line.observed and not handshake:
            self._stage.actor_acted(self, request.action.content)

    def heard(self) -> None:
        """The client gave a sign of life."""
        if not self._finishing:
            self._quiet = 0.0
            self._expect()
            self._stage.heard()

    def hung_up(self, line: Line, why: str) -> None:
        """The stream is over; it was cancelled, or its connection was lost."""
        if line is not self._line:
            return
        self._line = None
        if self._finishing:
            self._finish()
        else:
            self._depart(why)

    def finished(self, line: Line) -> None:
        """The final data was sent."""
        if line is self._line:
            self._line = None
            self._finish()

    def crashed(self, what: str) -> None:
        """The stream failed, by a fault of ours."""
        self._stage.crash(f"actor {self.name!r}: {what}")

    # What happens to it.

    def _send(self, reply: TrialActionReply) -> None:
        self._outbox.append(reply)
        if self._line is not None:
            self._line.reader.wake()

    def _find_excess(self) -> str:
        waiting, settings = self._outbox, self._settings
        most, most_bytes = settings.client_backlog, settings.client_backlog_bytes
        return find_excess(len(waiting), waiting.bytes, most, most_bytes)

    def _expect(self) -> None:
        timeout = self._settings.heartbeat_timeout
        if timeout and self._owes and not self._away:
            self._asked = self._clock.now()
            self._silence.set(max(timeout - self._quiet, _AT_ONCE))

    def _return(self) -> None:
        """Give a client that is back what it needs to go on."""
        self._absence.stop()
        self._quiet = 0.0
        if self.gone:
            self.gone = False
            self._outbox.clear()
            self._stage.actor_away()
        if self._away:
            self._away = ""
            self._restore()
        self._expect()

    def _restore(self) -> None:
        observation = self._stage.recall(self)
        if observation is not None:
            if not self.options.observer:
                self._owes = True
                self._await_action()
            if not any(reply.data.observations for reply in self._outbox):
                period = ActorPeriodData(observations=[observation])
                self._outbox.append(TrialActionReply(data=period))

    def _depart(self, why: str) -> None:
        self._silence.stop()
        self._leave(why)
        self._stage.actor_away()

    def _leave(self, why: str) -> None:
        self._away = why
        if self._settings.window:
            self._absence.set(self._settings.window)
        else:
            self._absent()

    def _silent(self) -> None:
        why = f"not heard from within {self._settings.heartbeat_timeout:g} s"
        self._hang_up(LateError(self._say(why)), why)

    def _hang_up(self, error: OrchestratorError, why: str = "it did not read") -> None:
        line, self._line = self._line, None
        if line is not None or not self._away:
            self._depart(why)
        if line is not None:
            line.reader.close(error)

    def _say(self, what: str) -> str:
        return f"actor {self.name!r}: {what}"

    def _absent(self) -> None:
        window = self._settings.window
        why = f"actor {self.name!r} did not come back within {window:g} s: {self._away}"
        self._stage.actor_lost(self, why)

    def _vacant(self) -> None:
        why = f"nobody joined as actor {self.name!r} within {self._timeout:g} s"
        self._stage.actor_lost(self, why)

    def _stop(self) -> None:
        for alarm in (self._silence, self._absence, self._vacancy, self._patience):
            alarm.stop()

    def _finish(self) -> None:
        self.done = True
        self._stage.actor_done()
