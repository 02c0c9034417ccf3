"""What people have judged: rewards that were sent, and those that were taken back."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc

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
_FORGOTTEN = (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.UNAVAILABLE)
"""How a reward is refused while a trial ends, once it is forgotten, or without an orchestrator."""


class JudgementError(ValueError):
    """A judgement that is refused; the text is shown to the person."""


@dataclass
class Judgement:
    """One judgement of a picture, or of several in a credit window."""

    id: int
    session: ClientSession
    ticks: tuple[int, ...]
    value: float
    confidence: float
    seen: float
    stored: bool = False
    undone: bool = False


class Judgements:
    """The judgements of one place."""

    def __init__(self, keep_late: Callable[[str, Reward], bool] | None = None) -> None:
        """Create an empty list; `keep_late` is called as `Place` says."""
        self._keep_late = keep_late
        self._turn = asyncio.Lock()
        """Held for one judgement at a time, so that they are sent in their order."""
        self._given: list[Judgement] = []
        self._count = 0

    def __iter__(self) -> Iterator[Judgement]:
        """Return those that can still be taken back or were."""
        return iter(self._given)

    async def add(
        self,
        session: ClientSession,
        receivers: Sequence[str],
        ticks: Sequence[int],
        value: float,
        confidence: float,
        seen: float,
    ) -> Judgement:
        """Reward the receivers for ticks, among which the value is spread.

        Raises:
            JudgementError: A value is out of range, or a tick rewards no action.
        """
        if not -1 <= value <= 1:
            raise JudgementError(f"value: expected a number from -1 to 1, got {value:g}")
        if not 0 < confidence <= 1:
            raise JudgementError(f"confidence: expected a number from 0 to 1, got {confidence:g}")
        if min(ticks) < 1:
            raise JudgementError("no action led to the first picture: nothing there to judge")
        if len(ticks) > _MOST_TICKS or len(set(ticks)) < len(ticks):
            raise JudgementError(f"ticks: expected at most {_MOST_TICKS}, each of them once")
        self._count += 1
        given = Judgement(self._count, session, tuple(ticks), value, confidence, seen)
        async with self._turn:
            given.stored = await self._send(given, receivers, 1)
            self._given.append(given)
            del self._given[:-_MOST]
        return given

    async def undo(self, receivers: Sequence[str]) -> Judgement:
        """Take the latest judgement back, by a reward of the opposite sign.

        Raises:
            JudgementError: All are taken back already.
        """
        async with self._turn:
            latest = next((each for each in reversed(self._given) if not each.undone), None)
            if latest is None:
                raise JudgementError("there is no judgement to take back")
            await self._send(latest, receivers, -1)
            latest.undone = True
        return latest

    async def _send(self, given: Judgement, receivers: Sequence[str], sign: int) -> bool:
        note: dict[str, Any] = {"judgement": given.id, "seen": given.seen, "undone": sign < 0}
        stored = False
        for tick in given.ticks:
            for receiver in receivers:
                reward = Reward(
                    receiver,
                    sign * given.value / len(given.ticks),
                    given.confidence,
                    tick,
                    array_message(note),
                )
                stored |= await self._reward(given.session, reward)
        return stored

    async def _reward(self, session: ClientSession, reward: Reward) -> bool:
        """Send a reward to the trial, or to what keeps it; return whether one of them took it."""
        try:
            taken = await session.send_late_reward(reward)
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
