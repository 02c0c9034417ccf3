"""Why a trial ended: the whole text for operators, and the text that clients may read."""

from __future__ import annotations

from typing import Self


class EndReason(str):
    """A reason that quotes a failure, in which there may be paths, addresses and more."""

    __slots__ = ("public",)

    public: str
    """The reason without the quote, for clients."""

    def __new__(cls, text: str, public: str) -> Self:
        """Create a reason."""
        reason = super().__new__(cls, text)
        reason.public = public
        return reason


def public_reason_of(reason: str) -> str:
    """Return what clients, which may only join and play, are told of a reason."""
    return reason.public if isinstance(reason, EndReason) else reason
