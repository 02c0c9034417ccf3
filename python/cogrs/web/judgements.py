"""What people have judged: rewards that were sent, and those that were taken back."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import grpc

from cogrs.escape import escaped
from cogrs.sdk import Reward
from cogrs.sdk.codecs import array_message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from cogrs.sdk import ClientSession

_logger = logging.getLogger("cogrs.web")

_MOST = 1000
"""Judgements that can be taken back; the oldest is forgotten."""


_MOST_TICKS = 256
"""Ticks that a judgement is spread over; each costs a call, or a file of a store written anew."""
_ROUNDING = 1e-9
_MOST_SENDINGS = 64
"""Judgements that are on their way."""
_FORGOTTEN = (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.UNAVAILABLE)
"""How a reward is refused once its trial is forgotten, or without an orchestrator."""


class JudgementError(ValueError):
    """A judgement that is refused; the text is shown to the person."""


@dataclass(eq=False)
class Judgement:
    """One judgement of a picture, or of several in a credit window."""

    id: int
    session: ClientSession
    receivers: tuple[str, ...]
    ticks: tuple[int, ...]
    value: float
    confidence: float
    seen: float
    stored: bool | None = None
    """Whether the trial, or what stored its steps, took it; None while it waits to be sent."""
    undone: bool = False
    sent: bool = False


@dataclass(eq=False)
class Sending:
    """A judgement, or its opposite, on its way."""

    given: Judgement
    undo: bool
    held: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once it has to wait for a dispatch."""

    @property
    def value(self) -> float:
        """The value for each tick."""
        value = self.given.value / len(self.given.ticks)
        return -value if self.undo else value


