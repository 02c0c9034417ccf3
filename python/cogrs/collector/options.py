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
"""What can become of a game that fails."""


@dataclass
class ContextOptions:
    """How many games run, and how.

    Attributes:
        num_games: Games, >= 1.
        T: States of history that a game keeps; raised to the largest `_T` that is asked for.
        num_threads: Threads that step games; 0 is one for each core. Of games in Python 0 is one,
            and none where all games wait for one batch and the first Run has no timeout: the thread
            that calls it steps them.
            Games are not threads: any number of games runs on any number of threads.
        max_num_threads: Questions that each game may ask at once beside, while it makes a move, as
            a search in threads of its own does; for games in Python, see
            `cogrs.collector.games.gymnasium`.
        num_collectors: Batches of each collector that are filled in turn, at least two; 0 is as
            many as suit the games, 256 at most.
        wait_per_group: Kept for the interface: `RunGroup` works either way.
        verbose_comm: Print a line for each batch that is answered.
        verbose_collector: Print a line for each batch that is delivered.
        seed: Together with the numbers of game and episode it determines each episode's start, and
            nothing else does; drawn from the system if None.
        deterministic: Rows of a batch that has one for each game are sorted by `id`, and batches
            come in the order in which games asked for them, so that a run whose batches are all of
            that size, answered by one thread, can be repeated exactly.
        on_error: What becomes of a game that fails. "raise": the run fails with it, and `Run`
            raises a `GameError`. "restart": it begins a new episode after a rest; of the one that
            broke, listeners get no more. "drop": it is left out, and `Run` raises when none is
            left.
        max_restarts: How often each game may restart before the run fails with it all the same.
        restart_backoff: Seconds that a game rests before its first restart; twice as long before
            each one after, up to a minute.
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
            TypeError: An option is no integer, or no truth value.
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
        """`num_threads`, or the cores that this process may use."""
        if self.num_threads:
            return self.num_threads
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1

    def drawn_seed(self) -> int:
        """`seed`, or one from the system."""
        return secrets.randbits(64) if self.seed is None else operator.index(self.seed)


class NotPicklable:
    """What copies and pickles would share with another cannot be shared: memory, threads, locks."""

    def __reduce__(self) -> NoReturn:
        """Refuse."""
        raise TypeError(
            f"a {type(self).__name__} cannot be copied or pickled, its memory and threads are this "
            "process's: make another with the same arguments"
        )
