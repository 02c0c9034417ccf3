"""Proxies without a server: what clients connect to where the learner cannot listen."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, NamedTuple, Self

import zmq

from cogrs.replay.endpoint import Bind, check_count, check_endpoint
from cogrs.replay.keys import CLIENTS, WORKERS, Curve
from cogrs.replay.transport import Transport

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from cogrs.replay.keys import KeyPair


class End(NamedTuple):
    """One side of a proxy.

    Fields:
        name: The argument that its endpoint was given as.
        kind: The type of its socket.
        endpoint: Where it listens.
        domain: Who may connect there.
        hwm: Messages that wait in each direction for each peer, at most.
        max_frame: Bytes of the largest frame that passes.
    """

    name: str
    kind: int
    endpoint: str
    domain: str
    hwm: int
    max_frame: int


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
    ) -> None:
        """Bind and start.

        Args:
            rep_front: Endpoint to listen at; so are the next three.
            rep_back: Endpoint.
            pull_front: Endpoint.
            pull_back: Endpoint.
            hwm: Caches that wait in each direction for each peer, at most, >= 1.
            max_frame: Bytes of the largest frame that passes; a peer that sends more is
                disconnected.
            key: Key pair, as of `ReplayMemoryServer`: that of the server whose workers connect.
            allow: Public keys of clients, as of `ReplayMemoryServer`.

        Raises:
            TypeError: An argument is of a wrong type.
            ValueError: An endpoint is none, a number is out of range, a key is none, or `key` or
                `allow` is given without the other.
            OSError: An endpoint cannot be bound, or a file of a key cannot be read.
            RuntimeError: There are keys, and this libzmq was built without CURVE.
        """
        check_count("hwm", hwm)
        check_count("max_frame", max_frame)
        ends = (
            End("rep_front", zmq.ROUTER, rep_front, CLIENTS, hwm, max_frame),
            End("rep_back", zmq.DEALER, rep_back, WORKERS, hwm, max_frame),
            End("pull_front", zmq.PULL, pull_front, CLIENTS, hwm, max_frame),
            End("pull_back", zmq.PUSH, pull_back, WORKERS, hwm, max_frame),
        )
        for end in ends:
            check_endpoint(end.name, end.endpoint, Bind)
        self._transport = Transport(type(self).__name__, Curve.of_server(key, allow))
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
    transport: Transport, ends: Sequence[End], *, inproc: bool = False
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
            bound.append(transport.attach(sockets[-1], end.name, endpoint, Bind, end.domain))
    except BaseException:
        for socket in sockets:
            socket.close()
        raise
    return sockets, bound


def pass_on(transport: Transport, front: zmq.Socket[bytes], back: zmq.Socket[bytes]) -> None:
    """Carry messages between two sockets until the transport is closed."""
    with transport.loop(), front, back:
        zmq.proxy(front, back)


def _close(transport: Transport) -> None:
    if transport.begin_close():
        transport.finish_close()
