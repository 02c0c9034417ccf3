"""A server's rate limiter: its counts, whether a batch may be taken, and what clients are told.

Inserts are the steps that clients tell by their totals, so they count when the totals arrive.
Samples count when a batch or an answer has been made of them; while it is made they are reserved,
so that calls of several threads do not take the same allowance.

A learner can lack caches though the limiter would let it go on, and the actors wait for the limiter
at the same time. So clients are also told whether a learner is starved: one that waits to insert
then pushes a cache.

Threads: any may call any method. `_lock` guards all state. Nothing is published while it is held,
but while `_telling` is, which is taken first.
"""

from __future__ import annotations

import secrets
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

from cogrs.api import replay_pb2 as pb
from cogrs.limits import MOST_REFUSED_SAMPLERS
from cogrs.replay.stats import LimiterStats
from cogrs.replay.wait_clock import WaitClock

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from cogrs._core import RateLimiter

_PERIOD: Final = 0.1
"""Seconds between two publications that tell of nothing but another number of entries."""

_STARVED: Final = 0.5
"""Seconds for which a learner that lacked caches counts as starved."""

_RETRY: Final = 1.0
"""Seconds within which a sampler that was refused asks again, if it waits."""

_LARGEST: Final = (1 << 63) - 1

_OPEN: Final = (True, False)
"""Told: entries may come, and no learner is starved."""


class Turn:
    """A call that is about to take samples; it reserves them first."""

    def __init__(self, limiter: ServerLimiter, rows: int) -> None:
        """Reserve nothing yet."""
        self._limiter = limiter
        self.rows = rows
        self.reserved = False
        self.given = False  # to be set when the samples were given

    def reserve(self) -> str | None:
        """Reserve the samples; return why that is not allowed, or None."""
        return self._limiter.reserve(self)

    def __enter__(self) -> Self:
        """Return the turn."""
        return self

    def __exit__(self, *_exc: object) -> None:
        """Count the samples if they were given."""
        self._limiter.end(self)


