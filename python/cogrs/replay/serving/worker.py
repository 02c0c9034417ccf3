"""The loops of a server's workers: they carry messages between a socket and the `ServerState`.

Any number of workers may serve one state, each in a thread of its own. None of them holds the
server itself, so that one that is forgotten closes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cogrs.replay.endpoint import Bind, Conn
from cogrs.replay.net.authenticator import ANYBODY, Identity, user_id_of
from cogrs.replay.serving.unread_replies import UnreadReplies
from cogrs.replay.wire import WireError

if TYPE_CHECKING:
    import zmq

    from cogrs.replay.endpoint import Mode
    from cogrs.replay.net.transport import Transport
    from cogrs.replay.serving.server_state import ServerState

_MOST_HOPS = 16
"""Frames before the empty one of a request: the peer's routing id, and two for each proxy."""

_LONGEST_USER_ID = 100
"""Bytes of a User-Id."""


def serve_requests(
    transport: Transport, state: ServerState, socket: zmq.Socket[bytes], mode: Mode
) -> None:
    """Answer requests at a ROUTER socket until the transport is closed.

    In mode 'Conn' the peer is a proxy, which tells the identities of its clients.

    A REP socket would do the same, but one that is sent a request without its empty frame by a peer
    that then leaves can stop for good (libzmq 4.3.5).
    """
    with transport.loop(), socket:
        unread = UnreadReplies(socket)
        for frames in transport.messages(socket):
            if frames is not None:
                sender = _sender(transport, frames, mode, 2)
                if sender.samples:
                    transport.trust(socket, frames)
                if mode == Bind:  # a proxy counts its clients' replies itself
                    unread.add_client(frames)
                _answer(state, frames, sender, unread)


def receive_pushes(
    transport: Transport, state: ServerState, socket: zmq.Socket[bytes], mode: Mode
) -> None:
    """Take messages from a PULL socket until the transport is closed."""
    first = 1 if transport.has_keys and mode == Conn else 0
    with transport.loop(), socket:
        for frames in transport.messages(socket):
            if frames is not None:
                sender = _sender(transport, frames, mode, 0)
                state.take(frames[first:], sender)
            state.tick()


def _sender(transport: Transport, frames: list[zmq.Frame], mode: Mode, at: int) -> Identity:
    """Return the sender of a message; a proxy's frame about it is at index `at`."""
    if not transport.has_keys:
        return ANYBODY
    if mode == Conn:
        frame = frames[at] if at < len(frames) else None
        user_id = b"" if frame is None or len(frame) > _LONGEST_USER_ID else frame.bytes
        return Identity(user_id.decode(errors="replace"))
    return Identity(user_id_of(frames[-1]))


def _answer(
    state: ServerState,
    frames: list[zmq.Frame],
    sender: Identity,
    unread: UnreadReplies,
) -> None:
    envelope = _envelope_size(frames)
    if envelope == 0:
        error = WireError("a request without an empty frame before it", "frames")
        state.refuse(frames[-1], error)
        return
    if unread.has_room(frames[0].bytes):
        reply = [*frames[:envelope], *state.answer(frames[envelope:], sender)]
        if unread.send(reply):
            return
    state.count_dropped_answer(frames[-1])


def _envelope_size(frames: list[zmq.Frame]) -> int:
    """Return how many frames lead back to the client, the empty one included; 0 without that."""
    # The first is the peer's routing id, which the socket has put there.
    for at, frame in enumerate(frames[1 : _MOST_HOPS + 2], 1):
        if len(frame) == 0:
            return at + 1
    return 0
