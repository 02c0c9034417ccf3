"""Proxies: they carry messages between clients at a front socket and workers at a back socket.

With keys, each message of a client gets a frame with its User-Id: first, or after the routing id of
a request; the frame comes back with the reply. `zmq.proxy` can do neither that nor see which
connection a message is from.

Threads: each pair of sockets is used by the one thread that runs `forward`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import zmq

from cogrs.limits import MOST_WAITING_OF_REQUESTS, MOST_WAITING_OF_STRANGERS
from cogrs.replay.endpoint import Bind, check_endpoint
from cogrs.replay.net.authenticator import Identity, user_id_of
from cogrs.replay.net.curve import WORKERS
from cogrs.replay.net.receive_quota import ReceiveQuota
from cogrs.replay.net.socket_context import IDLE_MS, is_ready
from cogrs.replay.serving.unread_replies import UnreadReplies

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cogrs.replay.net.transport import Transport

_TURN = 64
"""Messages that a proxy carries one way before it looks the other way."""


class ProxySide(NamedTuple):
    """One side of a proxy."""

    name: str  # of the argument that its endpoint was given as
    kind: int  # of its socket
    endpoint: str  # where it listens
    domain: str  # which peers may connect there
    max_frame: int  # bytes of the largest frame that passes
    quota: ReceiveQuota  # how much of each peer's messages may wait


def bind_all(
    transport: Transport, sides: Sequence[ProxySide], hwm: int, *, inproc: bool = False
) -> tuple[list[zmq.Socket[bytes]], list[str]]:
    """Bind all sides of proxies or nothing; return the sockets, and where they are.

    With `inproc` workers connect by the same transport. Errors are those of `Transport.attach`.
    """
    checked = [
        check_endpoint(side.name, side.endpoint, Bind, inproc=inproc and side.domain == WORKERS)
        for side in sides
    ]
    sockets: list[zmq.Socket[bytes]] = []
    bound: list[str] = []
    try:
        for side, endpoint in zip(sides, checked, strict=True):
            sockets.append(transport.socket(side.kind, hwm=hwm, max_frame=side.max_frame))
            where = transport.attach(
                sockets[-1], side.name, endpoint, Bind, side.domain, quota=side.quota
            )
            bound.append(where)
    except BaseException:
        for socket in sockets:
            socket.close()
        raise
    return sockets, bound


def request_quota() -> ReceiveQuota:
    """Return how many bytes may wait of each client that sends requests.

    A client that may draw, and has asked for something, may send requests ahead, such as
    priorities. But no request is large: of an unfinished one libzmq has some 64 bytes per frame.
    """
    return ReceiveQuota(
        MOST_WAITING_OF_REQUESTS,
        largest=MOST_WAITING_OF_STRANGERS,
        most_of_strangers=MOST_WAITING_OF_STRANGERS,
    )


def forward(transport: Transport, front: zmq.Socket[bytes], back: zmq.Socket[bytes]) -> None:
    """Carry messages between two sockets until the transport is closed."""
    with transport.loop(), front, back:
        poller = zmq.Poller()
        unread = UnreadReplies(front) if front.type == zmq.ROUTER else None
        replies = 0 if unread is None else zmq.POLLIN
        while not transport.closed:
            poller.register(front, zmq.POLLIN)
            poller.register(back, replies)
            ready = dict(poller.poll(IDLE_MS))
            if unread is not None and back in ready:
                _forward_replies(transport, back, unread)
            if front in ready and not _forward_messages(transport, front, back, unread):
                # Wait for room, and for replies.
                poller.register(front, 0)
                poller.register(back, zmq.POLLOUT | replies)
                poller.poll(IDLE_MS)


def _forward_messages(
    transport: Transport,
    front: zmq.Socket[bytes],
    back: zmq.Socket[bytes],
    unread: UnreadReplies | None,
) -> bool:
    """Carry some messages of clients to workers; return whether there was room for them."""
    at = 0 if unread is None else 1
    for _ in range(_TURN):
        if not is_ready(back, zmq.POLLOUT):
            return False
        try:
            frames = transport.receive(front)
        except zmq.Again:
            break
        user_id = user_id_of(frames[-1]) if transport.has_keys else ""
        if not transport.has_keys or Identity(user_id).samples:
            transport.trust(front, frames)
        if unread is not None:
            unread.add_client(frames)
        message: list[zmq.Frame | bytes] = [*frames]
        if transport.has_keys:
            message.insert(at, user_id.encode())
        _send(back, message)
    return True


def _send(back: zmq.Socket[bytes], message: list[zmq.Frame | bytes]) -> None:
    """Send a message to a worker; wait for another where the one that had room has left."""
    while True:
        try:
            back.send_multipart(message, zmq.NOBLOCK, copy=False)
        except zmq.Again:
            back.poll(IDLE_MS, zmq.POLLOUT)
        else:
            return


def _forward_replies(transport: Transport, back: zmq.Socket[bytes], unread: UnreadReplies) -> None:
    """Carry some replies to the clients that wait for them."""
    for _ in range(_TURN):
        try:
            frames = transport.receive(back)
        except zmq.Again:
            break
        if transport.has_keys:
            del frames[1:2]
        # A reply is dropped whose client has left, or reads none.
        if unread.has_room(frames[0].bytes):
            unread.send([*frames])
