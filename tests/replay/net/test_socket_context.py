"""Sockets whose peers leave while nobody reads: the process outlives them."""

import socket
import struct
import subprocess
import sys
import time
from contextlib import closing

import pytest
import zmq

from cogrs.replay.net.socket_context import SocketContext
from tests.combinations import SOAK
from tests.replay import zmtp

KINDS = {"PULL": "PUSH", "XPUB": "SUB", "ROUTER": "DEALER"}
"""Types of sockets that listen, each with a peer's."""


@pytest.mark.parametrize("kind", [zmq.PUSH, zmq.SUB, zmq.DEALER, *(getattr(zmq, k) for k in KINDS)])
def test_socket_asks_by_tcp_whether_its_peer_is_there(kind):
    context = SocketContext("test")
    with closing(context.socket(kind, hwm=1)) as created:
        options = [zmq.HEARTBEAT_IVL, zmq.TCP_KEEPALIVE, zmq.TCP_KEEPALIVE_IDLE]
        values = [created.getsockopt(option) for option in options]
    context.abandon()
    # A heartbeat on a broken connection that nobody reads from ends the process: libzmq 4.3.5.
    assert values == [0, 1, 5]


def flood_and_leave(kind: str, seconds: float) -> None:
    """Fill a socket that nobody reads, break the connection, and wait."""
    context = SocketContext("test")
    listening = context.socket(getattr(zmq, kind), hwm=1)
    port = listening.bind_to_random_port("tcp://127.0.0.1")
    frames = zmtp.frame(b"\x01" + bytes(99)) * 100
    with zmtp.peer(f"tcp://127.0.0.1:{port}", KINDS[kind]) as peer:
        peer.settimeout(1)
        try:
            while True:
                peer.sendall(frames)
        except TimeoutError:
            pass
        # The end is a reset, which the waiting data does not hold back.
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    time.sleep(seconds)
    context.abandon()
    print("alive")


@pytest.mark.skipif(not SOAK, reason="waits longer than a heartbeat; a long form")
@pytest.mark.parametrize("kind", KINDS)
def test_process_outlives_a_peer_that_breaks_off_unread(kind):
    program = f"from {__name__} import flood_and_leave; flood_and_leave({kind!r}, 12)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "alive\n", done.stderr
