"""Checks of arguments: a bad one is refused by name, before anything is done with it."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsFloat, SupportsIndex, cast

from cogrs.shown import shown

if TYPE_CHECKING:
    import os


def check_kind(name: str, value: object, kind: Any, expected: str) -> None:
    """Refuse what is no object of a class.

    Args:
        name: The argument's name.
        value: What was given.
        kind: The class, or several.
        expected: What is expected, in words.

    Raises:
        TypeError: It is none.
    """
    if not isinstance(value, kind):
        raise TypeError(f"{name}: expected {expected}, got {_kind(value)}")


def check_text(name: str, value: object) -> None:
    """Refuse what is no string, or none that can be sent: half a surrogate pair is no character.

    Raises:
        TypeError: It is no string.
        ValueError: It cannot be encoded.
    """
    check_kind(name, value, str, "a string")
    assert isinstance(value, str)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{name}: expected Unicode text, got {shown(value)}") from error


def check_header(name: str, value: str, *, secret: bool = False) -> None:
    """Refuse a string that cannot travel as metadata.

    Args:
        name: The argument's name.
        value: What was given.
        secret: Leave it out of the error.

    Raises:
        TypeError: It is no string.
        ValueError: It has other characters than printable ASCII.
    """
    check_text(name, value)
    if not (value.isascii() and value.isprintable()):
        got = "something else" if secret else shown(value)
        raise ValueError(f"{name}: expected printable ASCII, got {got}")


def check_named(name: str, value: object) -> None:
    """Refuse what is no mapping from names.

    Raises:
        TypeError: It is no mapping, or has another key than a string.
    """
    check_kind(name, value, Mapping, "a mapping from names")
    assert isinstance(value, Mapping)
    for key in value:
        check_text(f"{name}, key {shown(key)}", key)


def check_port(name: str, value: object) -> int:
    """Return a TCP port, 0 for a free one; gRPC would take 65536 for that, and -1 for 65535.

    Raises:
        TypeError: It is no integer.
        ValueError: It is out of range.
    """
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name}: expected an integer from 0 to 65535, got {_kind(value)}")
    port = operator.index(value)
    if not 0 <= port <= 65535:
        raise ValueError(f"{name}: expected an integer from 0 to 65535, got {port}")
    return port


def check_seconds(name: str, value: object, *, above: bool = False) -> float:
    """Return a number of seconds.

    Args:
        name: The argument's name.
        value: What was given.
        above: Refuse 0 too.

    Raises:
        TypeError: It is no number.
        ValueError: It is negative, or not finite.
    """
    least = "seconds > 0" if above else "seconds >= 0"
    if isinstance(value, (bool, str, bytes)) or not hasattr(value, "__float__"):
        raise TypeError(f"{name}: expected {least}, got {_kind(value)}")
    seconds = float(value)
    if not 0 <= seconds < math.inf or (above and not seconds):
        raise ValueError(f"{name}: expected {least}, got {value}")
    return seconds


def check_timeout(name: str, value: object) -> float | None:
    """Return a number of seconds, or None.

    Raises:
        TypeError, ValueError: As `check_seconds`.
    """
    return None if value is None else check_seconds(name, value)


def path_of(name: str, value: str | os.PathLike[str]) -> Path:
    """Return an argument as a path.

    Raises:
        TypeError: It is none; the text names `name`.
    """
    try:
        return Path(value)
    except TypeError:
        raise TypeError(f"{name}: expected a path, got {type(value).__name__}") from None


def _kind(value: object) -> str:
    return type(value).__name__


def check_flag(name: str, value: object) -> bool:
    """Return a truth value; 0 and 1 are not.

    Raises:
        TypeError: `value` is neither True nor False.
    """
    check_kind(name, value, bool, "True or False")
    return value is True


def check_count(name: str, value: object, least: int = 1, most: int = (1 << 31) - 1) -> int:
    """Return an integer within bounds.

    Raises:
        TypeError: `value` is not an integer.
        ValueError: `value` is out of bounds.
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        count = operator.index(cast("SupportsIndex", value))
    except TypeError:  # an array has the method too
        raise TypeError(f"{name}: expected an integer, got {_kind(value)}") from None
    if count < least:
        raise ValueError(f"{name}: expected an integer >= {least}, got {shown(count)}")
    if count > most:
        raise ValueError(f"{name}: expected an integer <= {most}, got {shown(count)}")
    return count


def seconds_of(name: str, value: object) -> float:
    """Return a number of seconds, negative or infinite ones too.

    Raises:
        TypeError: `value` is not a number; True is not.
        ValueError: `value` is larger than a float holds.
    """
    try:
        if isinstance(value, (bool, str, bytes)):
            raise TypeError
        return float(cast("SupportsFloat", value))
    except TypeError:
        raise TypeError(f"{name}: expected seconds or None, got {_kind(value)}") from None
    except OverflowError:
        raise ValueError(f"{name}: expected seconds or None, got {shown(value)}") from None
