"""The connection that a frame came from, and what the system counts of it.

libzmq does not tell of connections; it gives the descriptor of the one that a frame came from. By
that Linux tells how many bytes came and were acknowledged (TCP_INFO); other systems do not.
"""

from __future__ import annotations

import contextlib
import os
import socket as sockets
import sys
from typing import NamedTuple

import zmq

_DESCRIPTOR = 2
"""Of libzmq's message options: the descriptor of the connection that a message came from."""

_ACKED_AT, _RECEIVED_AT, _INFO_SIZE = 120, 128, 136
"""Where Linux' TCP_INFO has the bytes that the peer has received, and those that have come
(tcpi_bytes_acked, tcpi_bytes_received)."""


class Peer(NamedTuple):
    """A connection: its descriptor, and the inode behind, which differs when that is used again."""

    descriptor: int
    inode: int

    @classmethod
    def of_frame(cls, frame: zmq.Frame) -> Peer | None:
        """Return where a frame came from; None when it was not sent, or its peer has left."""
        try:
            return cls.of_descriptor(descriptor_of(frame))
        except (zmq.ZMQError, OSError):
            return None

    @classmethod
    def of_descriptor(cls, descriptor: int) -> Peer:
        """Return the connection that has a descriptor; an OSError if it is not open."""
        return cls(descriptor, os.fstat(descriptor).st_ino)

    def is_connected(self) -> bool:
        """Return whether the connection is still there."""
        try:
            return os.fstat(self.descriptor).st_ino == self.inode
        except OSError:
            return False

    def disconnect(self) -> None:
        """End the connection; a peer that runs cogrs connects again."""
        if self.is_connected():
            _shut_down(self.descriptor)


def descriptor_of(frame: zmq.Frame) -> int:
    """Return the descriptor of a frame's connection; a ZMQError if this process sent it."""
    return int(frame.get(_DESCRIPTOR))


if sys.platform == "win32":

    def _shut_down(descriptor: int) -> None:
        with contextlib.suppress(OSError), sockets.socket(fileno=os.dup(descriptor)) as connection:
            connection.shutdown(sockets.SHUT_RDWR)

    def bytes_acked(_descriptor: int) -> int | None:
        """Return None: this system does not tell."""
        return None

    def bytes_received(_descriptor: int) -> int | None:
        """Return None: this system does not tell."""
        return None

    def bytes_unread(_descriptor: int) -> int:
        """Return 0: this system does not tell."""
        return 0

    def most_descriptors() -> int:
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
        # By number: there may be no descriptor left for a copy.
        _libc.shutdown(descriptor, sockets.SHUT_RDWR)

    def bytes_acked(descriptor: int) -> int | None:
        """Return the bytes that the peer has received; None where the system does not tell."""
        return _tcp_info(descriptor, _ACKED_AT)

    def bytes_received(descriptor: int) -> int | None:
        """Return the bytes that have come by a connection; None where the system does not tell."""
        return _tcp_info(descriptor, _RECEIVED_AT)

    def _tcp_info(descriptor: int, at: int) -> int | None:
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

    def bytes_unread(descriptor: int) -> int:
        """Return the bytes of a connection that libzmq has not read yet."""
        found = array.array("i", [0])
        with contextlib.suppress(OSError):
            fcntl.ioctl(descriptor, termios.FIONREAD, found)
        return found[0]

    def most_descriptors() -> int:
        """Return how many descriptors connections may use, which leaves some for all else."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return sys.maxsize if soft == resource.RLIM_INFINITY else soft // 4 * 3
