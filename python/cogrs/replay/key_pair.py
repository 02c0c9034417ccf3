"""A pair of CURVE keys, and the files that hold keys, in the format of ZeroMQ's certificates."""

from __future__ import annotations

import errno
import logging
import os
import re
import stat
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Self, TypeAlias

import zmq
from zmq.utils import z85

from cogrs.files import read_regular
from cogrs.limits import LARGEST_KEY_FILE
from cogrs.validation import check_path

if TYPE_CHECKING:
    from collections.abc import Iterable

_logger = logging.getLogger("cogrs.replay")

PUBLIC_SUFFIX = ".key"
_SECRET = ".key_secret"
_LENGTH = 40
"""Characters of a key: 32 bytes in Z85."""

_ENTRY = re.compile(rb"(public|secret)-key[ \t]*=(.*)")
"""A line with a key."""

KeyLike: TypeAlias = "KeyPair | str | os.PathLike[str]"
"""A key as an argument: a pair, a public key's 40 characters, or the path of a file."""
KeysLike: TypeAlias = "Iterable[KeyLike] | str | os.PathLike[str]"
"""Several keys as an argument, or the path of a folder of public ones."""

_PLAIN_PATH = 32
"""A text of fewer characters is shown in errors: it cannot be a key, not even a cut one."""


