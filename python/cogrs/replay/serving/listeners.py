"""The sockets of a server's workers and proxies: where they listen, and the loops that use them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import zmq

from cogrs.limits import LARGEST_REPLY, MOST_WAITING_OF_ANSWERS
from cogrs.replay.endpoint import Bind, check_endpoint, check_mode
from cogrs.replay.net.curve import CLIENTS, WORKERS
from cogrs.replay.net.receive_quota import ReceiveQuota
from cogrs.replay.net.socket_context import start_thread
from cogrs.replay.serving.forwarder import ProxySide, bind_all, forward, request_quota
from cogrs.replay.serving.worker import receive_pushes, serve_requests

if TYPE_CHECKING:
    from collections.abc import Callable

    from cogrs.replay.endpoint import Mode
    from cogrs.replay.net.transport import Transport
    from cogrs.replay.serving.server_state import ServerState

_LOOPS: dict[int, Callable[..., None]] = {zmq.ROUTER: serve_requests, zmq.PULL: receive_pushes}
"""The loop of a worker, by the type of its socket."""


class Listeners:
    """Creates the sockets of workers and proxies, and runs their loops. Any thread may call."""

    def __init__(self, transport: Transport, state: ServerState, hwm: int) -> None:
        """Listen nowhere yet."""
        self._transport = transport
        self._state = state
        self._hwm = hwm
        self.bound: dict[int, str] = {}
        """The endpoint of the newest worker or proxy, by the type of its socket."""

    def start(self, rep_endpoint: str, pull_endpoint: str) -> None:
        """Run a worker of each kind on a thread, both or neither; errors as of the server."""
        self._state.caches.check_room()
        rep = self._socket("rep_endpoint", zmq.ROUTER, rep_endpoint, Bind)
        try:
            pull = self._socket("pull_endpoint", zmq.PULL, pull_endpoint, Bind)
        except BaseException:
            rep.close()
            del self.bound[zmq.ROUTER]
            raise
        for name, kind, socket in (("rep", zmq.ROUTER, rep), ("pull", zmq.PULL, pull)):
            start_thread(name, _LOOPS[kind], self._transport, self._state, socket, Bind)

    def work(self, kind: int, endpoint: str, mode: Mode) -> None:
        """Run a worker until the transport is closed; errors as of `rep_worker_main`."""
        mode = check_mode(mode)
        self._state.caches.check_room()
        socket = self._socket("endpoint", kind, endpoint, mode)
        _LOOPS[kind](self._transport, self._state, socket, mode)

    def forward(self, front: int, front_ep: str, back: int, back_ep: str) -> None:
        """Run a proxy until the transport is closed; errors as of `rep_proxy_main`."""
        max_frame, replies = self._state.max_frame, ReceiveQuota(MOST_WAITING_OF_ANSWERS)
        # Samples that workers give a sampler are not bounded by the size of caches.
        largest = LARGEST_REPLY if back == zmq.DEALER else max_frame
        sides = (
            ProxySide("front_ep", front, front_ep, CLIENTS, max_frame, self._quota(front)),
            ProxySide("back_ep", back, back_ep, WORKERS, largest, replies),
        )
        sockets, bound = bind_all(self._transport, sides, self._hwm, inproc=True)
        self.bound[front] = bound[0]
        forward(self._transport, *sockets)

    def _socket(self, name: str, kind: int, endpoint: str, mode: Mode) -> zmq.Socket[bytes]:
        connects = mode != Bind
        # Clients, which connect to a worker that listens, have a context of their own.
        checked = check_endpoint(name, endpoint, mode, inproc=connects)
        socket = self._transport.socket(kind, hwm=self._hwm, max_frame=self._state.max_frame)
        # A worker that connects has a proxy of its own on the other side.
        quota = None if connects else self._quota(kind)
        where = self._transport.attach(socket, name, checked, mode, quota=quota)
        if not connects:
            self.bound[kind] = where
        return socket

    def _quota(self, kind: int) -> ReceiveQuota:
        """Return how many bytes may wait of each peer of a socket that listens to clients."""
        return request_quota() if kind == zmq.ROUTER else self._state.quota(self._hwm)
