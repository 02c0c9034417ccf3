"""One actor's place, which a person takes: in one trial after the other.

A place is a client of the orchestrator. It reads the events of its session as they come, and
answers each observation by a task of its own, so that an end is seen while a person thinks. All of
it runs on one event loop.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import grpc
import numpy as np

from cogrs.escape import escaped
from cogrs.sdk import (
    ENVIRONMENT,
    Action,
    Final,
    Message,
    Observation,
    ReceivedMessage,
    ReceivedReward,
)
from cogrs.sdk.codecs import array_message, read_array_message
from cogrs.sdk.player_function import call_on_thread
from cogrs.shown import shown
from cogrs.web.audience import Audience
from cogrs.web.game import learned_game
from cogrs.web.inputs import Inputs
from cogrs.web.judgements import Judgement, JudgementError, Judgements, Sending
from cogrs.web.picture import summarize
from cogrs.web.reasons import (
    PLAYER_AWAY,
    PLAYER_LEFT,
    PublicError,
    end_text,
    error_text,
    wait_text,
    whole_text,
)
from cogrs.web.wire import write_message

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from cogrs.sdk import ClientSession, Reward
    from cogrs.web.game import Game

_logger = logging.getLogger("cogrs.web")

_LEAD, _WATCHED_LEAD = 3.0, 1.0
"""Seconds that the first picture stays, unless the person acts before: one that plays has to find
the keys first; one that a policy plays for does not."""
_RETRY = 0.25
"""Seconds between two attempts to join a trial."""
_BETWEEN = 1.5
"""Seconds between the end of a trial and the next one."""
_NOT_YET = (
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.DEADLINE_EXCEEDED,
)
"""How a join is refused while there is no trial to join, or no orchestrator."""


class Place:
    """What people see and do in an actor's place."""

    def __init__(
        self,
        game: Game,
        join: Callable[[], Awaitable[ClientSession | None]],
        *,
        policy: Callable[[Observation], Any] | None = None,
        judged: Sequence[str] = (),
        leave: Callable[[str], Awaitable[Any]] | None = None,
        patience: float = 30.0,
        keep_late: Callable[[str, Reward], bool] | None = None,
    ) -> None:
        """Create a place that has joined nothing yet.

        Args:
            game: What is played, and how.
            join: Returns a session in the next trial, or None if there is no further one.
            policy: Plays while the person does not take over; plain or async.
            judged: Names of the actors that judgements reward; () for all others, or for this one
                if there are no others.
            leave: Called with a trial's id when the person leaves; None leaves the trial alone.
            patience: Seconds for which a trial waits for a person whose connection is lost.
            keep_late: Called with the trial's id and a reward that came after its end, on a thread
                of its own; returns whether it was stored. For programs that keep trials by
                themselves; agents that stored the steps get the reward too.
        """
        self.game = game
        self.audience = Audience()
        self.inputs = Inputs(game.mode)
        self.judgements = Judgements(keep_late)
        self._join = join
        self._policy = policy
        self._judged = judged
        self._on_leave = leave
        self._patience = patience
        self._session: ClientSession | None = None
        self._tick = -1
        self._score = self._reward = 0.0
        self._closed = 0.0
        """When the latest tick was to close, by the loop's clock."""
        self._answering: asyncio.Task[None] | None = None
        self._gone = False
        """Whether the person left for good."""
        self._leaving = asyncio.Event()
        """Set when this trial is to be left."""
        self.changed: set[Callable[[], None]] = set()
        """Called when the game has changed."""
        self._learned = ""
        """The spaces that the game was learned from."""
        self._sessions: dict[str, ClientSession] = {}
        """Of the latest trials, for late judgements."""

    # The trials.

    async def run(self) -> None:
        """Play one trial after the other, until there is no further one or the person leaves."""
        inputs = self.inputs
        while not self._gone:
            await inputs.wait_until(lambda: inputs.present and not inputs.paused)
            try:
                session = await self._next_session()
                if session is None:
                    self.audience.say_last(self._score)
                    return
                await self._play(session)
            except Exception as error:
                # A place outlives its trials: whatever fails is told, and the next one may go well.
                self._fail(error)
            await asyncio.sleep(_BETWEEN)

    async def _next_session(self) -> ClientSession | None:
        while not self._gone:
            try:
                return await self._join()
            except grpc.aio.AioRpcError as error:
                if error.code() not in _NOT_YET:
                    raise
                _logger.debug("no trial to join: %s", whole_text(error))
                self.audience.set_state("waiting", wait_text(error), self._score)
            await asyncio.sleep(_RETRY)
        return None

    async def _play(self, session: ClientSession) -> None:
        self._session = self._sessions[session.trial.id] = session
        while len(self._sessions) > 16:
            del self._sessions[next(iter(self._sessions))]
        self._tick, self._score, self._reward = -1, 0.0, 0.0
        self._leaving.clear()
        self.audience.begin(session.trial.id)
        leaving = asyncio.ensure_future(self._leaving.wait())
        try:
            async with session:
                while (event := await self._next_event(session, leaving)) is not None:
                    self._take(session, event)
        finally:
            leaving.cancel()
            self.judgements.ended(session.trial.id)
            await self._stop_answering()

    async def _next_event(self, session: ClientSession, leaving: asyncio.Task[Any]) -> Any:
        """Return the next event, or None at the end or when the trial is to be left."""
        reading = asyncio.ensure_future(anext(session, None))
        try:
            await asyncio.wait({reading, leaving}, return_when=asyncio.FIRST_COMPLETED)
            return reading.result() if reading.done() else None
        finally:
            reading.cancel()

    def _take(self, session: ClientSession, event: Any) -> None:
        """Handle an event of the session."""
        if isinstance(event, ReceivedMessage):
            self._take_picture(event)
        elif isinstance(event, ReceivedReward):
            self._add_reward(session, event)
        elif isinstance(event, Observation):
            self._open(session, event)
        elif isinstance(event, Final):
            for message in event.messages:
                self._take_picture(message)
            for reward in event.rewards:
                self._add_reward(session, reward)
            if event.observation is not None:
                self._show(event.observation, None)
            self.inputs.close()
            _logger.info("trial %s ended: %s", session.trial.id, escaped(event.reason))
            self.audience.set_state("ended", end_text(event.reason), self._score)

    def _add_reward(self, session: ClientSession, reward: ReceivedReward) -> None:
        """Count a reward, unless it is the person's own judgement."""
        senders = {source.sender_name for source in reward.sources}
        if senders != {session.trial.name}:
            self._reward += reward.value

    def _take_picture(self, message: ReceivedMessage) -> None:
        if message.sender == ENVIRONMENT:
            with suppress(ValueError):  # a message of the user's own kind
                self.audience.show_picture(message.tick, read_array_message(message.payload))

    def _open(self, session: ClientSession, observation: Observation) -> None:
        if self._answering is not None:
            self._answering.cancel()
        if self.game.learns and (not self._learned or session.spaces_json != self._learned):
            self._learn(session)
        self.inputs.open(observation.tick)
        self.judgements.saw(session.trial.id, observation.tick)
        waits = self._policy is None and self.game.mode != "hold"
        seconds = self._seconds(observation.tick)
        self._show(observation, None if waits or self.game.controls is None else seconds)
        if not self.inputs.paused:
            self.audience.set_state("playing", "", self._score)
        if self.game.controls is not None:
            answer = self._answer(session, observation, seconds)
            self._answering = asyncio.ensure_future(answer)
            self._answering.add_done_callback(self._check_answer)

    def _learn(self, session: ClientSession) -> None:
        """Take title and controls from the environment.

        Raises:
            PublicError: It tells nothing that a person can play.
        """
        try:
            self.game = learned_game(self.game, session.spaces_json, session.trial.name)
        except (ImportError, ValueError) as error:
            raise PublicError(str(error)) from error
        self._learned = session.spaces_json
        for tell in list(self.changed):
            tell()

    def _seconds(self, tick: int) -> float:
        """Return for how long a tick is open."""
        if tick == 0:
            return _LEAD if self._policy is None else _WATCHED_LEAD
        # By the clock, so that the time of a step does not add to that of a tick; but a person gets
        # half of it in any case.
        period, now = 1 / self.game.fps, asyncio.get_running_loop().time()
        return min(max(self._closed + period - now, period / 2), period)

    def _show(self, observation: Observation, deadline: float | None) -> None:
        self._tick = observation.tick
        self._score += self._reward
        summary = {} if self.audience.has_pictures else summarize(observation.value)
        text = write_message(
            "tick",
            tick=observation.tick,
            reward=self._reward,
            score=self._score,
            deadline=deadline,
            summary=summary,
        )
        self._reward = 0.0
        self.audience.show_tick(text)

    # The answer to an observation.

    async def _answer(
        self, session: ClientSession, observation: Observation, seconds: float
    ) -> None:
        planned = None if self._policy is None else await self._decide(observation)
        value, taken_over = await self._choose(observation, planned, seconds)
        self.inputs.close()
        messages = []
        if taken_over:
            note = array_message({"policy": planned, "person": value, "takeover": True})
            messages = [Message(session.trial.name, note, observation.tick)]
        await session.act(value, messages=messages)

    async def _decide(self, observation: Observation) -> Any:
        assert self._policy is not None
        if inspect.iscoroutinefunction(self._policy):
            action = await self._policy(observation)
        else:
            action = await call_on_thread(self._policy, observation)
        return action.value if isinstance(action, Action) else action

    async def _choose(
        self, observation: Observation, planned: Any, seconds: float
    ) -> tuple[Any, bool]:
        """Return the action of a tick once it closes, and whether the person took over."""
        inputs, controls = self.inputs, self.game.controls
        assert controls is not None
        seen = observation.value
        if isinstance(seen, Mapping) and "turn" in seen and not np.any(seen["turn"]):
            return controls.default, False  # which is ignored
        if self._policy is None and inputs.mode != "hold":
            await self._present()
            return await inputs.next_press(), False
        await self._pace(observation.tick, seconds)
        held = controls.default if inputs.held is None else inputs.held
        if self._policy is None:
            return held, False
        return (held, True) if inputs.takeover else (planned, False)

    async def _pace(self, tick: int, seconds: float) -> None:
        """Wait until a tick closes."""
        inputs, loop = self.inputs, asyncio.get_running_loop()
        while True:
            await self._present()
            until = loop.time() + seconds

            def begins() -> bool:
                held = inputs.held is not None and tick == 0
                return inputs.paused or held

            if not await inputs.wait_until(begins, until) or not inputs.paused:
                self._closed = until
                return

    async def _present(self) -> None:
        """Wait while the person pauses, or is away; one that stays away leaves."""
        inputs, loop = self.inputs, asyncio.get_running_loop()
        while not inputs.present or inputs.paused:
            self.audience.set_state("paused", "", self._score)
            if inputs.paused and inputs.present:
                await inputs.wait_until(lambda: not (inputs.paused and inputs.present))
            elif not await inputs.wait_until(lambda: inputs.present, loop.time() + self._patience):
                self._leaving.set()
                self.audience.set_state("ended", PLAYER_AWAY, self._score)
                await asyncio.Event().wait()
        if self.audience.state == "paused":
            self.audience.set_state("playing", "", self._score)

    def _check_answer(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or (error := task.exception()) is None or self._leaving.is_set():
            return
        if not isinstance(error, grpc.aio.AioRpcError):  # which reading the session sees, too
            self._fail(error)
            self._leaving.set()

    async def _stop_answering(self) -> None:
        if self._answering is not None:
            self._answering.cancel()
            await asyncio.wait({self._answering})
            self._answering = None
        self.inputs.close()

    def _fail(self, error: BaseException) -> None:
        if isinstance(error, grpc.aio.AioRpcError | ConnectionError):
            _logger.warning("the trial was lost: %s", whole_text(error))
        else:
            _logger.error("a place failed", exc_info=error)
        self.audience.set_state("ended", error_text(error), self._score)

    # What people ask for.

    def act(self, message: dict[str, Any]) -> str | None:
        """Take an action of the page; return why it is refused, or None."""
        value = message.get("value")
        if self.game.controls is None:
            return "this place watches and judges, and does not act"
        if value is not None:
            try:
                value = self.game.controls.parse(value)
            except ValueError as error:
                return str(error)
        takeover = bool(message.get("takeover")) and self.game.takeover
        self.inputs.take(message.get("tick"), value, takeover=takeover)
        return None

    async def judge(
        self, message: dict[str, Any], tell: Callable[[Judgement], None] = lambda _: None
    ) -> Judgement:
        """Take a judgement, or take one back; it goes on if the caller is cancelled meanwhile.

        Args:
            message: Of type `feedback`.
            tell: Called once the judgement is sent, if it had to wait for a tick.

        Raises:
            JudgementError: It is refused.
        """
        sending = self._sending_of(message)
        try:
            return await self.judgements.deliver(sending, tell)
        except grpc.aio.AioRpcError as error:
            _logger.warning("a judgement was not sent: %s", whole_text(error))
            raise JudgementError("the connection to the game was lost: try again") from error

    async def finish_judging(self, seconds: float) -> None:
        """Wait until all judgements that were taken are stored, or so many seconds."""
        await self.judgements.finish(seconds)

    def _sending_of(self, message: dict[str, Any]) -> Sending:
        session, wanted = self._session, message.get("trial")
        if not self.game.feedback or session is None:
            raise JudgementError("there is nothing to judge yet")
        if message.get("undo"):
            return self.judgements.undo()
        if wanted:  # another trial is not to get its judgement
            session = self._sessions.get(wanted)
            if session is None:
                raise JudgementError(f"trial: expected one of the latest, got {shown(wanted)}")
        ticks = message.get("ticks") or [message.get("tick")]
        if ticks[0] is None or "value" not in message:
            raise JudgementError("feedback: expected a tick and a value")
        if session is self._session and max(ticks) > self._tick:
            raise JudgementError(f"tick: expected at most {self._tick}, got {max(ticks)}")
        return self.judgements.add(
            session,
            self._receivers(session),
            ticks,
            message["value"],
            message.get("confidence", 1.0),
            message.get("seen", 0.0),
        )

    def _receivers(self, session: ClientSession) -> Sequence[str]:
        if self._judged:
            return self._judged
        mine = session.trial.actor
        others = [
            each.name for each in session.trial.actors if each.actor_class != mine.actor_class
        ]
        return others or [mine.name]

    def pause(self, *, on: bool) -> None:
        """Stop the ticks, or let them go on; one who only judges holds nothing up."""
        if self.game.controls is None:
            return
        self.inputs.set(paused=on)
        if self.audience.state in ("playing", "paused"):
            self.audience.set_state("paused" if on else "playing", "", self._score)

    async def leave(self) -> None:
        """Leave the place for good."""
        session, ended = self._session, self.audience.state == "ended"
        self._gone = True
        self._leaving.set()
        self.inputs.release()
        if session is not None and not ended and self._on_leave is not None:
            await self._on_leave(session.trial.id)
        if not ended:
            self.audience.set_state("ended", PLAYER_LEFT, self._score)
