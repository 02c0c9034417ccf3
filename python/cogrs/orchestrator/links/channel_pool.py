"""gRPC channels to components: one per endpoint, shared by all trials.

They send no pings, which servers of others may take for an attack. The least recently used ones
without a trial are closed, beyond `_MOST_IDLE`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import grpc.aio

from cogrs.orchestrator.links.concurrency_limiter import ConcurrencyLimiter

if TYPE_CHECKING:
    from collections.abc import Callable

    from cogrs.orchestrator.links.background_tasks import BackgroundTasks
    from cogrs.tls import ClientTls

_MOST_IDLE = 64
"""Channels that are kept although no trial uses them, so that the next one finds them open."""


def channel_options(max_message: int) -> list[tuple[str, int]]:
    """Return the options of every channel."""
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
class PooledChannel:
    """The channel to one endpoint."""

    channel: grpc.aio.Channel
    limiter: ConcurrencyLimiter
    """Where all calls on the channel wait."""
    metadata: Metadata = field(default=(), repr=False)
    """Sent with all of them."""


class ChannelPool:
    """Opens channels, and closes the unused ones."""

    def __init__(
        self,
        max_message: int,
        tasks: BackgroundTasks,
        tls: ClientTls | None = None,
        metadata_for: Callable[[str], Metadata] = lambda _target: (),
    ) -> None:
        """Create an empty pool; files of `tls` are read now, as `ClientTls.credentials` does."""
        self._options: list[tuple[str, int | str]] = [*channel_options(max_message)]
        self._credentials = None
        if tls is not None:
            self._credentials = tls.credentials()
            self._options += tls.options()
        self._tasks = tasks
        self._metadata_for = metadata_for
        self._users: dict[str, int] = {}
        self._channels: dict[str, PooledChannel] = {}

    def take(self, target: str) -> PooledChannel:
        """Return the channel to `host:port`, until `give_back`."""
        pooled = self._channels.pop(target, None)
        if pooled is None:
            metadata = self._metadata_for(target)
            pooled = PooledChannel(self._open(target), ConcurrencyLimiter(), metadata)
        self._channels[target] = pooled  # the last one used is the last one of the dict
        self._users[target] = self._users.get(target, 0) + 1
        return pooled

    def _open(self, target: str) -> grpc.aio.Channel:
        if self._credentials is None:
            return grpc.aio.insecure_channel(target, options=self._options)
        return grpc.aio.secure_channel(target, self._credentials, options=self._options)

    def give_back(self, target: str) -> None:
        """Count one user of a channel less."""
        self._users[target] -= 1
        idle = [known for known in self._channels if not self._users[known]]
        for known in idle[:-_MOST_IDLE]:
            del self._users[known]
            self._tasks.spawn(self._channels.pop(known).channel.close())

    async def close(self) -> None:
        """Close all channels."""
        for pooled in self._channels.values():
            await pooled.channel.close()
        self._channels.clear()
