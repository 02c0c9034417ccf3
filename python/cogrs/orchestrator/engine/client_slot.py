"""An actor of one trial that is a place for a client, which calls the orchestrator by itself.

Clients pull: data waits in the slot's queue, from which the call that writes the client's stream
takes it, and puts back what it could not write. So data waits for a stream, and a stream that
breaks loses nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from google.protobuf.wrappers_pb2 import StringValue

from cogrs.api.common_pb2 import ActorPeriodData, ObservationData
from cogrs.api.orchestrator_pb2 import TrialActionReply, TrialActionRequest
from cogrs.orchestrator.engine.actor import Actor, ActorContext
from cogrs.orchestrator.engine.backlog import Backlog, find_excess, measure_period
from cogrs.orchestrator.engine.clock import Alarm
from cogrs.orchestrator.engine.errors import (
    AlreadyExistsError,
    ExhaustedError,
    LateError,
    OrchestratorError,
    PreconditionError,
)
from cogrs.orchestrator.engine.observation import fill
from cogrs.orchestrator.engine.slot_secret import SlotSecret

if TYPE_CHECKING:
    from cogrs.api.agent_pb2 import AgentStartRequest
    from cogrs.orchestrator.engine.ports import ReaderPort


def _measure(reply: TrialActionReply) -> int:
    return measure_period(reply.data)


_AT_ONCE = 0.001
"""Seconds; an alarm of 0 never rings."""


@dataclass(eq=False, slots=True)
class ClientStream:
    """One stream of a client: its reader, and what has passed so far."""

    reader: ReaderPort
    after_join: bool  # whether it is the first stream since JoinTrial was called
    greeted: bool = False  # whether a request came
    observed: bool = False  # whether an observation was sent
    wants_spaces: bool = False  # whether the client is to be told the environment's spaces


class ClientSlot(Actor):
    """A place for a client.

    Its data waits for any stream of the client. A client that is lost has some time to come back,
    by joining under its name or by opening another stream.
    """

    def __init__(self, context: ActorContext) -> None:
        """Create a free slot."""
        super().__init__(context)
        connect = self.options.initial_connection_timeout
        self._join_timeout = self._settings.join_timeout if connect is None else connect
        self._label = f"actor {self.name!r}"
        self.secret = SlotSecret(self._label)
        """Decides which calls may act for this actor."""
        self._outbox: Backlog[TrialActionReply] = Backlog(_measure)
        self._stream: ClientStream | None = None
        self._joined = False
        """Whether no stream was opened since JoinTrial was called."""
        self._away = ""
        """Why the client is being waited for; empty if it is not."""
        self._owes = False
        self._clock = clock = context.clock
        self._silent_before = 0.0
        """Seconds without a sign of life in earlier ticks, which ended by a default action."""
        self._silent_since = 0.0
        """When the present action came to be owed, or the last sign of life since."""
        self._finishing = False
        self._heartbeat_alarm = Alarm(clock, self._on_silence)
        self._reconnect_alarm = Alarm(clock, self._on_absence)
        self._join_alarm = Alarm(clock, self._on_no_join)

    # Called by the trial.

    def start(self, start_request: AgentStartRequest) -> None:
        """Wait for a client to join."""
        del start_request  # JoinTrial's answer has its list of actors
        self._join_alarm.set(self._join_timeout)

    def deliver(self, period: ActorPeriodData) -> None:
        """Queue the data of a tick; an action is owed from now on."""
        self._owes = True
        self._watch_silence()
        self._await_action()
        self._send(TrialActionReply(data=period))
        if excess := self._find_excess():
            self._hang_up(ExhaustedError(f"{self._label}: {excess}"), "it did not read")
            while self._find_excess():
                self._outbox.popleft()
                self._trial.actor_missed()

    def observe(self, tick_id: int, timestamp: int, data: ObservationData) -> None:
        """Queue an observation; an action is owed from now on."""
        period = ActorPeriodData()
        fill(period.observations.add(), tick_id, timestamp, data)
        self.deliver(period)

    def leave(self, reason: str) -> None:
        """Mark the actor as gone; its client may come back all the same."""
        super().leave(reason)
        self._owes = False
        for alarm in (self._heartbeat_alarm, self._join_alarm, self._reconnect_alarm):
            alarm.stop()
        if self.ready:
            self._away = self._away or reason
        self._close_stream(reason)

    def settle(self) -> None:
        """Expect no action any more."""
        super().settle()
        self._owes = False
        self._heartbeat_alarm.stop()

    def pause(self) -> None:
        """Expect no action for now; the time of silence counts on when the next is owed."""
        if self._owes:
            self._silent_before += self._clock.now() - self._silent_since
            self.settle()

    def finish(self, period: ActorPeriodData) -> None:
        """Queue the final data; done at once when there is no stream to take it."""
        self._finishing = True
        self._stop_alarms()
        if self.ready:
            self._send(TrialActionReply(data=period, final_data=True))
        self.done = self._stream is None

    def close(self) -> None:
        """End the stream."""
        self.done = True
        self._stop_alarms()
        self._close_stream(f"{self._label} did not take its final data")

    # Called by the service of client actors.

    @property
    def returnable(self) -> bool:
        """Whether its client is away, and may come back."""
        return bool(self._away)

    @property
    def awaits_stream(self) -> bool:
        """Whether its client joined, and has not opened a stream since."""
        return self._joined and self._stream is None

    def join(self) -> None:
        """Take the slot, for the first time or again."""
        if self._away:
            self._wait_for_return("no stream followed JoinTrial")
        else:
            self.gone = False
        self._join_alarm.stop()
        self.ready = self._joined = True
        self._trial.heard()
        self._trial.actor_ready()

    def open(self, reader: ReaderPort, *, wants_spaces: bool = False) -> ClientStream:
        """Open a stream; with `wants_spaces` its first observation comes with them, as a message.

        Raises:
            PreconditionError: No client joined, or the final data was sent.
            AlreadyExistsError: There is another stream.
        """
        if not self.ready:
            raise PreconditionError(f"{self._label} did not join")
        if self._stream is not None:
            raise AlreadyExistsError(f"{self._label} has a stream already")
        if self._finishing and not self._outbox:
            raise PreconditionError(f"{self._label}: the trial is over")
        self._stream = ClientStream(reader, after_join=self._joined, wants_spaces=wants_spaces)
        self._joined = False
        self.done = False  # a stream that opens while the trial ends takes the final data
        if not self._finishing:
            self._resume()
            self._trial.heard()
        return self._stream

    def take(self, stream: ClientStream) -> TrialActionReply | None:
        """Take the next reply to send, or None."""
        if stream is not self._stream or not self._outbox:
            return None
        reply = self._outbox.popleft()
        stream.observed = stream.observed or bool(reply.data.observations)
        if stream.observed and stream.wants_spaces:
            stream.wants_spaces = False
            self._add_spaces(reply)
        return reply

    def _add_spaces(self, reply: TrialActionReply) -> None:
        """Add the environment's spaces: a message without a sender, which no party can send."""
        if self._trial.spaces:
            message = reply.data.messages.add(tick_id=max(reply.data.observations[0].tick_id, 0))
            message.payload.Pack(StringValue(value=self._trial.spaces))

    def put_back(self, stream: ClientStream, reply: TrialActionReply) -> None:
        """Keep a reply that could not be sent for the next stream."""
        if stream is self._stream:
            self._outbox.appendleft(reply)

    def received(self, stream: ClientStream, request: TrialActionRequest) -> None:
        """Take a request of the stream.

        The first request of a stream is a hand-shake if its action is unset; on the first stream
        after JoinTrial also if its action is empty, whether or not something was sent by then. A
        request that comes before the stream has sent an observation cannot answer one. Everything
        else is an action, even if it is empty: a message of defaults has no bytes.
        """
        if stream is not self._stream:
            return
        self.heard()
        action = request.action.content if stream.after_join else request.HasField("action")
        handshake = not stream.greeted and not action
        stream.greeted = True
        if stream.observed and not handshake:
            self._trial.actor_acted(self, request.action.content)

    def heard(self) -> None:
        """Handle a sign of life."""
        if not self._finishing:
            self._silent_before = 0.0
            self._watch_silence()
            self._trial.heard()

    def hung_up(self, stream: ClientStream, why: str) -> None:
        """Handle the end of a stream that was cancelled, or whose connection was lost."""
        if stream is not self._stream:
            return
        self._stream = None
        if self._finishing:
            self._finish()
        else:
            self._lose_stream(why)

    def finished(self, stream: ClientStream) -> None:
        """Finish the slot, whose final data was sent."""
        if stream is self._stream:
            self._stream = None
            self._finish()

    def crashed(self, what: str) -> None:
        """Handle an error of the call that serves the stream."""
        self._trial.crash(f"{self._label}: {what}")

    # Internals.

    def _send(self, reply: TrialActionReply) -> None:
        self._outbox.append(reply)
        if self._stream is not None:
            self._stream.reader.wake()

    def _find_excess(self) -> str:
        return find_excess(len(self._outbox), self._outbox.bytes, self._settings)

    def _watch_silence(self) -> None:
        timeout = self._settings.heartbeat_timeout
        if timeout and self._owes and not self._away:
            self._silent_since = self._clock.now()
            self._heartbeat_alarm.set(max(timeout - self._silent_before, _AT_ONCE))

    def _resume(self) -> None:
        """Give a client that is back what it needs to go on."""
        self._reconnect_alarm.stop()
        self._silent_before = 0.0
        if self.gone:
            self.gone = False
            self._outbox.clear()
            self._trial.actor_away()
        if self._away:
            self._away = ""
            self._restore()
        self._watch_silence()

    def _restore(self) -> None:
        observation = self._trial.recall(self)
        if observation is not None:
            if not self.options.observer:
                self._owes = True
                self._await_action()
            if not any(reply.data.observations for reply in self._outbox):
                period = ActorPeriodData(observations=[observation])
                self._outbox.append(TrialActionReply(data=period))

    def _lose_stream(self, why: str) -> None:
        self._heartbeat_alarm.stop()
        self._wait_for_return(why)
        self._trial.actor_away()

    def _wait_for_return(self, why: str) -> None:
        self._away = why
        if self._settings.window:
            self._reconnect_alarm.set(self._settings.window)
        else:
            self._on_absence()

    def _hang_up(self, error: OrchestratorError, why: str) -> None:
        stream, self._stream = self._stream, None
        if stream is not None or not self._away:
            self._lose_stream(why)
        if stream is not None:
            stream.reader.close(error)

    def _close_stream(self, why: str) -> None:
        if self._stream is not None:
            stream, self._stream = self._stream, None
            stream.reader.close(LateError(why))

    def _on_silence(self) -> None:
        why = f"not heard from within {self._settings.heartbeat_timeout:g} s"
        self._hang_up(LateError(f"{self._label}: {why}"), why)

    def _on_absence(self) -> None:
        window = self._settings.window
        why = f"{self._label} did not return within {window:g} s: {self._away}"
        self._trial.actor_lost(self, why)

    def _on_no_join(self) -> None:
        why = f"nobody joined as actor {self.name!r} within {self._join_timeout:g} s"
        self._trial.actor_lost(self, why)

    def _stop_alarms(self) -> None:
        for alarm in (
            self._heartbeat_alarm,
            self._reconnect_alarm,
            self._join_alarm,
            self._response_alarm,
        ):
            alarm.stop()

    def _finish(self) -> None:
        self.done = True
        self._trial.actor_done()
