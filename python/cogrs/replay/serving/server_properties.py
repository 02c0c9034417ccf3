"""The settings and figures of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import zmq

from cogrs.replay.stats import info_lines

if TYPE_CHECKING:
    from cogrs._core import RateLimiter, ReplayMemory
    from cogrs.replay.net.transport import Transport
    from cogrs.replay.pubsub.publisher import Publisher
    from cogrs.replay.serving.listeners import Listeners
    from cogrs.replay.serving.server_state import ServerState
    from cogrs.replay.stats import ServerStats


class ServerProperties:
    """The base of `ReplayMemoryServer`: what it tells of itself."""

    _rem: ReplayMemory
    _nstep: bool
    _state: ServerState
    _transport: Transport
    _publisher: Publisher
    _listeners: Listeners

    @property
    def limiter(self) -> RateLimiter | None:
        """The rate limiter; `stats().limiter` has its counts."""
        return None if self._state.limiter is None else self._state.limiter.limiter

    @property
    def nstep(self) -> bool:
        """Whether batches have n-step returns and their discounts."""
        return self._nstep

    @property
    def rem(self) -> ReplayMemory:
        """The server's memory; clients get its templates and settings."""
        return self._rem

    @property
    def logfile(self) -> str | None:
        """Path of the log file; None before `set_logfile`."""
        return self._state.log_file.path

    @property
    def total_episodes(self) -> int:
        """Episodes that clients have closed, as reported by `update_counter`."""
        self._transport.check_process()
        return self._state.total_episodes

    @property
    def total_steps(self) -> int:
        """Steps of those episodes, final states left out."""
        self._transport.check_process()
        return self._state.total_steps

    @property
    def total_caches(self) -> int:
        """Caches that have arrived, whole ones only."""
        self._transport.check_process()
        return self._state.total_caches

    @property
    def total_refused(self) -> int:
        """Messages dropped because they were not of this protocol, or did not fit the memory."""
        self._transport.check_process()
        return self._state.total_refused

    def stats(self) -> ServerStats:
        """Return the server's metrics: caches that have arrived and are held, clients, errors.

        Cheap, and never waits: call it as often as you like, after `close` too.

        Raises:
            RuntimeError: In a forked child.
        """
        self._transport.check_process()
        return self._state.stats(self._publisher.total_published)

    def print_info(self) -> None:
        """Print `rem.print_info()`, the endpoints and the main figures to `sys.stdout`.

        Raises:
            RuntimeError: In a forked child.
        """
        stats = self.stats()
        self._rem.print_info()
        places = ("pub_endpoint", "rep_endpoint", "pull_endpoint", "logfile")
        where = {name: getattr(self, name) for name in places}
        print("\n".join(info_lines(stats, self._rem.uuid, where)))

    @property
    def weight_sum(self) -> float:
        """Sum of the caches' shares: sums of weights, but see `docs/replay.md`, "Samplers"."""
        return self._state.caches.weight_sum

    @property
    def pub_endpoint(self) -> str:
        """The endpoint of published messages, with the port that was bound."""
        return self._publisher.endpoint

    @property
    def rep_endpoint(self) -> str | None:
        """Where the newest REP worker or proxy listens; None before the first."""
        return self._listeners.bound.get(zmq.ROUTER)

    @property
    def pull_endpoint(self) -> str | None:
        """Where the newest PULL worker or proxy listens; None before the first."""
        return self._listeners.bound.get(zmq.PULL)
