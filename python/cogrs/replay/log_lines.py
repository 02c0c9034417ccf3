"""A client's log lines: checked, and numbered in the order in which they go out."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from cogrs.api import replay_pb2 as pb
from cogrs.limits import LONGEST_LINE
from cogrs.replay.wire import encode

if TYPE_CHECKING:
    from collections.abc import Callable


class LogLines:
    """The lines of one client."""

    def __init__(self, sender: int) -> None:
        """Number lines from 0."""
        self._sender = sender
        self._stream = secrets.randbits(64)
        self._number = 0

    def head(self, text: object) -> Callable[[], bytes]:
        """Return a function that numbers a line and encodes it, to be called at its turn.

        Raises:
            TypeError: It is not a string.
            ValueError: It is too long, or has characters that UTF-8 has not.
        """
        if not isinstance(text, str):
            raise TypeError(f"log_message: expected str, got {type(text).__name__}")
        try:
            size = len(text.encode())
        except UnicodeEncodeError as error:
            raise ValueError(f"log_message: expected text, got {error}") from None
        if size > LONGEST_LINE:
            expected = f"at most {LONGEST_LINE:,} bytes as UTF-8"
            raise ValueError(f"log_message: expected {expected}, got {size:,}")

        def encoded() -> bytes:
            log = pb.Log(stream=self._stream, number=self._number, text=text)
            self._number += 1
            return encode(self._sender, log=log)

        return encoded
