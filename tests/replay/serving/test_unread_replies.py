"""Counting replies, where a client leaves and its descriptor becomes another's."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from typing import TYPE_CHECKING

import pytest
import zmq

from cogrs.replay.net.peer import Peer, descriptor_of
from cogrs.replay.serving.unread_replies import UnreadReplies
from tests.replay import zmtp
from tests.replay.network import LOOPBACK, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST = 1_000
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems count no bytes")


@pytest.fixture
def router(monkeypatch: pytest.MonkeyPatch) -> Iterator[zmq.Socket[bytes]]:
    monkeypatch.setattr("cogrs.replay.serving.unread_replies.MOST_UNREAD_IN_ALL", MOST)
    with zmq.Context() as context, context.socket(zmq.ROUTER) as router:
        router.linger = 0
        router.rcvtimeo = 60_000
        router.bind(LOOPBACK)
        yield router


def request_of(connection: socket.socket, router: zmq.Socket[bytes]) -> list[zmq.Frame]:
    connection.sendall(zmtp.frame(b"", zmtp.MORE) + zmtp.frame(b"asked"))
    return router.recv_multipart(copy=False)


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def test_connection_of_which_too_much_waits_is_ended(router: zmq.Socket[bytes]) -> None:
    unread = UnreadReplies(router)
    with zmtp.peer(router.last_endpoint.decode(), "DEALER") as connection:
        # It has no room for so much, and reads nothing.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        frames = request_of(connection, router)
        unread.add_client(frames)
        peer = Peer.of_frame(frames[-1])
        assert peer is not None
        for _ in range(20):
            assert unread.send([frames[0], bytes(10 << 20)])
        eventually(lambda: not peer.is_connected())


def test_replies_to_a_client_that_left_do_not_count(
    router: zmq.Socket[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    unread = UnreadReplies(router)
    with zmtp.peer(router.last_endpoint.decode(), "DEALER") as connection:
        frames = request_of(connection, router)
    descriptor = descriptor_of(frames[-1])

    def has_left() -> bool:
        try:
            router.send_multipart([frames[0], b"-"], zmq.NOBLOCK)
        except zmq.ZMQError as error:
            return error.errno == zmq.EHOSTUNREACH
        return False

    eventually(has_left)
    eventually(lambda: not is_open(descriptor))
    # Its last request is taken when the descriptor is that of another connection.
    ended: list[Peer] = []
    monkeypatch.setattr(Peer, "disconnect", ended.append)
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        other = listener
        while other.fileno() != descriptor:  # the lowest that is free is given
            other = stack.enter_context(socket.create_connection(listener.getsockname()))
        unread.add_client(frames)
        for _ in range(20):
            assert unread.has_room(frames[0].bytes)
            assert unread.send([frames[0], bytes(10 * MOST)])
    assert not ended