@dataclass(frozen=True)
class KeyPair:
    """The two keys of one server or client, as 40 characters each (Z85).

    The public key is for peers; the holder of the secret key is the owner.
    """

    public: str
    secret: str = field(repr=False)

    def __post_init__(self) -> None:
        """Check that the keys belong together.

        Raises:
            TypeError: A key is not a string.
            ValueError: A key is not valid, or the keys are not a pair.
            RuntimeError: As `new`.
        """
        check_curve()
        public, secret = _key("public", self.public), _key("secret", self.secret)
        if zmq.curve_public(secret) != public:
            raise ValueError("secret: expected the secret key of `public`, got another")

    @classmethod
    def new(cls) -> Self:
        """Return a new random pair.

        Raises:
            RuntimeError: This libzmq was built without CURVE.
        """
        check_curve()
        public, secret = zmq.curve_keypair()
        return cls(public.decode(), secret.decode())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a pair from its secret file, `NAME.key_secret`.

        If users other than its owner may read the file, the logger `cogrs.replay` warns of that.

        Raises:
            TypeError: `path` is not a path.
            OSError: The file cannot be read, or is not a regular one. The error does not repeat a
                text that may be a key instead of a path.
            ValueError: It does not hold a pair, or is larger than 64 KiB.
            RuntimeError: As `new`.
        """
        public, secret = _read("path", check_path("path", path), "a file of a key pair")
        if secret is None:
            raise ValueError(
                f"{os.fspath(path)}: expected a secret key, got only a public one: the secret one "
                f"is in NAME{_SECRET}"
            )
        if os.stat(path).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            _logger.warning(
                "%s can be read by users other than its owner: chmod 600", os.fspath(path)
            )
        try:
            return cls(public.decode(), secret.decode())
        except ValueError as error:
            raise ValueError(f"{os.fspath(path)}: {error}") from None

    def __reduce__(self) -> NoReturn:
        """Raise a TypeError: the secret key would lie wherever a pickle or a copy does."""
        raise TypeError(
            "a KeyPair cannot be pickled or copied, because the copy would hold the secret key: "
            f"give the path of its file, NAME{_SECRET}, and load it where it is needed"
        )

    def save(self, name: str, folder: str | os.PathLike[str] = ".") -> tuple[Path, Path]:
        """Write `NAME.key`, for peers, and `NAME.key_secret`, which only the owner may read.

        Args:
            name: A file's name without its suffix.
            folder: Where; it is created if it does not exist.

        Returns:
            The paths of both.

        Raises:
            TypeError: `name` is not a string, or `folder` not a path.
            ValueError: `name` cannot be the name of a file.
            FileExistsError: One of the files exists; nothing is written.
            OSError: They cannot be written.
        """
        if not isinstance(name, str):
            raise TypeError(f"name: expected str, got {type(name).__name__}")
        if not name or name in (".", "..") or "/" in name or "\0" in name:
            raise ValueError(f"name: expected a file's name without a folder, got {name!r}")
        where = check_path("folder", folder)
        where.mkdir(parents=True, exist_ok=True)
        public, secret = where / (name + PUBLIC_SUFFIX), where / (name + _SECRET)
        if public.exists():
            raise FileExistsError(f"{public} exists already; keys are not overwritten")
        lines = f'metadata\ncurve\n    public-key = "{self.public}"\n'
        # The secret first: a public file alone would look like a whole pair.
        _write(secret, f'{lines}    secret-key = "{self.secret}"\n', 0o600)
        try:
            _write(public, lines, 0o644)
        except BaseException:
            secret.unlink()
            raise
        return public, secret


def check_curve() -> None:
    """Refuse to use keys where libzmq was built without CURVE, with a RuntimeError."""
    if not zmq.has("curve"):
        raise RuntimeError(
            f"libzmq {zmq.zmq_version()} was built without CURVE (libsodium), so keys cannot be "
            "used: the wheels of pyzmq have it"
        )


def pair_of(value: object) -> KeyPair:
    """Return the pair of an argument `key`, which may be its path; errors as of `KeyPair.load`."""
    if isinstance(value, KeyPair):
        return value
    if isinstance(value, (str, os.PathLike)):
        if isinstance(value, str) and len(value) == _LENGTH and not os.path.exists(value):
            # Not repeated, for it may be the secret key itself.
            raise FileNotFoundError("key: expected a KeyPair or the path of one, got neither")
        return KeyPair.load(value)
    raise TypeError(f"key: expected a KeyPair or the path of one, got {type(value).__name__}")


def public_of(name: str, value: object) -> bytes:
    """Return a public key, given as characters, a file or a pair; errors as of `KeyPair.load`."""
    if isinstance(value, KeyPair):
        return value.public.encode()
    if isinstance(value, os.PathLike) or (isinstance(value, str) and len(value) != _LENGTH):
        return _read(name, Path(value), f"a public key of {_LENGTH} characters or a file of one")[0]
    return _key(name, value)


def _key(name: str, value: object) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"{name}: expected a key as str, got {type(value).__name__}")
    try:
        key = value.encode("ascii")
        if len(key) != _LENGTH or z85.encode(z85.decode(key)) != key:
            raise ValueError
    except (ValueError, KeyError, OverflowError, UnicodeError, struct.error):
        # The value is not repeated: it may be secret.
        raise ValueError(f"{name}: expected a key of {_LENGTH} characters in Z85") from None
    return key


def _read(name: str, path: Path, expected: str) -> tuple[bytes, bytes | None]:
    """Read a file of a key; `name`, the argument, and `expected` are for errors."""
    failure: OSError
    if "\0" in os.fspath(path):
        raise ValueError(f"{name}: expected {expected}, got a text with NUL")
    try:
        # Before it is opened: that can have effects, and may wait for the other side of a pipe.
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        contents = read_regular(path, LARGEST_KEY_FILE)
    except OSError as error:
        # Raised below: an error's context would hold the text that is not to be shown.
        failure = type(error)(f"{name}: expected {expected}, got {shown(path)}: {error.strerror}")
    else:
        return _entries(path, contents)
    raise failure


def _entries(path: Path, contents: bytes) -> tuple[bytes, bytes | None]:
    found: dict[bytes, bytes] = {}
    for line in contents.splitlines():
        if match := _ENTRY.match(line.strip()):
            found.setdefault(match[1], match[2].strip(b" \t'\""))
    try:
        public, secret = found.get(b"public"), found.get(b"secret")
        if public is None:
            raise ValueError("it has no public key")
        _key("public", public.decode())
        if secret is not None:
            _key("secret", secret.decode())
    except ValueError as error:
        why = str(error) if not isinstance(error, UnicodeError) else "it is not text"
        raise ValueError(f"{path}: expected a key file: {why}") from None
    return public, secret


def shown(path: Path) -> str:
    """Return a path for an error, unless it may be the text of a key."""
    text = os.fspath(path)
    plain = text.isprintable() and (
        len(text) < _PLAIN_PATH or text.endswith((PUBLIC_SUFFIX, _SECRET)) or os.path.lexists(text)
    )
    return (
        repr(text) if plain else f"a text of {len(text)} characters (not shown, it may be secret)"
    )


def _write(path: Path, text: str, mode: int) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        raise FileExistsError(f"{path} exists already; keys are not overwritten") from None
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text)