class ServerLimiter:
    """The counts of a server that a `RateLimiter` decides by."""

    def __init__(self, limiter: RateLimiter, samples_per_row: int = 1) -> None:
        """Start with all counts at 0.

        A row counts as `samples_per_row` samples: a sequence as many as steps are learned from.

        Raises:
            ValueError: The limiter can never allow a single row.
        """
        self.limiter = limiter
        self._samples_per_row = samples_per_row
        self.limiter._check_batch(samples_per_row, "sequences: length")
        self.publish: Callable[[pb.Allowance], object] | None = None
        """Publishes an allowance; None: nothing is published."""
        self._lock = threading.Lock()
        self._telling = threading.Lock()
        self._server = secrets.randbits(64)
        self._number = 0
        self._inserts = self._samples = self._reserved = 0
        self._insert_wait_us = 0
        self._sample_waits = WaitClock()
        self._refused: dict[int, float] = {}
        """When each sampler was refused last; the one that was silent longest comes first."""
        self._starved_until = 0.0
        self._told: tuple[bool, bool, int | None] | None = None
        self._due = 0.0
        largest = limiter.largest_batch
        self._most_rows = None if largest is None else largest // samples_per_row

    # Samples.

    def check(self, rows: int) -> None:
        """Raise a ValueError if a batch of so many rows can never be allowed."""
        name = "batch_size" if self._samples_per_row == 1 else "batch_size * length"
        self.limiter._check_batch(rows * self._samples_per_row, name)

    def shortage(self, rows: int) -> str | None:
        """Return why so many samples may not be taken now, or None."""
        with self._lock:
            return self._shortage(rows)

    def turn(self, rows: int) -> Turn:
        """Return a context manager for a call that takes samples."""
        return Turn(self, rows)

    def end(self, turn: Turn) -> None:
        """Count the samples of a turn if they were given, and free what it has reserved."""
        with self._lock:
            if turn.reserved:
                self._reserved -= turn.rows * self._samples_per_row
            if turn.given:
                self._samples += turn.rows * self._samples_per_row
            # Samples let more entries in, so what was told stays true.
            is_told = self._told is not None and self._told[:2] == _OPEN
            is_told = is_told and time.monotonic() < self._due
        if turn.given and not is_told:
            self._tell()

    def reserve(self, turn: Turn) -> str | None:
        """See `Turn.reserve`."""
        with self._lock:
            shortage = self._shortage(turn.rows)
            if shortage is None:
                turn.reserved = True
                self._reserved += turn.rows * self._samples_per_row
        return shortage

    def waiting(self) -> AbstractContextManager[None]:
        """Return a context manager that counts the seconds of a batch's wait."""
        return self._sample_waits.running()

    def note_sampler(self, sampler: int, *, refused: bool) -> None:
        """Count the seconds since a sampler was refused, if it has waited for them."""
        now = time.monotonic()
        with self._lock:
            before = self._refused.pop(sampler, None)
            if refused:
                self._refused[sampler] = now
                if len(self._refused) > MOST_REFUSED_SAMPLERS:
                    del self._refused[next(iter(self._refused))]
        if before is not None and now - before < _RETRY:
            self._sample_waits.add(now - before)

    def note_starved(self) -> None:
        """Note that a learner lacks caches, and nothing else."""
        with self._lock:
            now = time.monotonic()
            if now >= self._starved_until:
                self._told = None  # answers have told meanwhile that no learner is starved
            self._starved_until = now + _STARVED
        self._tell()

    def note_cache(self) -> None:
        """Note that a cache has arrived, which may be what a learner lacked."""
        with self._lock:
            was_starved, self._starved_until = self._starved_until > 0, 0.0
        if was_starved:
            self._tell()

    # Inserts.

    def count(self, steps: int, wait_us: int) -> None:
        """Count steps that a client has told, and microseconds that it has waited."""
        with self._lock:
            self._inserts = min(self._inserts + steps, _LARGEST)
            self._insert_wait_us += wait_us
        self._tell()

    def counts(self) -> list[int]:
        """Return inserts and samples, for a file."""
        with self._lock:
            return [self._inserts, self._samples]

    def resume(self, inserts: int, samples: int) -> None:
        """Go on with the counts of a file."""
        with self._lock:
            self._inserts, self._samples = min(inserts, _LARGEST), min(samples, _LARGEST)
        self._tell()

    # What is told.

    def allowance(self) -> pb.Allowance:
        """Return how the limiter stands, for an answer."""
        with self._lock:
            return self._allowance()

    def stats(self) -> LimiterStats:
        """Return the counts."""
        waited = self._sample_waits.seconds
        with self._lock:
            return LimiterStats(
                inserts=self._inserts,
                samples=self._samples,
                removed=0,
                sample_wait_seconds=waited,
                insert_wait_seconds=self._insert_wait_us / 1e6,
                samples_per_insert=self._samples / self._inserts if self._inserts else 0.0,
            )

    def _shortage(self, rows: int) -> str | None:
        samples = min(self._samples + self._reserved, _LARGEST)
        n = rows * self._samples_per_row
        return self.limiter._sample_shortage(n, self._inserts, samples, 0)

    def _allowance(self) -> pb.Allowance:
        self._number += 1
        return pb.Allowance(
            server=self._server,
            number=self._number,
            inserts=self.limiter._inserts_left(self._inserts, self._samples, 0),
            starved=time.monotonic() < self._starved_until,
            most_samples=self._most_rows,
        )

    def _tell(self) -> None:
        """Publish how the limiter stands: at once if clients wait for it, else now and then."""
        if self.publish is None:
            return
        # Clients keep the newest message that came, so the order has to be that of the numbers.
        with self._telling:
            new = self._news()
            if new is not None:
                with suppress(RuntimeError):  # closed meanwhile
                    self.publish(new)

    def _news(self) -> pb.Allowance | None:
        """Return what is to be published now, or None."""
        with self._lock:
            now = time.monotonic()
            left = self.limiter._inserts_left(self._inserts, self._samples, 0)
            told = left != 0, now < self._starved_until, left
            urgent = self._told is None or told[:2] != self._told[:2]
            if told == self._told or not (urgent or now >= self._due):
                return None
            self._told, self._due = told, now + _PERIOD
            return self._allowance()
