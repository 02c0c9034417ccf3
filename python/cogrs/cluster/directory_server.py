"""A directory at a ZeroMQ endpoint: requests and replies are JSON.

One thread answers, in the order of arrival. A request that waits for a change is answered later,
by the same thread, so any number may wait.
"""

from __future__ import annotations

import json
import logging
import weakref
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import zmq

from cogrs.cluster.directory import LateGenerationError
from cogrs.escape import escaped
from cogrs.limits import MIB
from cogrs.replay.endpoint import Bind, check_endpoint
from cogrs.replay.net.authenticator import Identity, user_id_of
from cogrs.replay.net.closeable import Closeable
from cogrs.replay.net.curve import Curve
from cogrs.replay.net.deadline import Deadline
from cogrs.replay.net.receive_quota import ReceiveQuota
from cogrs.replay.net.socket_context import start_thread
from cogrs.replay.net.transport import Transport

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cogrs.cluster.directory import Directory
    from cogrs.replay.key_pair import KeyLike, KeysLike

_logger = logging.getLogger("cogrs.cluster")

_LARGEST_REQUEST: Final = MIB
_PAUSE_MS: Final = 20
"""Milliseconds between two looks at whether a waiting request can be answered."""


class _Waiting(NamedTuple):
    """A request that waits for a larger version."""

    envelope: list[bytes]
    version: int
    deadline: Deadline


class DirectoryServer(Closeable):
    """Serves a directory to parts, which register, and to drivers, which also give orders."""

    _instead: ClassVar[str] = "other processes reach it through a DirectoryClient"

    def __init__(
        self,
        directory: Directory,
        endpoint: str,
        *,
        key: KeyLike,
        allow: KeysLike,
        allow_orders: KeysLike,
    ) -> None:
        """Listen at an endpoint.

        Args:
            directory: What is served.
            endpoint: As of `ReplayMemoryServer`; the attribute `endpoint` has the port.
            key: The run's server key pair.
            allow: Public keys of peers that may register and ask.
            allow_orders: Of those that may give orders, too.

        Raises:
            ValueError: An argument is not valid.
            OSError: It cannot be bound.
        """
        checked = check_endpoint("endpoint", endpoint, Bind)
        curve = Curve.of_server(key, allow, allow_orders)
        self._transport = Transport(type(self).__name__, curve)
        try:
            socket = self._transport.socket(zmq.ROUTER, hwm=16, max_frame=_LARGEST_REQUEST)
            quota = ReceiveQuota(16 * _LARGEST_REQUEST)
            self.endpoint = self._transport.attach(socket, "endpoint", checked, Bind, quota=quota)
        except BaseException:
            self._transport.abandon()
            raise
        start_thread("directory", _serve, self._transport, directory, socket)
        self._finalize = weakref.finalize(self, _close, self._transport)

    def wait(self, timeout: float) -> bool:
        """Wait until another thread closes it, for some seconds; return whether it is closed."""
        return self._transport.wait_closing(timeout)


def _close(transport: Transport) -> None:
    if transport.begin_close():
        transport.finish_close()


def _serve(transport: Transport, directory: Directory, socket: zmq.Socket[bytes]) -> None:
    waiting: list[_Waiting] = []
    with transport.loop(), socket:
        while not transport.closed:
            try:
                frames = transport.receive(socket)
            except zmq.Again:
                waiting = [each for each in waiting if not _answer_waiting(socket, directory, each)]
                socket.poll(_PAUSE_MS if waiting else 100)
                continue
            envelope, body = [frame.bytes for frame in frames[:-1]], frames[-1].bytes
            may_order = Identity(user_id_of(frames[-1])).samples
            try:
                request = json.loads(body)
                reply = _handled(directory, request, may_order=may_order)
            except LateGenerationError as error:
                reply = {"late": str(error)}
            except (TypeError, ValueError, KeyError, RecursionError) as error:
                _logger.warning("a request is refused: %s", escaped(repr(error)))
                reply = {"error": escaped(repr(error))}
            if reply is None:
                deadline = Deadline(float(request["timeout"]))
                waiting.append(_Waiting(envelope, int(request["seen"]), deadline))
            else:
                _send(socket, envelope, reply)


def _handled(
    directory: Directory, request: Mapping[str, Any], *, may_order: bool
) -> dict[str, Any] | None:
    """Return the reply to a request; None where it waits for a larger version."""
    match request["call"]:
        case "exchange":
            if request["part"] is not None:
                directory.register(request["part"])
            # A wait of its own would hold all others up.
            found = directory.wait(int(request["seen"]), 0.0)
            return None if found is None and float(request["timeout"]) > 0 else {"snapshot": found}
        case "status":
            return directory.status()
        case "order":
            if not may_order:
                raise ValueError("this key may not give orders")
            directory.order(request["what"])
            return {}
        case other:
            raise ValueError(f"call: expected exchange, status or order, got {other!r}")


def _answer_waiting(socket: zmq.Socket[bytes], directory: Directory, waiting: _Waiting) -> bool:
    found = directory.wait(waiting.version, 0.0)
    if found is None and not waiting.deadline.passed:
        return False
    _send(socket, waiting.envelope, {"snapshot": found})
    return True


def _send(socket: zmq.Socket[bytes], envelope: list[bytes], reply: Mapping[str, Any]) -> None:
    # A ROUTER drops replies to peers that are gone; those that are there ask again.
    socket.send_multipart([*envelope, json.dumps(reply).encode()])
