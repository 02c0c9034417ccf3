"""Peers that announce a frame of 2 GiB or more."""

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from cogrs import ReplayMemoryClient
from tests.replay import network
from tests.replay.network import SLACK, Call, assert_serves, eventually, full_pair

# ZMTP 3.0, https://rfc.zeromq.org/spec/23: signature, version, mechanism, as-server, filler.
GREETING = b"\xff" + bytes(8) + b"\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
LONG, MORE_LONG = b"\x02", b"\x03"
SIZES = [2 << 30, 2**62, 2**63 + 5, 2**64 - 1]
PEERS = {b"SUB": b"PUB", b"REQ": b"REP", b"PUSH": b"PULL"}


def ready(kind: bytes) -> bytes:
    name = b"\x05READY\x0bSocket-Type" + len(kind).to_bytes(4, "big") + kind
    return b"\x04" + bytes([len(name)]) + name


def claim(size: int, flags: bytes = LONG) -> bytes:
    return flags + size.to_bytes(8, "big") + bytes(1000)


def address(endpoint: str) -> tuple[str, int]:
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    return host, int(port)


def ended(peer: socket.socket) -> bool:
    """Whether the other side hangs up, whatever it says before."""
    with contextlib.suppress(ConnectionError):
        while peer.recv(1 << 16):
            pass
    return True


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("flags", [LONG, MORE_LONG], ids=["last frame", "more follow"])
def test_server_disconnects_a_peer_that_claims_a_huge_frame(size: int, flags: bytes) -> None:
    with full_pair(1) as (server, client):
        before = network.resident_bytes()
        ends = {b"PUSH": server.pull_endpoint, b"REQ": server.rep_endpoint}
        for kind, endpoint in (ends | {b"SUB": server.pub_endpoint}).items():
            with socket.create_connection(address(endpoint), timeout=SLACK) as peer:
                peer.sendall(GREETING + ready(kind) + claim(size, flags))
                assert ended(peer)
        assert network.resident_bytes() - before < 100 << 20
        assert_serves(server, client)
        assert server.total_refused == 0


@contextlib.contextmanager
def claiming(size: int) -> Iterator[tuple[str, set[bytes]]]:
    """A peer that announces a huge frame on each connection: its endpoint, and sockets seen."""
    came: set[bytes] = set()
    stop = threading.Event()

    def answer(peer: socket.socket) -> None:
        with peer, contextlib.suppress(OSError):
            peer.sendall(GREETING)
            seen, kind = b"", None
            while kind not in PEERS:
                seen += peer.recv(1 << 12)
                value = seen.partition(b"Socket-Type")[2]
                kind = value[4 : 4 + int.from_bytes(value[:4], "big")]
            peer.sendall(ready(PEERS[kind]) + claim(size))
            came.add(kind)
            stop.wait(60)

    def serve(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = listener.accept()
                threading.Thread(target=answer, args=(peer,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        try:
            yield f"tcp://127.0.0.1:{listener.getsockname()[1]}", came
        finally:
            stop.set()
            listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("size", SIZES)
def test_client_of_a_server_that_claims_a_huge_frame_times_out(size: int) -> None:
    with full_pair(1) as (server, _), claiming(size) as (nowhere, came):
        before = network.resident_bytes()
        with (
            ReplayMemoryClient(
                nowhere, server.rep_endpoint, nowhere, max_step=8, timeout=1
            ) as pushes,
            ReplayMemoryClient(nowhere, nowhere, nowhere, timeout=1) as asks,
        ):
            hears = Call(lambda: pushes.sub_bytes("t"))
            # A peer that announces too much is disconnected, and it is the only one.
            with contextlib.suppress(TimeoutError):
                pushes.write_log("line")
            with pytest.raises(TimeoutError, match="sync_sizes"):
                asks.sync_sizes(8)
            eventually(lambda: came == set(PEERS))
            assert hears.blocks()
            assert network.resident_bytes() - before < 100 << 20
        with pytest.raises(RuntimeError, match="closed"):
            hears.result()
