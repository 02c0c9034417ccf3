"""A thread that watches connections, and ends those of which more waits than messages can have.

A high-water mark counts whole messages; libzmq bounds the size of a frame, but neither the frames
of a message nor connections, and does not show the frames of a message that is not whole. So the
monitor compares what the system has received by a connection (TCP_INFO) with what loops took of it,
and ends a connection of which more waits than there can be. It estimates too little rather than too
much.

Threads: `watch` is called by any; all else happens in the monitor's own thread, which reads the
counters of `ReceiveQuota` while loops write them.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import zmq
from zmq.utils.monitor import parse_monitor_message

from cogrs.replay.net.peer import Peer, bytes_received, bytes_unread, most_descriptors
from cogrs.replay.net.socket_context import start_thread
from cogrs.replay.net.warn_once import WarnOnce

if TYPE_CHECKING:
    from collections.abc import Callable

    from cogrs.replay.net.receive_quota import ReceiveQuota
    from cogrs.replay.net.socket_context import SocketContext

FAILURES = zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
"""Events of peers that failed before their key was asked about."""

_EVENTS = (
    FAILURES
    | zmq.EVENT_ACCEPTED
    | zmq.EVENT_CONNECTED
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_CLOSED
    | zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_MONITOR_STOPPED
)

_PERIOD_MS, _IDLE_MS = 200, 500
"""Milliseconds between two looks at connections, and between two looks at new sockets where there
are no connections, or only some that this process has made and that were quiet for a while."""

_QUIET = 5
"""Looks in a row that have found nothing new; then the next ones are further apart."""

_ROUND = 500
"""Connections that are looked at in a period, in turn: each costs some microseconds."""

_MOST_EVENTS = 1_000
"""Events of a socket that are handled before connections are looked at."""

_HEARTBEATS = 64
"""Bytes of heartbeats that a connection may bring per second, which no loop takes."""


@dataclass(eq=False)
class WatchedSocket:
    """A socket whose connections are watched."""

    endpoint: str  # for warnings
    quota: ReceiveQuota  # how much of each connection may wait, and was taken
    on_event: Callable[[str, int], object] | None = None
    """Called with the endpoint and each event of its monitor, in the monitor's thread."""


class _Connection:
    def __init__(self, peer: Peer, watched: WatchedSocket) -> None:
        self.peer = peer
        self.endpoint = watched.endpoint
        self._quota = quota = watched.quota
        self._received = self._taken = 0
        if peer.descriptor in quota.seen:
            # Others had the descriptor before: what was taken until now may have been theirs.
            self._received = bytes_received(peer.descriptor) or 0
            self._taken = quota.taken.get(peer.descriptor, 0)
        quota.seen.add(peer.descriptor)
        self._waiting = 0.0
        self._looked = time.monotonic()
        self._untouched = 0
        """Looks in a row since which nothing of it was taken."""
        self._times_empty = quota.times_empty
        self._messages = quota.messages
        """Taken of all connections when something was taken of this one."""
        self._before = 0
        self.is_busy = True
        """Whether anything had come by it at the last look."""

    def excess(self) -> int:
        """Return how many bytes wait here, where that is too many; else 0.

        Of the bytes that were taken, the overhead is the largest possible, and never counts for
        those that come later: so the estimate is too low rather than too high.

        Where all whole messages have been taken, what still waits is of one that is not: libzmq
        takes messages of connections in turn, so others cannot keep that from being known.
        """
        quota = self._quota
        received = bytes_received(self.peer.descriptor)
        if received is None:
            return 0
        taken, now = quota.taken.get(self.peer.descriptor, 0), time.monotonic()
        new = received - self._received - (taken - self._taken) - _HEARTBEATS * (now - self._looked)
        self._waiting = max(0.0, self._waiting + new)
        if taken == self._taken:
            self._untouched += 1
        else:
            self._untouched, self._messages = 0, quota.messages
        turns = (quota.messages - self._messages) // len(quota.seen)
        emptied = self._times_empty != quota.times_empty or turns > 1
        self._times_empty = quota.times_empty
        self.is_busy = received != self._received
        self._received, self._taken, self._looked = received, taken, now
        most, largest, before = quota.limit_of(self.peer), quota.largest, self._before
        if self._waiting <= min(most, largest):
            self._before = 0
            return 0
        self._before = held = int(self._waiting) - bytes_unread(self.peer.descriptor)
        if held <= most and not (self._untouched > 1 and emptied and before > largest):
            return 0
        return held if self.peer.is_connected() else 0


