"""Limits the calls that wait to be taken by an endpoint: they queue here, not on its side.

A gRPC server cancels calls at random when more than 1,000 wait to be taken
(`grpc.server.max_pending_requests`), and others may call it beside this orchestrator.
"""

from __future__ import annotations

import asyncio

MOST_WAITING = 512
"""Calls at once that an endpoint may not have taken yet."""

ANSWER_SECONDS = 5.0
"""Seconds after which a call without an answer counts as taken.

Nothing tells when a server takes a call. Most answer sooner; some take as long as a game needs
to load, and are not to keep others waiting.
"""

LOG_SECONDS = 0.5
"""The same for a call that is answered when the trial is over."""


class ConcurrencyLimiter:
    """Lets a number of calls wait to be taken at once, first come, first served."""

    def __init__(self, most: int = MOST_WAITING) -> None:
        """Create a limiter with all its permits."""
        self._permits = asyncio.Semaphore(most)

    async def acquire(self, seconds: float = ANSWER_SECONDS) -> Permit:
        """Wait for a permit; release it with the answer; it ends after `seconds` anyway."""
        await self._permits.acquire()
        return Permit(self._permits, seconds)


class Permit:
    """One call that may not have been taken yet."""

    __slots__ = ("_permits", "_released", "_timer")

    def __init__(self, permits: asyncio.Semaphore, seconds: float) -> None:
        """Keep a permit that was acquired, until `release` or for some seconds."""
        self._permits = permits
        self._released = False
        self._timer = asyncio.get_running_loop().call_later(seconds, self.release)

    def release(self) -> None:
        """Give the permit back, once."""
        if not self._released:
            self._released = True
            self._timer.cancel()
            self._permits.release()
