"""Where calls to one endpoint wait, so that they do not pile up on its side."""

from __future__ import annotations

import asyncio

MOST = 512
"""Calls at once that an endpoint may not have taken yet.

A gRPC server turns away calls, with CANCELLED, when more than 1,000 wait to be taken
(`grpc.server.max_pending_requests`); there may be somebody beside us who calls it, too.
"""

TAKEN = 5.0
"""Seconds after which a call without an answer counts as one that is being worked on.

Nothing tells when a server takes a call. Most answer sooner; some take as long as a game needs
to load, and are not to keep others waiting.
"""

LOG_TAKEN = 0.5
"""The same for a call that is answered when the trial is over."""


class Entrance:
    """Lets in so many calls at once, first come, first served."""

    def __init__(self, most: int = MOST) -> None:
        """Be free."""
        self._places = asyncio.Semaphore(most)

    async def enter(self, taken: float = TAKEN) -> Place:
        """Wait for a place; leave it when it is answered; it ends after `taken` s anyway."""
        await self._places.acquire()
        return Place(self._places, taken)


class Place:
    """One call that may not have been taken yet."""

    __slots__ = ("_left", "_places", "_timer")

    def __init__(self, places: asyncio.Semaphore, taken: float) -> None:
        """Hold a place that was acquired, until `leave` or for so many seconds."""
        self._places = places
        self._left = False
        self._timer = asyncio.get_running_loop().call_later(taken, self.leave)

    def leave(self) -> None:
        """Make room for the next one, once."""
        if not self._left:
            self._left = True
            self._timer.cancel()
            self._places.release()