class ConnectionMonitor:
    """Ends connections that exceed their quota, or that the process has no descriptors for."""

    def __init__(self, context: SocketContext) -> None:
        """Start the thread."""
        self._context = context
        self._new: deque[tuple[zmq.Socket[bytes], WatchedSocket]] = deque()
        self._watched: dict[zmq.Socket[bytes], WatchedSocket] = {}
        """By the sockets that read their events."""
        self._connections: dict[tuple[WatchedSocket, int], _Connection] = {}
        """By socket and descriptor, which another socket may have before we hear that it was free;
        those that were looked at last come last."""
        self._listens = False
        """Whether others have connected, who may be anybody."""
        self._quiet = 0
        """Looks in a row that have found nothing new."""
        self._warn_once = WarnOnce()
        start_thread("connections", self._run)

    def watch(self, socket: zmq.Socket[bytes], watched: WatchedSocket) -> None:
        """Watch a socket that binds or connects after this call."""
        self._new.append((self._context.monitor(socket, _EVENTS), watched))

    def _run(self) -> None:
        poller = zmq.Poller()
        with self._context.loop():
            try:
                # A reader gets an error when the context ends.
                while self._watched or self._new or not self._context.closed:
                    self._register(poller)
                    for reader, _ in poller.poll(self._period_ms()):
                        if reader not in self._watched:
                            return  # closed under the poller, which then looks at descriptor 0
                        if not self._handle_events(reader):
                            poller.unregister(reader)
                            del self._watched[reader]
                            reader.close()
                    self._check_some()
            finally:
                self._register(poller)
                for reader in self._watched:
                    reader.close()

    def _period_ms(self) -> int:
        is_busy = self._connections and (self._listens or self._quiet < _QUIET)
        return _PERIOD_MS if is_busy else _IDLE_MS

    def _register(self, poller: zmq.Poller) -> None:
        while self._new:
            reader, watched = self._new.popleft()
            self._watched[reader] = watched
            poller.register(reader, zmq.POLLIN)

    def _handle_events(self, reader: zmq.Socket[bytes]) -> bool:
        """Take the events that are there, and return whether more may come.

        All of them: a connection that was accepted may have ended since, and its descriptor be one
        of another socket, whose bytes are not to be taken for its own.
        """
        watched = self._watched[reader]
        for _ in range(_MOST_EVENTS):
            try:
                message = parse_monitor_message(reader.recv_multipart(zmq.NOBLOCK))
            except zmq.Again:
                break
            event, value = int(message["event"]), int(message["value"])
            if event in (zmq.EVENT_ACCEPTED, zmq.EVENT_CONNECTED):
                self._add(value, watched, accepted=event == zmq.EVENT_ACCEPTED)
            elif event in (zmq.EVENT_DISCONNECTED, zmq.EVENT_CLOSED):
                ended = self._connections.pop((watched, value), None)
                if ended is not None:
                    watched.quota.trusted.discard(ended.peer)
            if watched.on_event is not None:
                watched.on_event(watched.endpoint, event)
            if event == zmq.EVENT_MONITOR_STOPPED:
                return False
        return True

    def _add(self, descriptor: int, watched: WatchedSocket, *, accepted: bool) -> None:
        try:
            peer = Peer.of_descriptor(descriptor)
        except OSError:
            return  # it has left already
        self._listens = self._listens or accepted
        if accepted and descriptor >= most_descriptors():
            peer.disconnect()
            text = "for which the process has too few descriptors (see 'ulimit -n')"
            self._warn(watched.endpoint, text)
            return
        self._connections[watched, descriptor] = _Connection(peer, watched)

    def _check_some(self) -> None:
        self._quiet += 1
        for watched, descriptor in list(itertools.islice(self._connections, _ROUND)):
            connection = self._connections.pop((watched, descriptor))
            if not connection.peer.is_connected():
                watched.quota.trusted.discard(connection.peer)
            elif held := connection.excess():
                connection.peer.disconnect()
                text = f"with {held:,} bytes waiting, more than its messages can add up to"
                self._warn(connection.endpoint, text)
            else:
                self._connections[watched, descriptor] = connection
                if connection.is_busy:
                    self._quiet = 0

    def _warn(self, endpoint: str, why: str) -> None:
        text = "ended a connection at %s %s; further ones are not reported"
        self._warn_once(endpoint, text, endpoint, why)
