"""Why a trial ended."""

from __future__ import annotations

from typing import Self


class Reason(str):
    """A reason with the text of a failure in it, which is for whoever runs the trial.

    Such a text can have paths, addresses and more.
    """

    __slots__ = ("brief",)

    brief: str
    """What those are told who may only join and play."""

    def __new__(cls, text: str, brief: str) -> Self:
        """Create a reason."""
        reason = super().__new__(cls, text)
        reason.brief = brief
        return reason


def brief_of(reason: str) -> str:
    """Return what is told of a reason to those who may only join and play."""
    return reason.brief if isinstance(reason, Reason) else reason