class Judgements:
    """The judgements of one place.

    A trial averages the rewards that one dispatch takes to an actor for one tick, and adds up those
    of different dispatches. Each judgement is to count by itself, so that taking it back leaves the
    others as they are. Therefore one that would be averaged with another waits until that has gone
    out; a judgement and its opposite may go out together, since their mean is their sum.
    """

    def __init__(self, keep_late: Callable[[str, Reward], bool] | None = None) -> None:
        """Create an empty list; `keep_late` is called as `Place` says."""
        self._keep_late = keep_late
        self._turn = asyncio.Lock()
        """Held for one judgement at a time, so that they are sent in their order."""
        self._given: list[Judgement] = []
        self._count = 0
        self._ticks: dict[str, int] = {}
        """The latest tick that was seen of each trial that runs."""
        self._waiting: defaultdict[_Key, list[_Waiting]] = defaultdict(list)
        """What the trial has taken, and may not have dispatched yet."""
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def __iter__(self) -> Iterator[Judgement]:
        """Return those that can still be taken back or were."""
        return iter(self._given)

    # What the place sees of its trials.

    def saw(self, trial: str, tick: int) -> None:
        """Note that a tick of a trial was dispatched."""
        self._ticks[trial] = tick
        for key, waiting in list(self._waiting.items()):
            if key.trial == trial:
                waiting[:] = [each for each in waiting if each.until > tick]
                if not waiting:
                    del self._waiting[key]
        self._tell()

    def ended(self, trial: str) -> None:
        """Note that a trial has ended: its late rewards are not averaged."""
        self._ticks.pop(trial, None)
        for key in [key for key in self._waiting if key.trial == trial]:
            del self._waiting[key]
        self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    # What people ask for.

    def add(
        self,
        session: ClientSession,
        receivers: Sequence[str],
        ticks: Sequence[int],
        value: float,
        confidence: float,
        seen: float,
    ) -> Sending:
        """Return a new judgement to send: rewards of ticks, among which the value is spread.

        Raises:
            JudgementError: A value is out of range, or a tick rewards no action.
        """
        self._check_room()
        if not -1 <= value <= 1:
            raise JudgementError(f"value: expected a number from -1 to 1, got {value:g}")
        if not 0 < confidence <= 1:
            raise JudgementError(f"confidence: expected a number from 0 to 1, got {confidence:g}")
        if min(ticks) < 1:
            raise JudgementError("no action led to the first picture: nothing there to judge")
        if len(ticks) > _MOST_TICKS or len(set(ticks)) < len(ticks):
            raise JudgementError(f"ticks: expected at most {_MOST_TICKS}, each of them once")
        self._count += 1
        to = tuple(receivers)
        given = Judgement(self._count, session, to, tuple(ticks), value, confidence, seen)
        self._given.append(given)
        del self._given[:-_MOST]
        return Sending(given, undo=False)

    def undo(self) -> Sending:
        """Take the latest judgement back; return its opposite to send.

        Raises:
            JudgementError: All are taken back already.
        """
        self._check_room()
        latest = next((each for each in reversed(self._given) if not each.undone), None)
        if latest is None:
            raise JudgementError("there is no judgement to take back")
        latest.undone = True
        self._tell()  # it may wait to be sent, which is not necessary any more
        return Sending(latest, undo=True)

    def _check_room(self) -> None:
        if len(self._tasks) >= _MOST_SENDINGS:
            raise JudgementError(f"{_MOST_SENDINGS} judgements wait to be stored: try again later")

    async def deliver(self, sending: Sending, tell: Callable[[Judgement], None]) -> Judgement:
        """Send a judgement, also if the caller is cancelled; return once it is sent or has to wait.

        If it has to wait for a tick, `tell` is called once it is sent.

        Raises:
            RemoteCallError: The orchestrator refuses.
        """
        sent = asyncio.ensure_future(self._send_in_turn(sending))
        self._tasks.add(sent)
        sent.add_done_callback(self._tasks.discard)
        held = asyncio.ensure_future(sending.held.wait())
        try:
            await asyncio.wait({sent, held}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            held.cancel()
        if sent.done():
            sent.result()
        else:
            sent.add_done_callback(lambda task: _tell_sent(task, sending.given, tell))
        return sending.given

    async def finish(self, seconds: float) -> None:
        """Wait until all judgements are sent, or so many seconds."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)

    async def _send_in_turn(self, sending: Sending) -> None:
        """Send a judgement or its opposite, as soon as it counts by itself.

        If the orchestrator refuses it, the judgement is as it was before.
        """
        given = sending.given
        try:
            while not await self._try_to_send(sending):
                sending.held.set()
                await self._changed.wait()
        except BaseException:
            if sending.undo:
                given.undone = False
            elif given in self._given:
                self._given.remove(given)
            raise

    async def _try_to_send(self, sending: Sending) -> bool:
        """Send, unless that has to wait; return whether it is settled."""
        given = sending.given
        async with self._turn:
            if given.undone and not given.sent:
                given.stored = False  # it was taken back before it was sent
                return True
            if any(self._is_averaged(key, sending) for key in _keys_of(given)):
                return False
            stored = await self._send(sending)
            given.sent = True
            if not sending.undo:
                given.stored = stored
            return True

    def _is_averaged(self, key: _Key, sending: Sending) -> bool:
        """Return whether the trial would average it with others to another sum."""
        others = self._waiting.get(key)
        if not others:
            return False
        value, weight = sending.value, sending.given.confidence
        total = value + sum(each.value for each in others)
        weighted = weight * value + sum(each.confidence * each.value for each in others)
        return abs(total) > _ROUNDING or abs(weighted) > _ROUNDING

    async def _send(self, sending: Sending) -> bool:
        given = sending.given
        note: dict[str, Any] = {"judgement": given.id, "seen": given.seen, "undone": sending.undo}
        stored = False
        for key in _keys_of(given):
            reward = Reward(
                key.receiver, sending.value, given.confidence, key.tick, array_message(note)
            )
            stored |= await self._reward(given.session, reward)
            if (tick := self._ticks.get(key.trial)) is not None:
                # The next tick may be on its way already, without this reward.
                waiting = _Waiting(sending.value, given.confidence, tick + 2)
                self._waiting[key].append(waiting)
        return stored

    async def _reward(self, session: ClientSession, reward: Reward) -> bool:
        """Send a reward to the trial, or to what keeps it; return whether one of them took it."""
        try:
            taken = await session.send_late_reward(reward)
        except RuntimeError as error:  # the client is closed, as the page ends
            if self._keep_late is None:
                raise JudgementError("the page ends") from error
            taken = False
        except grpc.aio.AioRpcError as error:
            if self._keep_late is None or error.code() not in _FORGOTTEN:
                raise
            taken = False
        if self._keep_late is None or (taken and session.final is None):
            return taken
        try:
            return await asyncio.to_thread(self._keep_late, session.trial.id, reward) or taken
        except (OSError, ValueError) as error:
            _logger.warning("a judgement was not kept: %s", error)
            return taken
        except Exception:  # of the user's function
            _logger.exception("a late judgement was not kept")
            return taken


class _Key(NamedTuple):
    """What a trial averages the rewards of."""

    trial: str
    receiver: str
    tick: int


class _Waiting(NamedTuple):
    """A reward that a trial has taken."""

    value: float
    confidence: float
    until: int
    """The tick by which it has gone out for certain."""


def _tell_sent(
    task: asyncio.Task[None], given: Judgement, tell: Callable[[Judgement], None]
) -> None:
    if task.cancelled():
        return
    if (error := task.exception()) is not None:
        _logger.warning("a judgement was not taken: %s", escaped(str(error)))
        given.stored = False
    if given.sent or not given.undone:  # else it was taken back, which was told
        tell(given)


def _keys_of(given: Judgement) -> Iterator[_Key]:
    for tick in given.ticks:
        for receiver in given.receivers:
            yield _Key(given.session.trial.id, receiver, tick)
