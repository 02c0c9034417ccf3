"""What carries messages between a server's sockets and its inbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import zmq

    from cogrs.replay.inbox import Inbox
    from cogrs.replay.transport import Transport


def answer(transport: Transport, inbox: Inbox, socket: zmq.Socket[bytes]) -> None:
    """Answer requests at a REP socket until the transport is closed."""
    with transport.loop(), socket:
        for frames in transport.messages(socket):
            if frames is not None:
                socket.send_multipart(inbox.answer(frames), copy=False)


def take(transport: Transport, inbox: Inbox, socket: zmq.Socket[bytes]) -> None:
    """Take what comes in at a PULL socket until the transport is closed."""
    with transport.loop(), socket:
        for frames in transport.messages(socket):
            if frames is not None:
                inbox.take(frames)
            inbox.tick()
