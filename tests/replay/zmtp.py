"""A peer that speaks ZMTP 3.0 by itself, and sends messages that libzmq would not."""

import contextlib
import select
import socket
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

_GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
MORE, LONG, COMMAND = 1, 2, 4


def frame(body: bytes, flags: int = 0) -> bytes:
    """A frame as it is on the wire."""
    if len(body) > 255:
        return struct.pack(">BQ", flags | LONG, len(body)) + body
    return struct.pack(">BB", flags, len(body)) + body


def shake_hands(connection: socket.socket, kind: str) -> None:
    """Do what comes before messages, as a socket of some type without keys."""
    name, value = b"Socket-Type", kind.encode()
    ready = b"\x05READY" + bytes([len(name)]) + name + struct.pack(">I", len(value)) + value
    connection.sendall(_GREETING + frame(ready, COMMAND))
    received = b""
    while len(received) < len(_GREETING) + 2 or b"READY" not in received:
        piece = connection.recv(4096)
        if not piece:
            raise ConnectionResetError("ended during the handshake")
        received += piece


@contextmanager
def peer(endpoint: str, kind: str) -> Iterator[socket.socket]:
    """A connection to an endpoint of TCP, behind the handshake."""
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        shake_hands(connection, kind)
        yield connection


def is_ended(connection: socket.socket) -> bool:
    """Whether the other side has ended a connection; what it sent is dropped."""
    while select.select([connection], [], [], 0)[0]:
        if not connection.recv(1 << 16):
            return True
    return False


def send_until_ended(connection: socket.socket, messages: Iterable[bytes]) -> bool:
    """Send messages until the other side ends the connection; tell whether it has."""
    connection.settimeout(1)
    try:
        for message in messages:
            left = memoryview(message)
            while left:
                # The end may come while the buffer is full, and then it stays so.
                if is_ended(connection):
                    return True
                with contextlib.suppress(TimeoutError):
                    left = left[connection.send(left) :]
    except (BrokenPipeError, ConnectionResetError):
        return True
    return False
