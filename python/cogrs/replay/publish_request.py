"""A message that several servers are asked to publish."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cogrs.limits import LARGEST_PUBLICATION
from cogrs.replay.pubsub.topic_key import digest_of_topic, message_bytes, topic_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cogrs.replay.server_connection import ServerConnection


class PublishRequest:
    """A message on its way to several servers. Not thread-safe: the owner locks."""

    def __init__(
        self, servers: Sequence[ServerConnection], sender: int, topic: object, message: object
    ) -> None:
        """Check the arguments, as `ReplaySampler.pub_bytes`; nothing is sent yet."""
        self._servers = servers
        self._sender = sender
        self._digest = digest_of_topic(topic_bytes(topic))
        self._message = message_bytes(message)
        if (size := len(self._message)) > LARGEST_PUBLICATION:
            raise ValueError(f"message: expected at most {LARGEST_PUBLICATION} bytes, got {size}")
        self._numbers: dict[tuple[ServerConnection, str], int] = {}
        """Of the requests that were sent, by server and endpoint: a server may move meanwhile."""

    def send(self) -> list[ServerConnection]:
        """Ask the servers that can be asked now, and return those that have not published yet."""
        for server in self._servers:
            server.ask_missing(self._sender, sums=False)
            if not self.was_sent_to(server):
                number = server.publish(self._sender, self._digest, self._message)
                if number is not None:
                    self._numbers[server, server.endpoint] = number
        return [
            server
            for server in self._servers
            if not self.was_sent_to(server)
            or server.published < self._numbers[server, server.endpoint]
        ]

    def was_sent_to(self, *servers: ServerConnection) -> bool:
        """Return whether all of these servers were asked."""
        return all((server, server.endpoint) in self._numbers for server in servers)
