"""Messages with priorities that wait for a slow reader: merged, so that none replaces another."""

from __future__ import annotations

from collections import deque

import numpy as np

from cogrs.api import replay_pb2 as pb
from cogrs.limits import MOST_PRIORITY_ROWS
from cogrs.replay.priorities import Priorities, received
from cogrs.replay.wire import WireError, encode

_MERGE = 1 << 20
"""Bytes of messages that wait before they are merged, at least."""


class MergingQueue:
    """Messages with priorities for one client, oldest first. Not thread-safe; the owner locks.

    What waits is merged now and then, of errors of one entry the newest is kept. So it grows with
    the client's entries alone, however long the client does not read.
    """

    def __init__(self, sender: int = 0) -> None:
        """Hold nothing; merged messages are from `sender`."""
        self._sender = sender
        self._messages: deque[bytes] = deque()
        self._size = 0
        self._merge_at = _MERGE

    def add(self, message: bytes, most: int) -> int:
        """Add a message, and return how many of the oldest were dropped.

        Args:
            message: What `Priorities.publish` made; anything else is kept as it is.
            most: Bytes to keep when they are merged; until then it can be half as many more.
        """
        self._messages.append(message)
        self._size += len(message)
        if self._size <= min(self._merge_at, most + most // 2):
            return 0
        self._merge()
        dropped = 0
        while self._size > most and len(self._messages) > 1:
            self._size -= len(self._messages.popleft())
            dropped += 1
        self._merge_at = self._size + max(_MERGE, self._size // 2)
        return dropped

    def pop(self) -> bytes | None:
        """Take the oldest message, merged with what came after it; None if there is none."""
        if len(self._messages) > 1:
            self._merge()
        if not self._messages:
            return None
        message = self._messages.popleft()
        self._size -= len(message)
        return message

    def _merge(self) -> None:
        self._messages = deque(merged(self._messages, self._sender))
        self._size = sum(map(len, self._messages))

    def __len__(self) -> int:
        """Return the messages that wait."""
        return len(self._messages)


def merged(messages: deque[bytes], sender: int) -> list[bytes]:
    """Return messages that say the same, each entry once; what cannot be read comes first."""
    parts: list[Priorities] = []
    unread: list[bytes] = []
    for message in messages:
        try:
            parts.append(received(message))
        except WireError:
            unread.append(message)
    if not parts:
        return unread
    ids = np.concatenate([part.ids for part in parts])
    errors = np.concatenate([part.errors for part in parts])
    # The newest row of each entry, in the order in which they came.
    _, from_end = np.unique(ids[::-1], return_index=True)
    rows = np.sort(len(ids) - 1 - from_end)
    chunks = (
        rows[first : first + MOST_PRIORITY_ROWS]
        for first in range(0, len(rows), MOST_PRIORITY_ROWS)
    )
    told = (
        pb.Priorities(ids=ids[chunk].tobytes(), errors=errors[chunk].tobytes()) for chunk in chunks
    )
    return [*unread, *(encode(sender, priorities=each) for each in told)]
