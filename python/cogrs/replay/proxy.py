"""Proxies without a server: clients connect to them where the learner cannot listen."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, ClassVar

import zmq

from cogrs.limits import MOST_WAITING_OF_ANSWERS, MOST_WAITING_OF_PUSHES, SMALL_FRAME
from cogrs.replay.endpoint import Bind, check_endpoint
from cogrs.replay.net.closeable import Closeable
from cogrs.replay.net.curve import CLIENTS, WORKERS, Curve
from cogrs.replay.net.receive_quota import ReceiveQuota
from cogrs.replay.net.socket_context import start_thread
from cogrs.replay.net.transport import Transport
from cogrs.replay.serving.forwarder import ProxySide, bind_all, forward, request_quota
from cogrs.validation import check_count

if TYPE_CHECKING:
    from cogrs.replay.key_pair import KeyLike, KeysLike


class ReplayProxy(Closeable):
    """Passes clients' requests and pushes on to the workers of a server in another process.

    The workers connect to the backs: `rep_worker_main(endpoint, Conn)`, and `pull_worker_main`.
    Runs on threads of its own until it is closed; or use it as a context manager.

    Attributes:
        rep_front: Where clients' requests come in: their `req_endpoint`.
        rep_back: Where REP workers connect.
        pull_front: Where caches and log lines come in: the clients' `push_endpoint`.
        pull_back: Where PULL workers connect.
    """

    _instead: ClassVar[str] = "other processes connect to its endpoints"

    def __init__(
        self,
        rep_front: str,
        rep_back: str,
        pull_front: str,
        pull_back: str,
        *,
        hwm: int = 16,
        max_frame: int = 256 << 20,
        key: KeyLike | None = None,
        allow: KeysLike | None = None,
        allow_samplers: KeysLike | None = None,
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
            TypeError: An argument has the wrong type.
            ValueError: An endpoint or a key is not valid, a number is out of range, or `key` or
                `allow` is given without the other; or others could connect to an endpoint, and
                there are neither keys nor `insecure`.
            OSError: An endpoint cannot be bound, or a file of a key cannot be read.
            RuntimeError: There are keys, and this libzmq was built without CURVE.
        """
        check_count("hwm", hwm)
        check_count("max_frame", max_frame)
        replies = ReceiveQuota(MOST_WAITING_OF_ANSWERS)
        pushes = ReceiveQuota(4 * max_frame + MOST_WAITING_OF_PUSHES)
        sides = (
            ProxySide("rep_front", zmq.ROUTER, rep_front, CLIENTS, max_frame, request_quota()),
            ProxySide("rep_back", zmq.DEALER, rep_back, WORKERS, max_frame, replies),
            ProxySide("pull_front", zmq.PULL, pull_front, CLIENTS, max_frame, pushes),
            # Nothing comes from PULL workers.
            ProxySide(
                "pull_back", zmq.PUSH, pull_back, WORKERS, max_frame, ReceiveQuota(SMALL_FRAME)
            ),
        )
        for side in sides:
            check_endpoint(side.name, side.endpoint, Bind)
        curve = Curve.of_server(key, allow, allow_samplers)
        self._transport = Transport(type(self).__name__, curve, insecure=insecure)
        try:
            sockets, bound = bind_all(self._transport, sides, hwm)
        except BaseException:
            self._transport.abandon()
            raise
        self.rep_front, self.rep_back, self.pull_front, self.pull_back = bound
        self._finalize = weakref.finalize(self, _close, self._transport)
        for name, front, back in (("rep", *sockets[:2]), ("pull", *sockets[2:])):
            start_thread(f"{name}-proxy", forward, self._transport, front, back)


def _close(transport: Transport) -> None:
    if transport.begin_close():
        transport.finish_close()
