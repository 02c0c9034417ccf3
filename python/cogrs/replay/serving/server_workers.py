"""The methods of a server that run its workers and proxies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import zmq

from cogrs.replay.net.closeable import Closeable
from cogrs.validation import check_timeout

if TYPE_CHECKING:
    from cogrs.replay.endpoint import Mode
    from cogrs.replay.serving.listeners import Listeners

_LOOPBACK = "tcp://127.0.0.1:*"


class ServerWorkers(Closeable):
    """The base of `ReplayMemoryServer`: what listens to its clients."""

    _listeners: Listeners

    def start(self, rep_endpoint: str = _LOOPBACK, pull_endpoint: str = _LOOPBACK) -> Self:
        """Run a REP and a PULL worker on threads; the endpoints are bound when this returns.

        Raises:
            ValueError: An endpoint is not valid, or others could connect to it, as of the
                constructor.
            OSError: One cannot be bound; or the file system of `storage` has less room than
                `n_caches` caches of `rem.cache_size` samples take.
            RuntimeError: The server is closed.
        """
        self._listeners.start(rep_endpoint, pull_endpoint)
        return self

    def rep_worker_main(self, endpoint: str, mode: Mode) -> None:
        """Answer clients' requests for sizes and counters; returns when the server is closed.

        Args:
            endpoint: ZeroMQ endpoint; in mode 'Conn' it can be 'inproc://NAME', the `back_ep` of a
                proxy of this server.
            mode: 'Bind' to listen there, 'Conn' to connect to a proxy's back.

        Raises:
            ValueError: `endpoint` or `mode` is not valid, or others could connect (see the
                constructor).
            OSError: The endpoint cannot be bound; or `storage` has too little room, as of `start`.
            RuntimeError: The server is closed already.
        """
        self._listeners.work(zmq.ROUTER, endpoint, mode)

    def pull_worker_main(self, endpoint: str, mode: Mode) -> None:
        """Receive clients' caches and log lines; returns when the server is closed.

        Arguments and errors as `rep_worker_main`.
        """
        self._listeners.work(zmq.PULL, endpoint, mode)

    def rep_proxy_main(self, front_ep: str, back_ep: str) -> None:
        """Listen to clients at one endpoint and to REP workers at another, and pass on.

        Returns when the server is closed.

        Args:
            front_ep: Where clients connect.
            back_ep: Where workers in mode 'Conn' connect; 'inproc://NAME' for those of this server.

        Raises:
            ValueError: An endpoint is not valid, or others could connect to it, as of the
                constructor.
            OSError: One cannot be bound.
            RuntimeError: The server is closed already.
        """
        self._listeners.forward(zmq.ROUTER, front_ep, zmq.DEALER, back_ep)

    def pull_proxy_main(self, front_ep: str, back_ep: str) -> None:
        """Listen to clients at one endpoint and to PULL workers at another, and pass on.

        Returns and errors as `rep_proxy_main`.
        """
        self._listeners.forward(zmq.PULL, front_ep, zmq.PUSH, back_ep)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until another thread closes the server.

        Args:
            timeout: Seconds; None waits without a limit.

        Returns:
            Whether the server is closed, or being closed.

        Raises:
            TypeError, ValueError: `timeout` is not a number of seconds >= 0 or None.
        """
        return self._transport.wait_closing(check_timeout("timeout", timeout))
