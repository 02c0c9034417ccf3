"""The error of a call to something that is served."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import grpc

_LONGEST = 2000
"""Characters of an error: status texts travel in headers, which have a limit of 8 KiB."""


class CallError(Exception):
    """A call that was refused, or failed: its status, and a text for the caller."""

    def __init__(self, code: grpc.StatusCode, text: str, brief: str = "") -> None:
        """Take a text for orchestrators, and a brief one ("": the same) for anybody else."""
        super().__init__(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...")
        self.code = code
        self.brief = brief or str(self)
