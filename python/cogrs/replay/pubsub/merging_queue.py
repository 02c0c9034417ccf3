"""Messages with priorities that wait for a slow reader: merged, so that none replaces another."""

from __future__ import annotations

from collections import deque

import numpy as np

from cogrs.limits import MOST_PRIORITY_ROWS
from cogrs.replay.priorities import Priorities
from cogrs.replay.wire import WireError

_MERGE = 1 << 20
"""Bytes of messages that wait before they are merged, at least."""


class MergingQueue:
    """Messages with priorities for one client, oldest first. Not thread-safe: the owner locks.

    Messages are merged now and then: of several errors of one entry the newest is kept. So the
    queue grows with the client's entries alone, however long the client does not read.
    """

    def __init__(self, sender: int = 0) -> None:
        """Create an empty queue; merged messages are from `sender`."""
        self._sender = sender
        self._messages: deque[bytes] = deque()
        self._size = 0
        self._merge_at = _MERGE

    def add(self, message: bytes, most: int) -> int:
        """Add a message, and return how many of the oldest were dropped.

        Args:
            message: A message that `Priorities.publish` made; another one is kept as it is.
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
        """Take the oldest message, merged with those after it; None if the queue is empty."""
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
        """Return the number of messages."""
        return len(self._messages)


def merged(messages: deque[bytes], sender: int) -> list[bytes]:
    """Return messages with the newest error of each entry; unreadable ones come first."""
    read: list[Priorities] = []
    unreadable: list[bytes] = []
    for message in messages:
        try:
            read.append(Priorities.from_message(message))
        except WireError:
            unreadable.append(message)
    if not read:
        return unreadable
    ids = np.concatenate([each.ids for each in read])
    errors = np.concatenate([each.errors for each in read])
    kinds = np.concatenate(
        [np.full(len(each.ids), each.absolute + 2 * each.sequences) for each in read]
    )
    # The newest row of each entry, in the order in which they came. A sequence has the id of the
    # first step that it learns from.
    keys = np.stack([ids, (kinds >> 1).astype(ids.dtype)])
    _, from_end = np.unique(keys[:, ::-1], axis=1, return_index=True)
    newest = np.sort(len(ids) - 1 - from_end)
    result = list(unreadable)
    for kind in range(4):
        rows = newest[kinds[newest] == kind]
        for first in range(0, len(rows), MOST_PRIORITY_ROWS):
            chunk = rows[first : first + MOST_PRIORITY_ROWS]
            part = Priorities(
                ids[chunk], ids[:0].astype(np.uint32), errors[chunk], bool(kind & 1), bool(kind & 2)
            )
            result.append(part.to_message(sender))
    return result
