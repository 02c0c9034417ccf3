"""The sockets of one object, with keys, and with connections that are watched.

`SocketContext` creates and closes sockets; this adds what concerns their peers: keys are given to
each socket where it is attached, `Authenticator` answers libzmq's questions about keys, and
`ConnectionMonitor` ends connections of which too much waits. The threads of both start when the
first socket needs them; locking is that of `SocketContext`.
"""

from __future__ import annotations

import errno
import threading
import weakref
from typing import TYPE_CHECKING

import zmq

from cogrs.listen_address import check_listener
from cogrs.replay.endpoint import Bind, attach, keep_for_owner
from cogrs.replay.net.authenticator import Authenticator
from cogrs.replay.net.connection_monitor import ConnectionMonitor, WatchedSocket
from cogrs.replay.net.curve import CLIENTS, FRAME_OVERHEAD
from cogrs.replay.net.socket_context import IDLE_MS, SocketContext, probe_descriptors, receive
from cogrs.validation import check_flag

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cogrs.replay.endpoint import Mode
    from cogrs.replay.net.curve import Curve
    from cogrs.replay.net.receive_quota import ReceiveQuota

_HANDSHAKE_MS = 10_000
"""Milliseconds that a connection without keys may be silent at its beginning."""


class Transport(SocketContext):
    """The sockets of one server, client, sampler or proxy."""

    def __init__(self, owner: str, curve: Curve | None = None, *, insecure: bool = False) -> None:
        """Create a context for a class; with keys, its sockets that bind ask an authenticator.

        `insecure` lets sockets without keys listen where the system lets others in.
        """
        check_flag("insecure", insecure)
        # libzmq compares the largest frame with what comes from the network, which is encrypted.
        super().__init__(owner, FRAME_OVERHEAD if curve is not None else 0)
        self._curve = curve
        self._insecure = insecure
        self._authenticator: Authenticator | None = None
        self._monitor: ConnectionMonitor | None = None
        self._monitor_lock = threading.Lock()
        self._quotas: weakref.WeakKeyDictionary[zmq.Socket[bytes], ReceiveQuota] = (
            weakref.WeakKeyDictionary()
        )
        self._bound: weakref.WeakValueDictionary[str, zmq.Socket[bytes]] = (
            weakref.WeakValueDictionary()
        )
        if curve is not None and curve.allowed is not None:
            try:
                self._authenticator = Authenticator(self, curve.allowed)
            except BaseException:
                self.abandon()
                raise

    @property
    def hint(self) -> str:
        """What a wait that ended without a connection may have to do with keys."""
        if self._curve is None:
            why = "it may want keys, and this client has none"
        else:
            why = "it may have no keys, a key other than server_key, or not allow this client's key"
        return f" (no connection; if the server is there, {why})"

    @property
    def has_keys(self) -> bool:
        """Whether peers are known by their keys."""
        return self._curve is not None

    def attach(
        self,
        socket: zmq.Socket[bytes],
        name: str,
        endpoint: str,
        mode: Mode,
        domain: str = CLIENTS,
        *,
        quota: ReceiveQuota | None,
        on_event: Callable[[str, int], object] | None = None,
    ) -> str:
        """Bind or connect a socket of this transport, and return where; it is closed on failure.

        `name` is the argument that the endpoint was given as. With keys, `domain` says which peers
        may connect. `quota` is how much of a connection may wait before it is ended; None for a
        socket that has a monitor of its own. `on_event` is called with the endpoint and events of
        the socket, in another thread.

        Raises:
            ValueError: Others than this machine's users could connect, and there are no keys.
            OSError: The system refuses, or the endpoint is bound here already.
        """
        try:
            if mode == Bind:
                missing = () if self._curve is not None else ("key", "allow")
                check_listener(name, endpoint, missing, insecure=self._insecure)
                self._check_unbound(name, endpoint)
            probe_descriptors()
            if self._curve is not None:
                self._curve.apply(socket, mode, domain)
            elif mode == Bind:
                socket.setsockopt(zmq.HANDSHAKE_IVL, _HANDSHAKE_MS)
            if mode == Bind and self._authenticator is not None:
                on_event = self._authenticator.on_event
            watched = None
            if quota is not None and not endpoint.startswith("inproc:"):
                watched = WatchedSocket(endpoint, quota, on_event)
                self._watch(socket, watched)
            where = attach(socket, name, endpoint, mode)
            if watched is not None:
                watched.endpoint = where
            if mode == Bind and self._curve is None and not self._insecure:
                keep_for_owner(where)
        except BaseException:
            socket.close(linger=0)
            raise
        if mode == Bind:
            self._bound[where] = socket
        return where

    def receive(self, socket: zmq.Socket[bytes]) -> list[zmq.Frame]:
        """Take the next message, without copying its frames; a zmq.Again if there is nothing."""
        return _receive(socket, self._quotas.get(socket))

    def trust(self, socket: zmq.Socket[bytes], frames: list[zmq.Frame]) -> None:
        """Give the larger limit to the connection that a message has come from."""
        quota = self._quotas.get(socket)
        if quota is not None:
            quota.trust(frames[-1])

    def messages(self, socket: zmq.Socket[bytes]) -> Iterator[list[zmq.Frame] | None]:
        """Yield messages, and None now and then, until this transport is closed."""
        quota = self._quotas.get(socket)
        while not self.closed:
            try:
                yield _receive(socket, quota)
            except zmq.Again:
                if not socket.poll(IDLE_MS):
                    yield None

    def _check_unbound(self, name: str, endpoint: str) -> None:
        # ZeroMQ would take an ipc endpoint away from the socket that has it.
        other = self._bound.get(endpoint)
        if other is not None and not other.closed:
            raise OSError(
                errno.EADDRINUSE,
                f"{name}: {endpoint} is bound by this {self._owner} already. Several workers "
                "share an endpoint behind a proxy: rep_proxy_main or pull_proxy_main",
            )

    def _watch(self, socket: zmq.Socket[bytes], watched: WatchedSocket) -> None:
        with self._monitor_lock:
            if self._monitor is None:
                self._monitor = ConnectionMonitor(self)
        if watched.endpoint.startswith("tcp:"):  # of others the system does not count bytes
            self._quotas[socket] = watched.quota
        self._monitor.watch(socket, watched)


def _receive(socket: zmq.Socket[bytes], quota: ReceiveQuota | None) -> list[zmq.Frame]:
    if quota is None:
        return receive(socket)
    try:
        frames = receive(socket)
    except zmq.Again:
        quota.times_empty += 1
        raise
    quota.count(frames)
    return frames
