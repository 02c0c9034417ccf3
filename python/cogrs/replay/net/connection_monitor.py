"""Connections to the sockets of a transport: how many there are, and what waits of each."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import socket as sockets
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import zmq
from zmq.utils.monitor import parse_monitor_message

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cogrs.replay.net.transport import Transport

_logger = logging.getLogger("cogrs.replay")

_SOURCE = 2
"""Of libzmq's message options: the descriptor of the connection that a message came from."""

FAILURES = zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
"""What comes of peers whose key nobody could be asked about."""

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
"""So often connections are looked at, and sockets to watch when there are no connections."""

_ROUND = 500
"""Connections that are looked at in a period, in turn: each costs some microseconds."""

_FRAME_OVERHEAD = 64
"""Bytes by which a frame is larger on its way, at most."""

_PINGS = 64
"""Bytes of heartbeats that a connection may bring in a second, which nobody takes."""

_ACKED_AT, _RECEIVED_AT, _INFO_SIZE = 120, 128, 136
"""Where Linux' TCP_INFO counts the bytes that the peer has received, and those that have come
(tcpi_bytes_acked, tcpi_bytes_received)."""


class Peer(NamedTuple):
    """A connection: its descriptor, and the inode behind, by which a descriptor used again shows.

    Fields:
        descriptor: Of the process.
        inode: Of the socket.
    """

    descriptor: int
    inode: int

    @classmethod
    def of(cls, frame: zmq.Frame) -> Peer | None:
        """Return where a frame came from; None when it was not sent, or its peer has left."""
        try:
            return cls.at(int(frame.get(_SOURCE)))
        except (zmq.ZMQError, OSError):
            return None

    @classmethod
    def at(cls, descriptor: int) -> Peer:
        """Return the connection that has a descriptor.

        Raises:
            OSError: None has.
        """
        return cls(descriptor, os.fstat(descriptor).st_ino)

    def stays(self) -> bool:
        """Tell whether the connection is still there."""
        try:
            return os.fstat(self.descriptor).st_ino == self.inode
        except OSError:
            return False

    def disconnect(self) -> None:
        """End the connection; a peer of ours connects again."""
        if self.stays():
            _shut_down(self.descriptor)


class ReceiveQuota:
    """What was taken of each connection of a socket, by the one loop that receives from it.

    Attributes:
        taken: Bytes, by the connection's descriptor; more than on the wire, never less.
        seen: Descriptors that connections have had.
        trusted: Connections that `most` holds for; the others have `most_of_strangers`.
        times_empty: How often nothing was left to take.
        messages: How many messages were taken, of all connections.
    """

    def __init__(
        self, most: int, *, largest: int | None = None, most_of_strangers: int | None = None
    ) -> None:
        """Let some bytes of each connection wait.

        Args:
            most: Bytes, whether of whole messages or not.
            largest: Bytes of one message, which is not whole; None for as many.
            most_of_strangers: Bytes of a connection that is not trusted; None for as many.
        """
        self._most = most
        self._most_of_strangers = most if most_of_strangers is None else most_of_strangers
        self.largest = most if largest is None else largest
        self.taken: dict[int, int] = {}
        self.seen: set[int] = set()
        self.trusted: set[Peer] = set()
        self.times_empty = 0
        self.messages = 0

    def most_of(self, peer: Peer) -> int:
        """Return how many bytes of a connection may wait."""
        return self._most if peer in self.trusted else self._most_of_strangers

    def trust(self, frame: zmq.Frame) -> None:
        """Let more of the connection wait that a frame has come from."""
        if self._most_of_strangers < self._most and (peer := Peer.of(frame)) is not None:
            self.trusted.add(peer)

    def took(self, frames: Sequence[zmq.Frame]) -> None:
        """Count a message. Its last frame has always come from the connection."""
        self.messages += 1
        try:
            descriptor = int(frames[-1].get(_SOURCE))
        except zmq.ZMQError:
            return  # of this process, or of libzmq itself
        size = sum(map(len, frames)) + _FRAME_OVERHEAD * len(frames)
        self.taken[descriptor] = self.taken.get(descriptor, 0) + size


@dataclass(eq=False)
class WatchedSocket:
    """A socket whose connections are looked after.

    Attributes:
        endpoint: Where it is, for warnings.
        intake: What was taken from it.
        heard: Called with the endpoint and each event of its monitor, in another thread.
    """

    endpoint: str
    intake: ReceiveQuota
    heard: Callable[[str, int], object] | None = None


