"""Other replay memories, each called in the fastest way that its documentation shows.

A module here has a `NAME` and functions `vectors` and `frames` that make a full `Buffer` for a
workload, or None. A module whose package is not installed is left out, and said so.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from timing import Job
    from workload import Workload

GROUPS = {
    "cpprb": "bench",
    "flashbax_trajectories": "bench",
    "replay_tables": "bench",
    "stable_baselines3": "bench-torch",
    "tianshou": "bench-torch",
    "torchrl_slices": "bench-torch",
}
"""The modules, and the dependency group that installs what each needs."""


class Buffer:
    """A full memory and what can be timed with it; None where it has no such thing.

    Attributes:
        entry_size: Bytes of the fields of one entry, each counted once.
    """

    entry_size: int

    def add(self) -> Job | None:
        """Steps of an episode added one by one; the episode's end is not timed."""
        return None

    def add_bulk(self) -> Job | None:
        """A whole episode added in one call, and ended."""
        return None

    def batch(self, size: int) -> Job | None:
        """Batches drawn in proportion to their priorities."""
        del size
        return None

    def sequences(self, count: int) -> Job | None:
        """Sequences of `BURN_IN + LEARNED` steps of one episode."""
        del count
        return None

    def update(self, size: int) -> Job | None:
        """New priorities for entries drawn before, other ones each time."""
        del size
        return None


class Peer(Protocol):
    """A module of this package."""

    __name__: str
    NAME: str

    @staticmethod
    def vectors(load: Workload) -> Buffer | None:
        """A buffer of W1."""

    @staticmethod
    def frames(load: Workload) -> Buffer | None:
        """A buffer of W2."""


def installed() -> tuple[list[Peer], list[str]]:
    """The peers that are there, and a line for each that is not."""
    found: list[Peer] = []
    missing = []
    for name, group in GROUPS.items():
        try:
            found.append(importlib.import_module(f"peers.{name}"))  # type: ignore[arg-type]
        except ModuleNotFoundError as error:
            missing.append(f"{name}: not installed ({error.name}): pip install --group {group}")
    return found, missing
