"""CURVE keys: who a server and its clients are, on disk and on sockets."""

from __future__ import annotations

import logging
import os
import stat
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import zmq
import zmq.auth
from zmq.utils import z85

from cogrs.casting import path_of
from cogrs.replay.endpoint import Bind

if TYPE_CHECKING:
    from cogrs.replay.endpoint import Mode

_logger = logging.getLogger("cogrs.replay")

_PUBLIC, _SECRET = ".key", ".key_secret"
_LENGTH = 40
"""Characters of a key: 32 bytes in Z85."""

_HANDSHAKE_MS = 5000
"""A client that was refused tries again so often: its key may have been allowed meanwhile."""

FRAME_OVERHEAD: Final = 64
"""Bytes by which CURVE makes a frame larger, at most."""

CLIENTS: Final = "clients"
"""What clients connect to: takes those that the server allows."""
WORKERS: Final = "workers"
"""The back of a proxy: takes only who has the server's own keys."""


@dataclass(frozen=True)
class KeyPair:
    """The two keys of one server or client, as 40 characters each (Z85).

    The public one may be known to everybody; who has the secret one is the owner.
    """

    public: str
    secret: str = field(repr=False)

    def __post_init__(self) -> None:
        """Check that the keys belong together.

        Raises:
            TypeError: One is no string.
            ValueError: One is no key, or they are no pair.
            RuntimeError: As `new`.
        """
        check_curve()
        public, secret = _key("public", self.public), _key("secret", self.secret)
        if zmq.curve_public(secret) != public:
            raise ValueError("secret: expected the one that belongs to public, got another")

    @classmethod
    def new(cls) -> Self:
        """Make a pair that nobody has.

        Raises:
            RuntimeError: This libzmq was built without CURVE.
        """
        check_curve()
        public, secret = zmq.curve_keypair()
        return cls(public.decode(), secret.decode())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a pair from its secret file, `NAME.key_secret`.

        A file that others than its owner may read is reported to the logger `cogrs.replay`.

        Raises:
            TypeError: `path` is none.
            OSError: The file cannot be read.
            ValueError: It holds no pair.
            RuntimeError: As `new`.
        """
        public, secret = _read(path_of("path", path))
        if secret is None:
            raise ValueError(
                f"{os.fspath(path)}: expected a secret key, got only a public one: the secret one "
                f"is in NAME{_SECRET}"
            )
        if os.stat(path).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            _logger.warning("%s can be read by others than its owner: chmod 600", os.fspath(path))
        try:
            return cls(public.decode(), secret.decode())
        except ValueError as error:
            raise ValueError(f"{os.fspath(path)}: {error}") from None

    def save(self, name: str, folder: str | os.PathLike[str] = ".") -> tuple[Path, Path]:
        """Write `NAME.key`, for peers, and `NAME.key_secret`, which only the owner may read.

        Args:
            name: A file's name without its suffix.
            folder: Where; it is made when it is not there.

        Returns:
            The paths of both.

        Raises:
            TypeError: `name` is no string, or `folder` no path.
            ValueError: `name` is no name of a file.
            FileExistsError: One of the files is there already; nothing is written.
            OSError: They cannot be written.
        """
        if not isinstance(name, str):
            raise TypeError(f"name: expected str, got {type(name).__name__}")
        if not name or name in (".", "..") or "/" in name or "\0" in name:
            raise ValueError(f"name: expected a file's name without a folder, got {name!r}")
        where = path_of("folder", folder)
        where.mkdir(parents=True, exist_ok=True)
        public, secret = where / (name + _PUBLIC), where / (name + _SECRET)
        if public.exists():
            raise FileExistsError(f"{public} is there already; keys are not overwritten")
        lines = f'metadata\ncurve\n    public-key = "{self.public}"\n'
        # The secret first: a public file alone would look like a whole pair.
        _write(secret, f'{lines}    secret-key = "{self.secret}"\n', 0o600)
        try:
            _write(public, lines, 0o644)
        except BaseException:
            secret.unlink()
            raise
        return public, secret


class Curve:
    """The keys of one server or client, for its sockets.

    Attributes:
        allowed: Whom its listening sockets take.
    """

    def __init__(self, pair: KeyPair, server: bytes, allowed: Allowed | None = None) -> None:
        """Connect as `pair` to whoever has the secret key that belongs to `server`."""
        self._pair = pair
        self._server = server
        self.allowed = allowed

    @classmethod
    def of_client(cls, key: object, server_key: object) -> Curve | None:
        """Make what a client's arguments say; None when there are none.

        Raises:
            TypeError: One is of a wrong type.
            ValueError: One is given without the other, or is no key.
            OSError: A file cannot be read.
            RuntimeError: This libzmq was built without CURVE.
        """
        if key is None and server_key is None:
            return None
        check_curve()
        if key is None:
            raise ValueError("key: expected the client's key pair, for server_key was given")
        if server_key is None:
            raise ValueError("server_key: expected the server's public key, for key was given")
        return cls(_pair(key), _public("server_key", server_key))

    @classmethod
    def of_server(cls, key: object, allow: object) -> Curve | None:
        """Make what a server's arguments say; None when there are none.

        Raises:
            As `of_client`.
        """
        if key is None and allow is None:
            return None
        check_curve()
        if key is None:
            raise ValueError("key: expected the server's key pair, for allow was given")
        if allow is None:
            raise ValueError(
                "allow: expected the public keys of clients, or a folder of them, for key was given"
            )
        pair = _pair(key)
        return cls(pair, pair.public.encode(), Allowed(pair.public.encode(), allow))

    def apply(self, socket: zmq.Socket[bytes], mode: Mode, domain: str) -> None:
        """Give the keys to a socket that is to bind or connect."""
        socket.curve_secretkey = self._pair.secret.encode()
        socket.curve_publickey = self._pair.public.encode()
        socket.setsockopt(zmq.HANDSHAKE_IVL, _HANDSHAKE_MS)
        if mode == Bind:
            socket.curve_server = True
            socket.setsockopt_string(zmq.ZAP_DOMAIN, domain)
            # Without it libzmq takes everybody when there is nobody to ask, as while closing.
            socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
        else:
            socket.curve_serverkey = self._server


class Allowed:
    """Whom a server takes: a list, or what lies in a folder when it is asked."""

    def __init__(self, own: bytes, allow: object) -> None:
        """Take the holders of the server's own keys, and those that `allow` names.

        Raises:
            TypeError: Neither a folder nor keys.
            ValueError: One is no key.
            OSError: A file cannot be read, or there is no such folder.
        """
        self._own = z85.decode(own)
        self._folder: Path | None = None
        self._keys: frozenset[bytes] = frozenset()
        if isinstance(allow, (str, os.PathLike)):
            self._folder = Path(allow)
            if not self._folder.is_dir():
                raise NotADirectoryError(f"allow: expected a folder of public keys, got {allow}")
        elif isinstance(allow, Iterable) and not isinstance(allow, (bytes, KeyPair)):
            self._keys = frozenset(z85.decode(_public("allow", each)) for each in allow)
        else:
            raise TypeError(f"allow: expected keys or a folder, got {type(allow).__name__}")

    def takes(self, domain: str, key: bytes) -> bool:
        """Tell whether the owner of a public key, of 32 bytes, may connect to a domain."""
        if key == self._own:
            return True
        return domain == CLIENTS and (key in self._keys or key in self._in_folder())

    def _in_folder(self) -> set[bytes]:
        found = set()
        if self._folder is not None:
            for path in self._folder.glob(f"*{_PUBLIC}"):
                try:
                    found.add(z85.decode(_public("allow", path)))
                except (OSError, ValueError) as error:
                    _logger.warning("a key that cannot be read is left out: %s", error)
        return found


def check_curve() -> None:
    """Refuse to go on without CURVE.

    Raises:
        RuntimeError: This libzmq was built without it.
    """
    if not zmq.has("curve"):
        raise RuntimeError(
            f"libzmq {zmq.zmq_version()} was built without CURVE (libsodium), so keys cannot be "
            "used: the wheels of pyzmq have it"
        )


def _pair(value: object) -> KeyPair:
    if isinstance(value, KeyPair):
        return value
    if isinstance(value, (str, os.PathLike)):
        if isinstance(value, str) and len(value) == _LENGTH and not os.path.exists(value):
            # Not repeated, for it may be the secret key itself.
            raise FileNotFoundError("key: expected a KeyPair or the path of one, got neither")
        return KeyPair.load(value)
    raise TypeError(f"key: expected a KeyPair or the path of one, got {type(value).__name__}")


def _public(name: str, value: object) -> bytes:
    """Return a public key, given as its 40 characters, as a file, or with the secret one."""
    if isinstance(value, KeyPair):
        return value.public.encode()
    if isinstance(value, os.PathLike) or (isinstance(value, str) and len(value) != _LENGTH):
        try:
            return _read(Path(value))[0]
        except FileNotFoundError:
            raise FileNotFoundError(
                f"{name}: expected a public key of {_LENGTH} characters or a file of one, got "
                f"{os.fspath(value)!r}"
            ) from None
    return _key(name, value)


def _key(name: str, value: object) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"{name}: expected a key as str, got {type(value).__name__}")
    try:
        key = value.encode("ascii")
        if len(key) != _LENGTH or z85.encode(z85.decode(key)) != key:
            raise ValueError
    except (ValueError, KeyError, OverflowError, UnicodeError, struct.error):
        # What was given is not repeated: it may be secret.
        raise ValueError(f"{name}: expected a key of {_LENGTH} characters in Z85") from None
    return key


def _read(path: Path) -> tuple[bytes, bytes | None]:
    try:
        with open(path, "rb"):
            public, secret = zmq.auth.load_certificate(path)
        _key("public", public.decode())
        if secret is not None:
            _key("secret", secret.decode())
    except ValueError as error:
        raise ValueError(f"{path}: expected a file of a key, got none: {error}") from None
    return public, secret


def _write(path: Path, text: str, mode: int) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        raise FileExistsError(f"{path} is there already; keys are not overwritten") from None
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text)