class _Connection:
    """What is known of a connection."""

    def __init__(self, peer: Peer, watched: WatchedSocket) -> None:
        self.peer = peer
        self.endpoint = watched.endpoint
        self._intake = watched.intake
        self._received = self._taken = 0
        if peer.descriptor in self._intake.seen:
            # Others had the descriptor before: what was taken until now may have been theirs.
            self._received = _bytes_received(peer.descriptor) or 0
            self._taken = self._intake.taken.get(peer.descriptor, 0)
        self._intake.seen.add(peer.descriptor)
        self._waiting = 0.0
        self._looked = time.monotonic()
        self._untouched = 0
        """So often in a row nothing had been taken of it since it was looked at before."""
        self._times_empty = self._intake.times_empty
        self._messages = self._intake.messages
        """Taken of all connections when something was taken of this one."""
        self._before = 0

    def waits_too_much(self) -> int:
        """Return how many bytes wait here that have come and were not taken, 0 if few enough.

        Only libzmq knows what it holds: messages that are not whole, of however many frames, count
        towards no high-water mark. So it is computed, too little rather than too much: of what
        was taken, the overhead is the largest possible, and never counts for what comes later.

        Where all whole messages have been taken, what still waits is of one that is not: libzmq
        takes messages of connections in turn, so others cannot keep that from being known.
        """
        received = _bytes_received(self.peer.descriptor)
        if received is None:
            return 0
        taken, now = self._intake.taken.get(self.peer.descriptor, 0), time.monotonic()
        new = received - self._received - (taken - self._taken) - _PINGS * (now - self._looked)
        self._waiting = max(0.0, self._waiting + new)
        if taken == self._taken:
            self._untouched += 1
        else:
            self._untouched, self._messages = 0, self._intake.messages
        turns = (self._intake.messages - self._messages) // len(self._intake.seen)
        emptied = self._times_empty != self._intake.times_empty or turns > 1
        self._times_empty = self._intake.times_empty
        self._received, self._taken, self._looked = received, taken, now
        most, largest, before = self._intake.most_of(self.peer), self._intake.largest, self._before
        if self._waiting <= min(most, largest):
            self._before = 0
            return 0
        self._before = held = int(self._waiting) - _bytes_unread(self.peer.descriptor)
        if held <= most and not (self._untouched > 1 and emptied and before > largest):
            return 0
        return held if self.peer.stays() else 0


class ConnectionMonitor:
    """A thread that looks after the connections to the sockets of a transport.

    libzmq bounds the messages that wait of a connection and the size of a frame, but neither the
    frames of a message nor connections. So a connection of which more waits than there can be is
    ended here, and so is a new one where the process runs out of descriptors.
    """

    def __init__(self, transport: Transport) -> None:
        """Start."""
        self._transport = transport
        self._new: deque[tuple[zmq.Socket[bytes], WatchedSocket]] = deque()
        self._watched: dict[zmq.Socket[bytes], WatchedSocket] = {}
        """By the sockets that read of their events."""
        self._numbers = itertools.count()
        self._connections: dict[int, _Connection] = {}
        """By descriptor; those that were looked at last come last."""
        self._warned: set[str] = set()
        threading.Thread(target=self._run, name="cogrs-connections", daemon=True).start()

    def watch(self, socket: zmq.Socket[bytes], watched: WatchedSocket) -> None:
        """Look after a socket that binds or connects after this call.

        Raises:
            OSError: No socket can be made.
            RuntimeError: Closed.
        """
        # libzmq's thread would wait for a reader of what it reports, and for room. So the reader is
        # there first, has room for all, and stays until the socket or the context has ended.
        reader = self._transport.socket(zmq.PAIR, hwm=0, linger_ms=0)
        name = f"inproc://cogrs.connections-{next(self._numbers)}"
        reader.connect(name)
        self._new.append((reader, watched))
        socket.monitor(name, _EVENTS)

    def _run(self) -> None:
        poller = zmq.Poller()
        with self._transport.loop():
            try:
                # A reader is told of the end of the context by an error.
                while self._watched or self._new or not self._transport.closed:
                    self._register(poller)
                    period = _PERIOD_MS if self._connections else _IDLE_MS
                    for reader, _ in poller.poll(period):
                        if not self._hear(reader):
                            poller.unregister(reader)
                            del self._watched[reader]
                            reader.close()
                    self._look()
            finally:
                self._register(poller)
                for reader in self._watched:
                    reader.close()

    def _register(self, poller: zmq.Poller) -> None:
        while self._new:
            reader, watched = self._new.popleft()
            self._watched[reader] = watched
            poller.register(reader, zmq.POLLIN)

    def _hear(self, reader: zmq.Socket[bytes]) -> bool:
        """Take an event, and tell whether there may be more."""
        watched = self._watched[reader]
        message = parse_monitor_message(reader.recv_multipart())
        event, value = int(message["event"]), int(message["value"])
        if event in (zmq.EVENT_ACCEPTED, zmq.EVENT_CONNECTED):
            self._add(value, watched, accepted=event == zmq.EVENT_ACCEPTED)
        elif event in (zmq.EVENT_DISCONNECTED, zmq.EVENT_CLOSED):
            ended = self._connections.pop(value, None)
            if ended is not None:
                watched.intake.trusted.discard(ended.peer)
        if watched.heard is not None:
            watched.heard(watched.endpoint, event)
        return event != zmq.EVENT_MONITOR_STOPPED

    def _add(self, descriptor: int, watched: WatchedSocket, *, accepted: bool) -> None:
        try:
            peer = Peer.at(descriptor)
        except OSError:
            return  # it has left already
        most = _most_descriptors()
        if accepted and descriptor >= most:
            peer.disconnect()
            text = "for which the process has too few descriptors (see 'ulimit -n')"
            self._warn(watched.endpoint, text)
            return
        self._connections[descriptor] = _Connection(peer, watched)

    def _look(self) -> None:
        """Look at those connections whose turn it is."""
        for descriptor in list(itertools.islice(self._connections, _ROUND)):
            connection = self._connections.pop(descriptor)
            held = connection.waits_too_much()
            if held:
                connection.peer.disconnect()
                text = f"of which {held:,} bytes wait, more than there can be of messages"
                self._warn(connection.endpoint, text)
            else:
                self._connections[descriptor] = connection

    def _warn(self, endpoint: str, why: str) -> None:
        if endpoint not in self._warned:
            self._warned.add(endpoint)
            _logger.warning("ended a connection at %s %s; others are not told", endpoint, why)


