"""Which proofs there are: modules of this package that have a `PROOF`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.learning.proof import Proof

# In the order in which they run: the short ones first.
NAMES: tuple[str, ...] = (
    "cloning",
    "offline_online",
    "trials",
    "zoo_ppo",
    "late_reward",
    "ppo",
    "zoo_dqn",
    "sequences",
    "dqn",
    "distributed",
    "prioritized",
    "minatar",
)


def load(name: str) -> Proof:
    """Return a proof by name; it imports what the proof needs."""
    return import_module(f"benchmarks.learning.{name}").PROOF
