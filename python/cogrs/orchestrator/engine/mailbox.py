"""Messages on their way to actors and to the environment."""

from __future__ import annotations

from collections import defaultdict

from cogrs.api.common_pb2 import Message


class Mailbox:
    """Keeps messages, in order, until the dispatch that they go out with."""

    def __init__(self) -> None:
        """Be empty."""
        self._waiting: defaultdict[str, list[Message]] = defaultdict(list)

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not self._waiting

    def add(self, sender: str, message: Message) -> None:
        """Keep a message, under the name of who it is really from."""
        kept = Message()
        kept.CopyFrom(message)
        kept.sender_name = sender
        self._waiting[message.receiver_name].append(kept)

    def take(self, receiver: str, tick: int) -> list[Message]:
        """Take all messages, by tick and, within a tick, in the order in which they came.

        Args:
            receiver: Whose.
            tick: The tick that goes out, and that messages without one are given.
        """
        messages = self._waiting.pop(receiver, None)
        if messages is None:
            return []
        for message in messages:
            if message.tick_id < 0:
                message.tick_id = tick
        return sorted(messages, key=lambda message: message.tick_id)
