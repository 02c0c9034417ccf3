"""CURVE keys on sockets, and the list of clients that a server allows, each with its role.

A proxy's back is a domain of its own, where only the server's own key pair counts. `AllowList` is
asked by the two threads of the authenticator; it does not change, and `KeyFolder` has a lock.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import zmq
from zmq.utils import z85

from cogrs.replay.endpoint import Bind
from cogrs.replay.key_pair import KeyPair, check_curve, pair_of, public_of
from cogrs.replay.net.key_folder import KeyFolder

if TYPE_CHECKING:
    from cogrs.replay.endpoint import Mode

_HANDSHAKE_MS = 5000
"""Milliseconds after which a refused client tries again: its key may be allowed by then."""

FRAME_OVERHEAD: Final = 64
"""Bytes by which CURVE makes a frame larger, at most."""

CLIENTS: Final = "clients"
"""The domain of sockets that clients connect to: those that the server allows."""
WORKERS: Final = "workers"
"""The domain of a proxy's back: for holders of the server's own keys alone."""

PUSHER: Final = "pusher"
"""A client that may push, ask for sizes, tell its own totals, and subscribe."""
SAMPLER: Final = "sampler"
"""A client that may also draw samples, send priorities, and have messages published."""


class Curve:
    """The keys of one server or client, for its sockets."""

    def __init__(self, pair: KeyPair, server: bytes, allowed: AllowList | None = None) -> None:
        """Connect as `pair`, to the holder of the secret key that belongs to `server`."""
        self._pair = pair
        self._server = server
        self.allowed = allowed  # the clients that listening sockets accept; None for a client

    @classmethod
    def of_client(cls, key: object, server_key: object) -> Curve | None:
        """Return the keys that a client's arguments name; None when both are None.

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: One is given without the other, or is not a key.
            OSError: A file cannot be read.
            RuntimeError: This libzmq was built without CURVE.
        """
        if key is None and server_key is None:
            return None
        check_curve()
        if key is None:
            raise ValueError(
                "key: expected the client's key pair, since server_key was given, got None"
            )
        if server_key is None:
            raise ValueError(
                "server_key: expected the server's public key, since key was given, got None"
            )
        return cls(pair_of(key), public_of("server_key", server_key))

    @classmethod
    def of_server(cls, key: object, allow: object, samplers: object = None) -> Curve | None:
        """Return the keys that a server's arguments name, None when all are; as `of_client`."""
        if key is None and allow is None and samplers is None:
            return None
        check_curve()
        if key is None:
            given = "allow" if allow is not None else "allow_samplers"
            raise ValueError(
                f"key: expected the server's key pair, since {given} was given, got None"
            )
        if allow is None:
            given = "key" if samplers is None else "allow_samplers"
            raise ValueError(
                "allow: expected the public keys of clients, or a folder of them, since "
                f"{given} was given, got None"
            )
        pair = pair_of(key)
        return cls(pair, pair.public.encode(), AllowList(pair.public.encode(), allow, samplers))

    def apply(self, socket: zmq.Socket[bytes], mode: Mode, domain: str) -> None:
        """Give the keys to a socket that is to bind or connect."""
        socket.curve_secretkey = self._pair.secret.encode()
        socket.curve_publickey = self._pair.public.encode()
        socket.setsockopt(zmq.HANDSHAKE_IVL, _HANDSHAKE_MS)
        if mode == Bind:
            socket.curve_server = True
            socket.setsockopt_string(zmq.ZAP_DOMAIN, domain)
            # Without it libzmq accepts everybody while no authenticator runs, as while closing.
            socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
        else:
            socket.curve_serverkey = self._server


class AllowList:
    """The keys that a server accepts, and their roles: given lists, or folders that may change."""

    def __init__(self, own: bytes, allow: object, samplers: object = None) -> None:
        """Accept the holders of the server's own public key, and those that the arguments name.

        `allow` is keys, or a folder of them; likewise `samplers`, of those that may draw samples:
        None stands for all of `allow`. Errors are those of `Curve.of_client`.
        """
        self._own = z85.decode(own)
        self._pushers = _keys("allow", allow)
        self._samplers = None if samplers is None else _keys("allow_samplers", samplers)

    def role_of(
        self, domain: str, key: bytes, *, read: bool = True, asked_at: float = math.inf
    ) -> str | None:
        """Return the role of a public key, of 32 bytes, in a domain; "" if it is not allowed.

        None where only reading a folder tells, and `read` is False. With `read` a folder is read
        unless it was since `asked_at`, a time of the monotonic clock.
        """
        if key == self._own:
            return SAMPLER
        if domain != CLIENTS:
            return ""
        samples = None if self._samplers is None else _has(self._samplers, key, read, asked_at)
        if samples:
            return SAMPLER
        pushes = _has(self._pushers, key, read, asked_at)
        if self._samplers is None:
            return None if pushes is None else SAMPLER if pushes else ""
        if samples is None or pushes is None:
            return None
        return PUSHER if pushes else ""


def _keys(name: str, given: object) -> frozenset[bytes] | KeyFolder:
    if isinstance(given, (str, os.PathLike)):
        return KeyFolder(name, given)
    if isinstance(given, Iterable) and not isinstance(given, (bytes, bytearray, KeyPair)):
        return frozenset(z85.decode(public_of(name, each)) for each in given)
    raise TypeError(f"{name}: expected keys or a folder, got {type(given).__name__}")


def _has(
    keys: frozenset[bytes] | KeyFolder, key: bytes, read: bool, asked_at: float
) -> bool | None:
    if isinstance(keys, KeyFolder):
        return keys.has(key, asked_at) if read else keys.known(key)
    return key in keys
