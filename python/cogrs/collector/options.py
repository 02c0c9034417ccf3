"""Options of a game context."""

from __future__ import annotations

import operator
import os
import secrets
from dataclasses import dataclass, fields
from typing import NoReturn

from cogrs.shown import shown
from cogrs.validation import check_flag, check_integer, check_seconds

POLICIES = ("raise", "restart", "drop")
"""Failure policies: the values of `on_error`."""


@dataclass
class ContextOptions:
    """Number of games, and how they run.

    Attributes:
        num_games: Number of games, >= 1.
        T: States of history that a game keeps; raised to the largest `_T` of the descriptions.
        num_threads: Threads that step games, whatever the number of games; 0 is one per core. For
            games in Python 0 is one; where all games wait for one batch and the first Run has no
            timeout, the thread that calls Run steps them instead.
        max_num_threads: Queries that each game may make at once during a move, as a search in
            threads of its own does; for games in Python, see `cogrs.collector.games.gymnasium`.
        num_collectors: Batches of each collector that are filled in turn, at least two; 0 is as
            many as suit the games, 256 at most.
        wait_per_group: Accepted for compatibility: `RunGroup` works either way.
        verbose_comm: Print a line for each batch that is answered.
        verbose_collector: Print a line for each batch that is delivered.
        seed: Determines, with the numbers of game and episode only, how each episode starts;
            drawn from the system if None.
        deterministic: Rows of a batch with one row per game are sorted by `id`, and batches come in
            the order in which games asked for them, so that a run whose batches are all of that
            size, answered by one thread, can be repeated exactly.
        on_error: Failure policy. "raise": the run fails with the game, and `Run` raises a
            `GameError`. "restart": the game begins a new episode after a rest; listeners get no
            more states of the failed episode. "drop": the game is left out; `Run` raises after the
            last.
        max_restarts: Restarts of each game before the run fails.
        restart_backoff: Seconds that a game rests before its first restart; doubled for each next
            one, up to a minute.
    """

    num_games: int = 1
    T: int = 1
    num_threads: int = 0
    max_num_threads: int = 0
    num_collectors: int = 0
    wait_per_group: bool = False
    verbose_comm: bool = False
    verbose_collector: bool = False
    seed: int | None = None
    deterministic: bool = False
    on_error: str = "raise"
    max_restarts: int = 3
    restart_backoff: float = 0.1

    def print(self) -> None:
        """Print all options."""
        for field in fields(self):
            print(f"{field.name}: {getattr(self, field.name)!r}")

    def check(self) -> None:
        """Check all options.

        Raises:
            ValueError: An option is out of range.
            TypeError: An option has the wrong type.
        """
        least = {"num_games": 1, "T": 1, "num_threads": 0, "num_collectors": 0}
        for name, bound in least.items():
            check_integer(name, getattr(self, name), bound)
        for name in ("wait_per_group", "verbose_comm", "verbose_collector", "deterministic"):
            check_flag(name, getattr(self, name), numbers=True)
        check_integer("max_num_threads", self.max_num_threads, 0, 2**24 - 1)
        if self.seed is not None:
            check_integer("seed", self.seed, 0, 2**64 - 1)
        if self.on_error not in POLICIES:
            expected = f"one of {list(POLICIES)}"
            raise ValueError(f"on_error: expected {expected}, got {shown(self.on_error)}")
        check_integer("max_restarts", self.max_restarts, 0, 2**32 - 1)
        check_seconds("restart_backoff", self.restart_backoff)

    def threads(self) -> int:
        """Return `num_threads`, or the number of cores that this process may use."""
        if self.num_threads:
            return self.num_threads
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1

    def drawn_seed(self) -> int:
        """Return `seed`, or one from the system."""
        return secrets.randbits(64) if self.seed is None else operator.index(self.seed)


class NotPicklable:
    """Base of classes whose memory, threads and locks a copy cannot share."""

    _called = ""
    """The name in the error, if it is not that of the class."""

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a {self._called or type(self).__name__} cannot be copied or pickled: its memory and "
            "threads are this process's; create another with the same arguments"
        )
