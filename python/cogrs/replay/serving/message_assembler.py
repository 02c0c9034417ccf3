"""Messages to publish that come in several requests, so that none of these has to be large."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

from cogrs.limits import LARGEST_PUBLICATION, MOST_PARTS, PUBLICATION_PART
from cogrs.replay.wire import DIGEST, WireError

if TYPE_CHECKING:
    from cogrs.api import replay_pb2 as pb


class _Begun(NamedTuple):
    digest: bytes
    size: int
    parts: list[bytes]


class MessageAssembler:
    """The beginnings of messages. Any thread may call.

    All parts but the last have `PUBLICATION_PART` bytes, and each is sent when the one before was
    answered.
    """

    def __init__(self) -> None:
        """Hold nothing."""
        self._lock = threading.Lock()
        self._begun: dict[tuple[str, int, int], _Begun] = {}
        """By key, client and number of the message; those that rest longest come first."""
        self._size = 0

    def add(
        self, of: tuple[str, int, int], told: pb.Publish, part: bytes
    ) -> tuple[bytes | None, int]:
        """Add a part; return the message, None if it is not whole, and how many bytes are there.

        Raises:
            WireError: It is no part of such a message, which is dropped.
        """
        with self._lock:
            begun = self._begun.pop(of, None) or _Begun(told.digest, told.size, [])
            before = PUBLICATION_PART * len(begun.parts)
            self._size -= before
            size = before + len(part)
            whole = size == told.size
            if (
                (told.digest, told.size) != begun[:2]
                or len(told.digest) != DIGEST
                or len(part) > PUBLICATION_PART
                or not (whole or (size < told.size and len(part) == PUBLICATION_PART))
            ):
                raise WireError("a message to publish that is not whole", "frames")
            if told.size > LARGEST_PUBLICATION:
                text = f"a message of {told.size} bytes to publish, at most {LARGEST_PUBLICATION} "
                raise WireError(f"{text}are taken", "size")
            begun.parts.append(part)
            if whole:
                return b"".join(begun.parts), size
            self._begun[of] = begun
            self._size += size
            while self._size > MOST_PARTS and len(self._begun) > 1:
                silent = self._begun.pop(next(iter(self._begun)))
                self._size -= PUBLICATION_PART * len(silent.parts)
            return None, size
