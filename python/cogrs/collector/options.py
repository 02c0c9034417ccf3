"""Options of a game context."""

from __future__ import annotations

import operator
import os
import secrets
from dataclasses import dataclass, fields


@dataclass
class ContextOptions:
    """How many games run, and how.

    Attributes:
        num_games: Games, >= 1.
        T: States of history that a game keeps; raised to the largest `_T` that is asked for.
        num_threads: Threads that step games; 0 is one for each core. Games are not threads: any
            number of games runs on any number of threads.
        max_num_threads: Extra queries of games that search in parallel; only 0 is supported yet.
        num_collectors: Batches of each collector that are filled in turn, at least two; 0 is as
            many as suit the games.
        wait_per_group: Kept for the interface: `RunGroup` works either way.
        verbose_comm: Print a line for each batch that is answered.
        verbose_collector: Print a line for each batch that is delivered.
        seed: Together with the numbers of game and episode it determines each episode's start, and
            nothing else does; drawn from the system if None.
        deterministic: Rows of a batch that has one for each game are sorted by `id`, so that a run
            whose batches are all of that size can be repeated exactly.
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

    def print(self) -> None:
        """Print all options."""
        for field in fields(self):
            print(f"{field.name}: {getattr(self, field.name)!r}")

    def check(self) -> None:
        """Check all options.

        Raises:
            ValueError: An option is out of range, or not supported yet.
            TypeError: An option is no integer.
        """
        least = {"num_games": 1, "T": 1, "num_threads": 0, "num_collectors": 0}
        for name, bound in least.items():
            integer(name, getattr(self, name), bound)
        if integer("max_num_threads", self.max_num_threads, 0) > 0:
            raise ValueError("max_num_threads: not supported yet, only 0 is")
        if self.seed is not None and integer("seed", self.seed, 0) >= 2**64:
            raise ValueError(f"seed: expected an integer below 2**64, got {self.seed}")

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


def integer(name: str, value: object, least: int) -> int:
    """An integer of at least `least`.

    Raises:
        TypeError: It is none.
        ValueError: It is less.
    """
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name}: expected an integer, got {type(value).__name__}") from None
    if number < least:
        raise ValueError(f"{name}: expected an integer >= {least}, got {number}")
    return number
