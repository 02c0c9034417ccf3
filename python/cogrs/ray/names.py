"""Names of a run's actors on Ray."""

from __future__ import annotations

from typing import Final

NAMESPACE: Final = "cogrs"
"""Ray's namespace of all runs."""
DIRECTORY: Final = "directory"
"""The role of the actor that has the directory and the supervisor."""


def actor_name(run: str, role: str, index: int) -> str:
    """Return the name of a Ray actor."""
    return f"{prefix(run)}{role}-{index}"


def prefix(run: str) -> str:
    """Return what the names of all actors of a run begin with."""
    return f"{run}/"
