"""What a server gives: batches, and samples for samplers, when caches and rate limiter allow it.

Threads: any may call any method. `_arrived` wakes calls of `get_batch`. They ask the store for its
shortage under it, and the rate limiter, which may publish; no other lock is taken while it is held.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, TypeAlias

from cogrs.replay.net.deadline import SLICE, Deadline
from cogrs.replay.wire import WireError
from cogrs.validation import check_count

if TYPE_CHECKING:
    from collections.abc import Callable

    from cogrs._core import CacheStore, ReplayMemory
    from cogrs.replay.batch import AnyBatch
    from cogrs.replay.serving.server_limiter import ServerLimiter, Turn

    Given: TypeAlias = tuple[float, int, int, int, list[Any], str | None]
    """What `CacheStore.give` returns."""


class SampleSource:
    """Takes samples from a store of caches, and waits until that can be done."""

    def __init__(
        self,
        memory: ReplayMemory,
        n_caches: int,
        caches: CacheStore,
        limiter: ServerLimiter | None,
    ) -> None:
        """Give samples of at most `n_caches` caches of memories like this one."""
        self._memory = memory
        self._n_caches = n_caches
        self._caches = caches
        self._limiter = limiter
        self._arrived = threading.Condition()
        self._closed = False

    def get_batch(
        self, batch_size: int, wait: float | None, out: tuple[Any, ...] | None
    ) -> AnyBatch:
        """See `ReplayMemoryServer.get_batch`."""
        if self._limiter is not None:
            return self._get_limited_batch(self._limiter, batch_size, wait, out)
        if wait is None:
            return self._caches.get_batch(batch_size, out=out)
        deadline = Deadline.of("wait", wait)
        while True:
            self._wait(lambda: self._caches.shortage(batch_size), deadline)
            try:
                return self._caches.get_batch(batch_size, out=out)
            except RuntimeError:
                # Unless somebody else took them meanwhile, waiting does not help.
                if self._caches.shortage(batch_size) is None:
                    raise

    def give(self, sampler: int, rows: int) -> Given:
        """Take samples for a sampler, as `CacheStore.give`; a WireError if never allowed."""
        limiter = self._limiter
        if limiter is None:
            return self._caches.give(rows)
        if rows == 0:
            given = self._caches.give(0)
            if given[0] == 0 and limiter.shortage(1) is None:
                limiter.note_starved()  # a sampler that knows no sum asks for no samples
            return given
        try:
            limiter.check(rows)
        except ValueError as error:
            raise WireError(str(error), "size") from None
        with limiter.turn(rows) as turn:
            if (shortage := turn.reserve()) is None:
                given = self._caches.give(rows)
                turn.given = bool(given[4])
                if not turn.given:
                    limiter.note_starved()
            else:
                given = (*self._caches.give(0)[:5], shortage)
        limiter.note_sampler(sampler, refused=not turn.given)
        return given

    def note_cache(self) -> None:
        """Wake calls that wait, for a cache has arrived."""
        if self._limiter is not None:
            self._limiter.note_cache()
        self._wake()

    def note_inserts(self, steps: int, wait_us: int) -> None:
        """Count what a client has told, and wake calls that wait for the rate limiter."""
        if self._limiter is not None and (steps or wait_us):
            self._limiter.count(steps, wait_us)
            self._wake()

    def close(self) -> None:
        """Wake all calls that wait, for the server is closed."""
        self._closed = True
        self._wake()

    def _get_limited_batch(
        self,
        limiter: ServerLimiter,
        batch_size: int,
        wait: float | None,
        out: tuple[Any, ...] | None,
    ) -> AnyBatch:
        deadline = Deadline.of("wait", wait)
        check_count("batch_size", batch_size)
        limiter.check(batch_size)
        lacked_caches = False
        while True:
            with limiter.turn(batch_size) as turn:
                # Most calls need not wait, and the store says itself when it has too few.
                if lacked_caches or turn.reserve() is not None:
                    self._wait_for_turn(limiter, turn, deadline)
                try:
                    batch = self._caches.get_batch(batch_size, out=out)
                except RuntimeError:
                    if self._caches.shortage(batch_size) is None:
                        raise
                    lacked_caches = True
                else:
                    turn.given = True
                    return batch

    def _wait_for_turn(self, limiter: ServerLimiter, turn: Turn, deadline: Deadline) -> None:
        """Wait until the samples of a turn are there and may be given, and reserve them."""
        most = self._n_caches * self._memory.cache_size
        if deadline.left is None and not self._memory.reuse_cache and turn.rows > most:
            raise ValueError(
                f"batch_size: expected at most {most}, the n_caches * cache_size samples that the "
                f"server holds, got {turn.rows}: this wait would never end"
            )
        with limiter.waiting():
            # A setting of the memory can end the shortage too, and wakes nobody.
            self._wait(lambda: self._reserve(limiter, turn), deadline, SLICE)

    def _reserve(self, limiter: ServerLimiter, turn: Turn) -> str | None:
        """Reserve the samples of a turn; return why there are too few, or None."""
        if (caches := self._caches.shortage(turn.rows)) is None:
            return turn.reserve()
        if (limited := limiter.shortage(turn.rows)) is not None:
            return f"{limited}; {caches}"
        limiter.note_starved()
        return caches

    def _wait(
        self,
        shortage_now: Callable[[], str | None],
        deadline: Deadline,
        most: float = threading.TIMEOUT_MAX,
    ) -> None:
        """Wait until there is no shortage; look at it again after `most` seconds at the latest."""
        with self._arrived:
            while (shortage := shortage_now()) is not None:
                if self._closed:
                    raise RuntimeError("this ReplayMemoryServer is closed")
                if deadline.passed:
                    raise TimeoutError(f"get_batch: {shortage}")
                self._arrived.wait(deadline.within(most))

    def _wake(self) -> None:
        with self._arrived:
            self._arrived.notify_all()
