"""Endpoints and modes: checked before a socket sees them, so that a mistake is refused by name."""

from __future__ import annotations

import errno
import os
import re
import socket as unix
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import zmq

from cogrs.validation import check_integer

if TYPE_CHECKING:
    from collections.abc import Sequence

Mode = Literal["Bind", "Conn"]

Bind: Final = "Bind"
"""The socket listens at the endpoint."""
Conn: Final = "Conn"
"""The socket connects to a peer that listens at the endpoint."""

_TCP = re.compile(r"tcp://(?P<host>[^/\0]+):(?P<port>\*|[0-9]{1,5})")
_IPC = re.compile(r"ipc://[^\0]+")
# Names of ZeroMQ's own, and of this package, are left out.
_INPROC = re.compile(r"inproc://(?!zeromq\.|cogrs\.)[^\0]{1,200}")


def check_endpoint(name: str, value: object, mode: Mode, *, inproc: bool = False) -> str:
    """Return an endpoint that a socket can bind or connect to.

    Args:
        name: The argument it was given as.
        value: `tcp://HOST:PORT` or `ipc://PATH`; an address of IPv6 is in brackets. To bind, HOST
            is an address or interface of this machine, or `*` for all that are not of IPv6, and
            PORT can be `*` or 0 for one that is free.
        mode: What the socket is to do with it.
        inproc: Whether it can be `inproc://NAME` too, for the other side belongs to the same
            object.

    Raises:
        TypeError: `value` is not a string.
        ValueError: It is not such an endpoint.
    """
    if not isinstance(value, str):
        raise TypeError(f"{name}: expected an endpoint, got {type(value).__name__}")
    if _IPC.fullmatch(value) and (mode == Bind or value != "ipc://*"):
        return value
    if inproc and _INPROC.fullmatch(value):
        return value
    match = _TCP.fullmatch(value)
    if match and (mode == Bind or _is_peer(match)) and int(match["port"].replace("*", "0")) < 65536:
        return value
    free = " (port * is a free one)" if mode == Bind else ""
    hint = ""
    if value.startswith("inproc:") and not inproc:
        hint = (
            ": inproc reaches only sockets of the same object, such as the back_ep of a server's "
            "proxy and the server's own workers in mode 'Conn'"
        )
    elif inproc:
        free += ", 'inproc://NAME'"
    raise ValueError(
        f"{name}: expected 'tcp://HOST:PORT'{free} or 'ipc://PATH', got {value!r}{hint}"
    )


def check_optional_endpoint(name: str, value: object) -> str:
    """Return the endpoint of a server, which may be empty."""
    return "" if isinstance(value, str) and not value else check_endpoint(name, value, Conn)


def check_endpoints(value: str | Sequence[str]) -> tuple[str, ...]:
    """Return the `push_endpoint` of a client: one, or those of several servers."""
    if isinstance(value, str) or not isinstance(value, (list, tuple)):
        return (check_optional_endpoint("push_endpoint", value),)
    if not value:
        raise ValueError("push_endpoint: expected at least one endpoint, got none")
    return tuple(check_endpoint("push_endpoint", each, Conn) for each in value)


def is_late(generation: object, newest: int) -> bool:
    """Return whether a change of endpoints is older than one that was made before."""
    if generation is None:
        return False
    return check_integer("generation", generation, 0) <= newest


class ClientEndpoints(NamedTuple):
    """The endpoints of a client; empty ones are those that it was created without."""

    sub: str
    req: str
    push: tuple[str, ...]
    generation: int = -1

    @classmethod
    def of(cls, sub: str, req: str, push: str | Sequence[str]) -> ClientEndpoints:
        """Return the endpoints that a client's arguments name, checked."""
        return cls(
            check_optional_endpoint("sub_endpoint", sub),
            check_optional_endpoint("req_endpoint", req),
            check_endpoints(push),
        )

    def replaced(
        self,
        sub: str | None,
        req: str | None,
        push: str | Sequence[str] | None,
        generation: int | None,
    ) -> ClientEndpoints | None:
        """Return those that follow; None if a later change was made before."""
        if is_late(generation, self.generation):
            return None
        for name, given, before in (
            ("sub_endpoint", sub, self.sub),
            ("req_endpoint", req, self.req),
            ("push_endpoint", push, self.push[0]),
        ):
            if given is not None and not (given and before):
                expected = "an endpoint" if before else "None, as this client was created without"
                raise ValueError(f"{name}: expected {expected}, got {given!r}")
        made = ClientEndpoints.of(
            self.sub if sub is None else sub,
            self.req if req is None else req,
            self.push if push is None else push,
        )
        return made._replace(generation=self.generation if generation is None else int(generation))


def check_distinct_endpoints(name: str, value: object) -> list[str]:
    """Return endpoints of servers: a list of at least one, each once."""
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"{name}: expected a list of endpoints, got {type(value).__name__}")
    if not value:
        raise ValueError(f"{name}: expected at least one, got none")
    checked = [check_endpoint(name, each, Conn) for each in value]
    if len(set(checked)) < len(checked):
        raise ValueError(f"{name}: expected each once, got {checked}")
    return checked


def check_mode(value: object) -> Mode:
    """Return a mode; a ValueError if `value` is neither 'Bind' nor 'Conn'."""
    if value not in (Bind, Conn):
        raise ValueError(f"mode: expected 'Bind' or 'Conn', got {value!r}")
    return "Bind" if value == Bind else "Conn"


def attach(socket: zmq.Socket[bytes], name: str, endpoint: str, mode: Mode) -> str:
    """Bind or connect a socket, and return its endpoint with the port; an OSError if that fails."""
    try:
        if endpoint.startswith("tcp://["):
            socket.setsockopt(zmq.IPV6, 1)
        if mode == Conn:
            socket.connect(endpoint)
            return endpoint
        if _is_served(endpoint):
            # ZeroMQ would take the path away from the socket that listens there.
            raise OSError(errno.EADDRINUSE, _why(name, endpoint, zmq.ZMQError(errno.EADDRINUSE)))
        socket.bind(endpoint)
    except zmq.ZMQError as error:
        raise OSError(error.errno, _why(name, endpoint, error)) from None
    return socket.getsockopt_string(zmq.LAST_ENDPOINT)


def keep_for_owner(endpoint: str) -> None:
    """Restrict a bound ipc endpoint to this user: the umask may let others connect."""
    if endpoint.startswith("ipc://") and not endpoint.startswith("ipc://@"):
        os.chmod(endpoint.removeprefix("ipc://"), 0o600)


def _is_served(endpoint: str) -> bool:
    """Return whether a socket listens at an ipc endpoint."""
    if not endpoint.startswith("ipc://") or endpoint == "ipc://*":
        return False
    path = endpoint.removeprefix("ipc://")
    # A leading @ stands for Linux' abstract names.
    address = "\0" + path[1:] if path.startswith("@") else path
    with unix.socket(unix.AF_UNIX) as probe:
        try:
            probe.connect(address)
        except OSError:
            return False
    return True


def _is_peer(match: re.Match[str]) -> bool:
    return match["host"] != "*" and match["port"].strip("0*") != ""


def _why(name: str, endpoint: str, error: zmq.ZMQError) -> str:
    hint = ""
    if error.errno == errno.EADDRINUSE:
        hint = (
            "; somebody listens there already. Several workers share an endpoint behind a proxy: "
            "rep_proxy_main or pull_proxy_main"
        )
    return f"{name}: cannot use {endpoint}: {error.strerror}{hint}"
