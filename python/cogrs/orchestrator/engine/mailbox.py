"""Messages on their way to actors and to the environment."""

from __future__ import annotations

from collections import defaultdict

from cogrs.api.common_pb2 import Message
from cogrs.orchestrator.engine.backlog import Shares, footprint


class Mailbox:
    """Keeps messages, in order, until the dispatch that they go out with."""

    def __init__(self, held: Shares | None = None) -> None:
        """Create an empty mailbox.

        Args:
            held: Is kept at what waits, by sender.
        """
        self._waiting: defaultdict[str, list[tuple[Message, int]]] = defaultdict(list)
        self._held = Shares() if held is None else held

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not self._waiting

    def add(self, sender: str, message: Message) -> None:
        """Keep a message, under the name of its true sender."""
        kept = Message()
        kept.CopyFrom(message)
        kept.sender_name = sender
        size = footprint(message)
        self._held.add(sender, size)
        self._waiting[message.receiver_name].append((kept, size))

    def take(self, receiver: str, tick: int) -> list[Message]:
        """Take all messages, by tick and, within a tick, in the order in which they came.

        Args:
            receiver: Whose.
            tick: The tick that goes out, and that messages without one are given.
        """
        waiting = self._waiting.pop(receiver, None)
        if waiting is None:
            return []
        messages = []
        for message, size in waiting:
            self._held.remove(message.sender_name, size)
            if message.tick_id < 0:
                message.tick_id = tick
            messages.append(message)
        return sorted(messages, key=lambda message: message.tick_id)
