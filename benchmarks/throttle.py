"""A connection of limited speed: a proxy that passes on so many bits per second."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_CHUNK = 1 << 16


@contextmanager
def throttled(endpoint: str, bits_per_second: float) -> Iterator[str]:
    """Yield an endpoint that leads to another of TCP, in each direction with this speed."""
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    listener = socket.create_server(("127.0.0.1", 0))
    # Little waits in the buffers of the system, as on a network card.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * _CHUNK)
    sockets = [listener]

    def accept() -> None:
        while True:
            try:
                near = listener.accept()[0]
            except OSError:
                return  # closed
            far = socket.create_connection((host, int(port)))
            sockets.extend((near, far))
            for pair in ((near, far), (far, near)):
                threading.Thread(target=_pass_on, args=(*pair, bits_per_second)).start()

    acceptor = threading.Thread(target=accept)
    acceptor.start()
    try:
        yield f"tcp://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        # Closing alone does not wake the threads that wait.
        listener.shutdown(socket.SHUT_RDWR)
        acceptor.join()
        for each in sockets:
            with contextlib.suppress(OSError):  # not connected any more
                each.shutdown(socket.SHUT_RDWR)
            each.close()


def _pass_on(near: socket.socket, far: socket.socket, bits_per_second: float) -> None:
    free_at = time.perf_counter()
    buffer = bytearray(_CHUNK)
    try:
        while count := near.recv_into(buffer):
            free_at = max(free_at, time.perf_counter() - 0.01) + 8 * count / bits_per_second
            far.sendall(memoryview(buffer)[:count])
            if (ahead := free_at - time.perf_counter()) > 0:
                time.sleep(ahead)
    except OSError:
        pass  # closed
