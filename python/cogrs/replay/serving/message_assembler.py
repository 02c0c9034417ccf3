"""Messages to publish that come in several requests, so that none of these has to be large.

Of a request without end libzmq holds some 64 bytes for each frame; so requests are bounded, and
each part of a long message is answered before the next is sent.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

from cogrs.limits import LARGEST_PUBLICATION, MOST_PARTS, PUBLICATION_PART
from cogrs.replay.pubsub.topic_key import DIGEST
from cogrs.replay.wire import WireError

if TYPE_CHECKING:
    from cogrs.api import replay_pb2 as pb


class _Unfinished(NamedTuple):
    digest: bytes
    size: int
    parts: list[bytes]


class MessageAssembler:
    """Unfinished messages. Any thread may call.

    All parts of a message but the last have `PUBLICATION_PART` bytes.
    """

    def __init__(self) -> None:
        """Create it without messages."""
        self._lock = threading.Lock()
        self._unfinished: dict[tuple[str, int, int], _Unfinished] = {}
        """By key, client and number of the message; the one that rests longest comes first."""
        self._size = 0

    def add(
        self, source: tuple[str, int, int], header: pb.Publish, part: bytes
    ) -> tuple[bytes | None, int]:
        """Add a part; return the message, None if it is not whole, and how many bytes have come.

        `source` is the sender's key, the client, and the number of its message. A message with a
        part that does not fit is dropped, with a WireError.
        """
        with self._lock:
            message = self._unfinished.pop(source, None)
            message = message or _Unfinished(header.digest, header.size, [])
            before = PUBLICATION_PART * len(message.parts)
            self._size -= before
            size = before + len(part)
            whole = size == header.size
            if (
                (header.digest, header.size) != message[:2]
                or len(header.digest) != DIGEST
                or len(part) > PUBLICATION_PART
                or not (whole or (size < header.size and len(part) == PUBLICATION_PART))
            ):
                raise WireError("a message to publish that is not whole", "frames")
            if header.size > LARGEST_PUBLICATION:
                text = f"a message of {header.size} bytes to publish, at most "
                raise WireError(f"{text}{LARGEST_PUBLICATION} are taken", "size")
            message.parts.append(part)
            if whole:
                return b"".join(message.parts), size
            self._unfinished[source] = message
            self._size += size
            while self._size > MOST_PARTS and len(self._unfinished) > 1:
                silent = self._unfinished.pop(next(iter(self._unfinished)))
                self._size -= PUBLICATION_PART * len(silent.parts)
            return None, size
