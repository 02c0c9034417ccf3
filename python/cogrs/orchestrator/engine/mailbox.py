"""Messages on their way to actors and to the environment."""

from __future__ import annotations

from collections import Counter, defaultdict

from cogrs.api.common_pb2 import Message
from cogrs.orchestrator.engine.backlog import footprint


class Mailbox:
    """Keeps messages, in order, until the dispatch that they go out with."""

    def __init__(self, held: Counter[str] | None = None) -> None:
        """Be empty.

        Args:
            held: Is kept at the bytes that wait, by sender.
        """
        self._waiting: defaultdict[str, list[tuple[Message, int]]] = defaultdict(list)
        self._held: Counter[str] = Counter() if held is None else held

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not self._waiting

    def add(self, sender: str, message: Message) -> None:
        """Keep a message, under the name of who it is really from."""
        kept = Message()
        kept.CopyFrom(message)
        kept.sender_name = sender
        size = footprint(kept)
        self._held[sender] += size
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
            self._held[message.sender_name] -= size
            if message.tick_id < 0:
                message.tick_id = tick
            messages.append(message)
        return sorted(messages, key=lambda message: message.tick_id)
