"""A message that several servers are asked to publish."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cogrs.limits import LARGEST_PUBLICATION
from cogrs.replay.wire import digest_of_topic, message_bytes, topic_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cogrs.replay.server_connection import ServerConnection


class PublishRequest:
    """A message on its way to several servers. Not thread-safe; the owner locks."""

    def __init__(
        self, sources: Sequence[ServerConnection], sender: int, digest: bytes, message: bytes
    ) -> None:
        """Ask nobody yet."""
        self._sources = sources
        self._sender = sender
        self._digest = digest
        self._message = message
        self._numbers: dict[ServerConnection, int] = {}
        """Of the requests that were sent."""

    def waiting(self) -> list[ServerConnection]:
        """Ask those that can be asked now, and return those that have not published yet."""
        for source in self._sources:
            source.ask_unknown(self._sender, sums=False)
            if source not in self._numbers:
                number = source.publish(self._sender, self._digest, self._message)
                if number is not None:
                    self._numbers[source] = number
        return [
            source
            for source in self._sources
            if not self.asked(source) or source.published < self._numbers[source]
        ]

    def asked(self, *sources: ServerConnection) -> bool:
        """Tell whether all of these could be asked."""
        return all(source in self._numbers for source in sources)


def message_for(topic: object, message: object) -> tuple[bytes, bytes]:
    """Return the digest of a topic and the bytes of a message.

    Raises:
        TypeError: Topic or message is neither bytes nor str.
        ValueError: The message is too long for a server.
    """
    digest, body = digest_of_topic(topic_bytes(topic)), message_bytes(message)
    if len(body) > LARGEST_PUBLICATION:
        raise ValueError(f"message: expected at most {LARGEST_PUBLICATION} bytes, got {len(body)}")
    return digest, body
