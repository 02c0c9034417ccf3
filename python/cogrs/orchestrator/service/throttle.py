"""Limits the share of the event loop that requests get; trials have the rest.

Everything runs on one event loop.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from cogrs.limits import MOST_AT_ONCE, REST

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


_BYTE = 1e-9
"""Seconds that receiving a byte takes: it is copied a few times."""


class Throttle:
    """Processes large requests one after the other, with rests between them."""

    def __init__(self) -> None:
        """Create a throttle for the running loop."""
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def turn(self, *, large: bool, size: int = 0) -> AsyncIterator[None]:
        """Wait for a turn, unless the request is small; do not wait for anything in the block.

        `size` is its bytes, if receiving them counts as work.
        """
        if not large:
            yield
            return
        await self._lock.acquire()
        begin = time.perf_counter()
        try:
            yield
        finally:
            rest = (time.perf_counter() - begin + size * _BYTE) * REST
            asyncio.get_running_loop().call_later(rest, self._lock.release)


class PeerThrottle:
    """Processes large requests of streams, with a rest of their connection after each.

    A connection that floods only delays itself, and not the large actions of others.
    """

    def __init__(self) -> None:
        """Create a throttle without connections."""
        self._work = asyncio.Lock()
        self._peers: dict[str, asyncio.Lock] = {}
        self._users: dict[str, int] = {}

    @asynccontextmanager
    async def turn(self, peer: str, size: int) -> AsyncIterator[None]:
        """Wait for a turn of a connection, then for requests in progress of others."""
        lock = self._peers.setdefault(peer, asyncio.Lock())
        self._users[peer] = self._users.get(peer, 0) + 1
        try:
            await lock.acquire()
        except BaseException:
            self._leave(peer)
            raise
        spent = 0.0
        try:
            async with self._work:
                begin = time.perf_counter()
                try:
                    yield
                finally:
                    spent = time.perf_counter() - begin + size * _BYTE
        finally:
            # All connections together get the share of a single one.
            rest = spent * ((REST + 1) * len(self._peers) - 1)
            asyncio.get_running_loop().call_later(rest, self._end, peer)

    def _end(self, peer: str) -> None:
        self._peers[peer].release()
        self._leave(peer)

    def _leave(self, peer: str) -> None:
        self._users[peer] -= 1
        if not self._users[peer]:
            del self._users[peer], self._peers[peer]


class PeerLimit:
    """Limits how many requests of a connection are received and decoded at once.

    So the memory of a connection is bounded by that number of the largest requests.
    """

    def __init__(self) -> None:
        """Create a limit without connections."""
        self._peers: dict[str, asyncio.Semaphore] = {}
        self._users: dict[str, int] = {}

    @asynccontextmanager
    async def place(self, peer: str) -> AsyncIterator[None]:
        """Wait until a connection is below its limit."""
        places = self._peers.get(peer)
        if places is None:
            places = self._peers[peer] = asyncio.Semaphore(MOST_AT_ONCE)
            self._users[peer] = 0
        self._users[peer] += 1
        try:
            async with places:
                yield
        finally:
            self._users[peer] -= 1
            if not self._users[peer]:
                del self._users[peer], self._peers[peer]
