"""Bearer tokens: how they are checked, read from files, and recognized in calls."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cogrs.files import read_bounded
from cogrs.limits import LONGEST_TOKEN, SHORTEST_TOKEN, TOKENS_BYTES
from cogrs.secret_file import warn_if_readable
from cogrs.validation import check_kind, check_text

_HERE = Path()

_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_EXPECTED = f"{SHORTEST_TOKEN} to {LONGEST_TOKEN} characters of A-Z a-z 0-9 -._~+/"


def bearer(token: str) -> tuple[str, str]:
    """Return the metadata that carries a token."""
    return ("authorization", f"Bearer {token}")


class TokenSet:
    """Known tokens, compared in a time that does not depend on the token of a call."""

    def __init__(self, tokens: Iterable[str]) -> None:
        self._known = [digest(bearer(token)[1]) for token in tokens]

    def __bool__(self) -> bool:
        return bool(self._known)

    def shown_in(self, metadata: Iterable[tuple[str, str | bytes]] | None) -> bool:
        """Return whether the metadata of a call has exactly one token, and a known one."""
        shown = [value for key, value in metadata or () if key == "authorization"]
        # With several, a proxy may have checked another one than this server.
        given = digest(shown[0] if len(shown) == 1 else "")
        # All are compared, so that the time reveals nothing.
        return sum(hmac.compare_digest(given, known) for known in self._known) > 0


def check_tokens(name: str, given: object) -> tuple[str, ...]:
    """Return an iterable of tokens as a tuple. Errors do not show the values, which are secrets.

    TypeError if `given` is a single string or not iterable, ValueError if a value is not a token.
    """
    if isinstance(given, (str, bytes)):
        raise TypeError(f"{name}: expected a sequence of strings, got one string")
    check_kind(name, given, Iterable, "a sequence of strings")
    assert isinstance(given, Iterable)
    tokens = tuple(given)
    for number, token in enumerate(tokens):
        check_token(f"{name}[{number}]", token)
    return tokens


def check_token(name: str, token: object) -> None:
    """Refuse a value that is not a token with a ValueError, which does not show it."""
    fits = isinstance(token, str) and SHORTEST_TOKEN <= len(token) <= LONGEST_TOKEN
    if not fits or not _TOKEN.fullmatch(str(token)):
        raise ValueError(f"{name}: expected {_EXPECTED}, got something else")


def check_tokens_by_target(name: str, given: object) -> dict[str, str]:
    """Return tokens by the `host:port`, or the host, that they are sent to; errors as above."""
    check_kind(name, given, Mapping, "a mapping from host:port to a token")
    assert isinstance(given, Mapping)
    found = {}
    for number, (target, token) in enumerate(given.items()):
        check_text(f"{name}, a key", target)
        # Target and token may have been swapped.
        where = f", entry {number}" if looks_secret(target) else f"[{target!r}]"
        check_token(f"{name}{where}", token)
        found[target.removeprefix("grpc://")] = token
    return found


def read_tokens(name: str, path: str | Path, root: Path = _HERE) -> tuple[str, ...]:
    """Return the tokens of a file, one per line; empty lines and lines with # are skipped.

    Warns if others than the owner may read the file. Errors call it `name`: OSError if it cannot be
    read, ValueError if it has no tokens, or a line that is not a token.
    """
    return check_tokens(f"{name}: {path}: tokens", _lines(name, path, root))


def read_token(name: str, path: str | Path) -> str:
    """Return the only line of a file, a token for other servers, which may have other rules."""
    first, *others = _lines(name, path, _HERE)
    if others:
        raise ValueError(f"{name}: {path}: expected one token, got {1 + len(others)} lines")
    return first


def read_tokens_by_target(name: str, path: str | Path, root: Path = _HERE) -> dict[str, str]:
    """Return the tokens of a file whose lines are `HOST:PORT TOKEN` or `HOST TOKEN`."""
    found = {}
    for number, line in enumerate(_lines(name, path, root), 1):
        target, _, token = line.partition(" ")
        check_token(f"{name}: {path}: entry {number}: 'HOST:PORT TOKEN': token", token.strip())
        found[target] = token.strip()
    return found


def _lines(name: str, path: str | Path, root: Path) -> list[str]:
    try:
        text = read_bounded(root / path, TOKENS_BYTES).decode("utf-8")
        warn_if_readable(root / path)
    except UnicodeDecodeError as error:
        raise ValueError(f"{name}: {path}: expected text in UTF-8: {error.reason}") from None
    except OSError as error:
        if not _may_be_secret(str(path)):
            raise
        # Without path and cause: the token itself may have been given as the path.
        raise type(error)(f"{name}: expected the path of a file that exists") from None
    lines = (line.strip() for line in text.splitlines())
    found = [line for line in lines if line and not line.startswith("#")]
    if not found:
        # A file that was emptied by mistake would let everybody in.
        raise ValueError(f"{path}: expected tokens, one per line, got none")
    return found


def _may_be_secret(path: str) -> bool:
    """Return whether a path may be a token that was given in its place."""
    return len(path) >= SHORTEST_TOKEN and not ("/" in path and Path(path).parent.is_dir())


def looks_secret(text: str) -> bool:
    """Return whether a name may be a token given in its place, which errors must not show."""
    return len(text) >= SHORTEST_TOKEN and _TOKEN.fullmatch(text.strip()) is not None


def digest(text: Any) -> bytes:
    """Return the hash by which a secret is recognized, for `compare_digest`."""
    given = text.encode("utf-8", "replace") if isinstance(text, str) else bytes(text)
    return hashlib.sha256(given).digest()


def cannot_be_pickled(what: str) -> TypeError:
    """Return the error of `__reduce__` for objects with secrets."""
    return TypeError(f"{what} cannot be pickled: it holds secrets, which would be in the pickle")
