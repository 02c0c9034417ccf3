"""gRPC channels: one an endpoint, shared by all trials."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import grpc.aio

from cogrs.orchestrator.links.entrance import Entrance

if TYPE_CHECKING:
    from collections.abc import Callable

    from cogrs.orchestrator.links.tasks import Tasks
    from cogrs.tls import ClientTls

_MOST_IDLE = 64
"""Channels that are kept although no trial uses them, so that the next one finds them open."""


def channel_options(max_message: int) -> list[tuple[str, int]]:
    """Return the options of every channel.

    No pings are sent: servers of others may take them for an attack.
    """
    return [
        ("grpc.max_send_message_length", max_message),
        ("grpc.max_receive_message_length", max_message),
        # A component that starts is found within a second, not after minutes of waiting.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 1_000),
        ("grpc.max_reconnect_backoff_ms", 1_000),
    ]


Metadata = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Route:
    """The way to one endpoint."""

    channel: grpc.aio.Channel
    entrance: Entrance
    """Where all calls on the channel wait."""
    metadata: Metadata = field(default=(), repr=False)
    """Shown by all of them."""


class Channels:
    """Opens channels, and closes what has not been used for longest."""

    def __init__(
        self,
        max_message: int,
        tasks: Tasks,
        tls: ClientTls | None = None,
        metadata_for: Callable[[str], Metadata] = lambda _target: (),
    ) -> None:
        """Have none.

        Args:
            max_message: Bytes of the largest message.
            tasks: Closes channels in the background.
            tls: Certificates, whose files are read once; None goes without.
            metadata_for: Returns what all calls to a target show.

        Raises:
            OSError: A file cannot be read.
            ValueError: A file is not what it should be.
        """
        self._options: list[tuple[str, int | str]] = [*channel_options(max_message)]
        self._credentials = None
        if tls is not None:
            self._credentials = tls.credentials()
            self._options += tls.options()
        self._tasks = tasks
        self._metadata_for = metadata_for
        self._users: dict[str, int] = {}
        self._routes: dict[str, Route] = {}

    def take(self, target: str) -> Route:
        """Return the route to `host:port`; give it back."""
        route = self._routes.pop(target, None)
        if route is None:
            route = Route(self._open(target), Entrance(), self._metadata_for(target))
        self._routes[target] = route  # the last one used is the last one of the dict
        self._users[target] = self._users.get(target, 0) + 1
        return route

    def _open(self, target: str) -> grpc.aio.Channel:
        if self._credentials is None:
            return grpc.aio.insecure_channel(target, options=self._options)
        return grpc.aio.secure_channel(target, self._credentials, options=self._options)

    def give_back(self, target: str) -> None:
        """Use a route no more."""
        self._users[target] -= 1
        idle = [known for known in self._routes if not self._users[known]]
        for known in idle[:-_MOST_IDLE]:
            del self._users[known]
            self._tasks.spawn(self._routes.pop(known).channel.close())

    async def close(self) -> None:
        """Close all."""
        for route in self._routes.values():
            await route.channel.close()
        self._routes.clear()