if sys.platform == "win32":

    def _shut_down(descriptor: int) -> None:
        """End a connection."""
        with (
            contextlib.suppress(OSError),
            sockets.socket(fileno=os.dup(descriptor)) as connection,
        ):
            connection.shutdown(sockets.SHUT_RDWR)

    def bytes_acked(_descriptor: int) -> int | None:
        """Return None: this system does not tell."""
        return None

    def _bytes_received(_descriptor: int) -> int | None:
        """Return None: this system does not tell."""
        return None

    def _bytes_unread(_descriptor: int) -> int:
        """Return 0: this system does not tell."""
        return 0

    def _most_descriptors() -> int:
        """Return how many descriptors connections may use: handles have no such limit."""
        return sys.maxsize

else:
    import array
    import ctypes
    import fcntl
    import resource
    import termios

    _libc = ctypes.CDLL(None)

    def _shut_down(descriptor: int) -> None:
        """End a connection. By number: there may be no descriptor left for a copy."""
        _libc.shutdown(descriptor, sockets.SHUT_RDWR)

    def bytes_acked(descriptor: int) -> int | None:
        """Return the bytes that the peer has received; None where the system does not tell."""
        return _counted(descriptor, _ACKED_AT)

    def _bytes_received(descriptor: int) -> int | None:
        """Return the bytes that have come by a connection; None where the system does not tell."""
        return _counted(descriptor, _RECEIVED_AT)

    def _counted(descriptor: int, at: int) -> int | None:
        if sys.platform != "linux":
            return None
        # By number: a socket object of ours would keep the connection open.
        buffer = ctypes.create_string_buffer(_INFO_SIZE)
        size = ctypes.c_uint32(_INFO_SIZE)
        failed = _libc.getsockopt(
            descriptor, sockets.IPPROTO_TCP, sockets.TCP_INFO, buffer, ctypes.byref(size)
        )
        if failed or size.value < _INFO_SIZE:
            return None
        return int.from_bytes(buffer.raw[at : at + 8], sys.byteorder)

    def _bytes_unread(descriptor: int) -> int:
        """Return the bytes of a connection that libzmq has not read yet."""
        found = array.array("i", [0])
        with contextlib.suppress(OSError):
            fcntl.ioctl(descriptor, termios.FIONREAD, found)
        return found[0]

    def _most_descriptors() -> int:
        """Return how many descriptors connections may use, which leaves some for all else."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return sys.maxsize if soft == resource.RLIM_INFINITY else soft // 4 * 3
