"""How much of an event loop requests get: trials have the rest."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from cogrs.limits import MOST_AT_ONCE, REST

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


_BYTE = 1e-9
"""Seconds in which a byte comes in: it is copied a few times."""


class Throttle:
    """Works on large requests one after the other, in order, with rests between them."""

    def __init__(self) -> None:
        """Create a pace at which nothing is under way; for the loop that runs now."""
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def turn(self, *, large: bool, size: int = 0) -> AsyncIterator[None]:
        """Wait for a turn, in which nothing is to be waited for; a small request needs none.

        Args:
            large: Whether it is a large one.
            size: Its bytes, if they have just come in, which was work already.
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
    """Works on the large requests of streams: a connection rests after each of its own.

    A connection that floods waits for itself, and the large actions of others pass it by.
    """

    def __init__(self) -> None:
        """Create a pace at which nothing is under way."""
        self._work = asyncio.Lock()
        self._peers: dict[str, asyncio.Lock] = {}
        self._users: dict[str, int] = {}

    @asynccontextmanager
    async def turn(self, peer: str, size: int) -> AsyncIterator[None]:
        """Wait for a turn of a connection, then for the work that others are at.

        Args:
            peer: The connection.
            size: Bytes of the request, which have just come in.
        """
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
            # All connections together have the share that one has alone.
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
    """Lets each connection have so many requests received and decoded at once.

    What is received takes memory before anybody has asked for it, so this bounds the memory of a
    connection by as many of the largest requests.
    """

    def __init__(self) -> None:
        """Create places that are all free."""
        self._peers: dict[str, asyncio.Semaphore] = {}
        self._users: dict[str, int] = {}

    @asynccontextmanager
    async def place(self, peer: str) -> AsyncIterator[None]:
        """Wait for a place of a connection."""
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
