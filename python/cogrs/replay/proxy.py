"""Proxies without a server: what clients connect to where the learner cannot listen."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, NamedTuple, Self

import zmq

from cogrs.limits import (
    MOST_WAITING_OF_ANSWERS,
    MOST_WAITING_OF_PUSHES,
    MOST_WAITING_OF_REQUESTS,
    MOST_WAITING_OF_STRANGERS,
    SMALL_FRAME,
)
from cogrs.replay.endpoint import Bind, check_count, check_endpoint
from cogrs.replay.net.authenticator import Identity, user_id_of
from cogrs.replay.net.connection_monitor import ReceiveQuota
from cogrs.replay.net.curve import CLIENTS, WORKERS, Curve
from cogrs.replay.net.transport import Transport, is_ready
from cogrs.replay.serving.unread_replies import UnreadReplies

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from cogrs.replay.key_pair import KeyPair


_IDLE_MS = 500
"""For so long a proxy waits for a message before it looks whether it is closed."""

_TURN = 64
"""Messages that a proxy carries one way before it looks the other way."""


class ProxySide(NamedTuple):
    """One side of a proxy.

    Fields:
        name: The argument that its endpoint was given as.
        kind: The type of its socket.
        endpoint: Where it listens.
        domain: Who may connect there.
        hwm: Messages that wait in each direction for each peer, at most.
        max_frame: Bytes of the largest frame that passes.
        intake: How much of what each peer sends may wait.
    """

    name: str
    kind: int
    endpoint: str
    domain: str
    hwm: int
    max_frame: int
    intake: ReceiveQuota


class ReplayProxy:
    """Passes clients' requests and pushes on to the workers of a server in another process.

    The workers connect to the backs: `rep_worker_main(endpoint, Conn)`, and `pull_worker_main`.
    Runs on threads of its own until it is closed; or use it as a context manager.

    Attributes:
        rep_front: Where clients' requests come in: their `req_endpoint`.
        rep_back: Where REP workers connect.
        pull_front: Where caches and log lines come in: the clients' `push_endpoint`.
        pull_back: Where PULL workers connect.
    """

    def __init__(
        self,
        rep_front: str,
        rep_back: str,
        pull_front: str,
        pull_back: str,
        *,
        hwm: int = 16,
        max_frame: int = 256 << 20,
        key: KeyPair | str | os.PathLike[str] | None = None,
        allow: Iterable[KeyPair | str | os.PathLike[str]] | str | os.PathLike[str] | None = None,
        allow_samplers: (
            Iterable[KeyPair | str | os.PathLike[str]] | str | os.PathLike[str] | None
        ) = None,
        insecure: bool = False,
    ) -> None:
        """Bind and start.

        Args:
            rep_front: Endpoint to listen at; so are the next three.
            rep_back: Endpoint.
            pull_front: Endpoint.
            pull_back: Endpoint.
            hwm: Caches that wait in each direction for each peer, at most, >= 1.
            max_frame: Bytes of the largest frame that passes; a peer that sends more is
                disconnected, and one of whose pushes four times as much waits.
            key: Key pair, as of `ReplayMemoryServer`: that of the server whose workers connect.
            allow: Public keys of clients, as of `ReplayMemoryServer`.
            allow_samplers: Likewise of those that may draw, which the workers are told.
            insecure: Whether to listen without keys where others connect, as of
                `ReplayMemoryServer`.

        Raises:
            TypeError: An argument is of a wrong type.
            ValueError: An endpoint is none, a number is out of range, a key is none, or `key` or
                `allow` is given without the other; or others could connect to an endpoint, and
                there are neither keys nor `insecure`.
            OSError: An endpoint cannot be bound, or a file of a key cannot be read.
            RuntimeError: There are keys, and this libzmq was built without CURVE.
        """
        check_count("hwm", hwm)
        check_count("max_frame", max_frame)
        answers = ReceiveQuota(MOST_WAITING_OF_ANSWERS)
        pushes = 4 * max_frame + MOST_WAITING_OF_PUSHES
        ends = (
            ProxySide(
                "rep_front", zmq.ROUTER, rep_front, CLIENTS, hwm, max_frame, intake_of_requests()
            ),
            ProxySide("rep_back", zmq.DEALER, rep_back, WORKERS, hwm, max_frame, answers),
            ProxySide(
                "pull_front", zmq.PULL, pull_front, CLIENTS, hwm, max_frame, ReceiveQuota(pushes)
            ),
            ProxySide(
                "pull_back", zmq.PUSH, pull_back, WORKERS, hwm, max_frame, ReceiveQuota(SMALL_FRAME)
            ),
        )
        for end in ends:
            check_endpoint(end.name, end.endpoint, Bind)
        self._transport = Transport(
            type(self).__name__, Curve.of_server(key, allow, allow_samplers), insecure=insecure
        )
        try:
            self._transport.guard()
            sockets, bound = bind_all(self._transport, ends)
        except BaseException:
            self._transport.abandon()
            raise
        self.rep_front, self.rep_back, self.pull_front, self.pull_back = bound
        # No thread of ours holds the proxy, so one that is forgotten closes.
        self._finalize = weakref.finalize(self, _close, self._transport)
        for kind_name, front, back in (("rep", *sockets[:2]), ("pull", *sockets[2:])):
            threading.Thread(
                target=pass_on,
                args=(self._transport, front, back),
                name=f"cogrs-{kind_name}-proxy",
                daemon=True,
            ).start()

    def close(self) -> None:
        """Stop and free the ports. Again: nothing."""
        self._finalize()
        self._transport.wait_closed()

    def __enter__(self) -> Self:
        """Return the proxy."""
        return self

    def __exit__(self, *_exc: object) -> None:
        """Close it."""
        self.close()


def bind_all(
    transport: Transport, ends: Sequence[ProxySide], *, inproc: bool = False
) -> tuple[list[zmq.Socket[bytes]], list[str]]:
    """Bind all ends of proxies, or none; return the sockets, and where they are.

    Args:
        transport: Whose sockets they are.
        ends: What they are made of.
        inproc: Whether workers connect by the same transport.

    Raises:
        ValueError: An endpoint cannot be bound to.
        OSError: The system refuses.
        RuntimeError: Closed.
    """
    checked = [
        check_endpoint(end.name, end.endpoint, Bind, inproc=inproc and end.domain == WORKERS)
        for end in ends
    ]
    sockets: list[zmq.Socket[bytes]] = []
    bound: list[str] = []
    try:
        for end, endpoint in zip(ends, checked, strict=True):
            sockets.append(transport.socket(end.kind, hwm=end.hwm, max_frame=end.max_frame))
            where = transport.attach(
                sockets[-1], end.name, endpoint, Bind, end.domain, intake=end.intake
            )
            bound.append(where)
    except BaseException:
        for socket in sockets:
            socket.close()
        raise
    return sockets, bound


def intake_of_requests() -> ReceiveQuota:
    """Return how much may wait of each client that sends requests.

    Somebody who has asked as one that draws may send requests ahead, such as priorities. But no
    request is large: of one that is not whole libzmq has some 64 bytes for each frame.
    """
    return ReceiveQuota(
        MOST_WAITING_OF_REQUESTS,
        largest=MOST_WAITING_OF_STRANGERS,
        most_of_strangers=MOST_WAITING_OF_STRANGERS,
    )


def pass_on(transport: Transport, front: zmq.Socket[bytes], back: zmq.Socket[bytes]) -> None:
    """Carry messages between two sockets until the transport is closed.

    With keys, each message of a client gets a frame that says who that is, which goes first, after
    the routing id of a request; it comes back with the answer. Unlike `zmq.proxy`, which can do
    neither, this also sees of which connections messages are.
    """
    with transport.loop(), front, back:
        poller = zmq.Poller()
        unread = UnreadReplies()
        while not transport.closed:
            poller.register(front, zmq.POLLIN)
            poller.register(back, zmq.POLLIN if back.type == zmq.DEALER else 0)
            ready = dict(poller.poll(_IDLE_MS))
            if back in ready:
                _hand_back(transport, back, front, unread)
            if front in ready and not _hand_on(transport, front, back, unread):
                # There is no room: what comes from the back may be waited for as well.
                poller.register(front, 0)
                poller.register(back, zmq.POLLOUT | (zmq.POLLIN if back.type == zmq.DEALER else 0))
                poller.poll(_IDLE_MS)


def _hand_on(
    transport: Transport, front: zmq.Socket[bytes], back: zmq.Socket[bytes], unread: UnreadReplies
) -> bool:
    """Carry what clients sent to workers, a while; tell whether there was room for it."""
    at = 1 if front.type == zmq.ROUTER else 0
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
        if at:
            unread.asked(frames)
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
            back.poll(_IDLE_MS, zmq.POLLOUT)
        else:
            return


def _hand_back(
    transport: Transport, back: zmq.Socket[bytes], front: zmq.Socket[bytes], unread: UnreadReplies
) -> None:
    """Carry answers to the clients that wait for them, a while."""
    for _ in range(_TURN):
        try:
            frames = transport.receive(back)
        except zmq.Again:
            break
        if transport.has_keys:
            del frames[1:2]
        # An answer whose client has left is dropped, and so is one to a client that reads none.
        routing_id = frames[0].bytes
        if unread.has_room(routing_id):
            front.send_multipart(frames, zmq.NOBLOCK, copy=False)
            unread.answered(routing_id, sum(map(len, frames)))


def _close(transport: Transport) -> None:
    if transport.begin_close():
        transport.finish_close()
