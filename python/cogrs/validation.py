"""Checks of arguments: a wrong one is refused by its name, before anything is done with it.

Each check names the argument, what was expected and what came. TypeError: the value has the wrong
type; ValueError: it has the right one, and is out of range.
"""

from __future__ import annotations

import math
import operator
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex, cast

from cogrs.shown import shown

if TYPE_CHECKING:
    import os

_MOST = 2**63 - 1
_LARGE = 2**16


def check_kind(name: str, value: object, kind: Any, expected: str) -> None:
    """Refuse a value of another class.

    Args:
        name: The argument's name.
        value: The argument.
        kind: The class, or a union of classes.
        expected: What is expected, in words.

    Raises:
        TypeError: `value` is not an instance of `kind`.
    """
    if not isinstance(value, kind):
        raise TypeError(f"{name}: expected {expected}, got {_kind(value)}")


def check_text(name: str, value: object) -> None:
    """Refuse a value that is not a string, or cannot be encoded.

    Raises:
        TypeError: `value` is not a string.
        ValueError: It has half a surrogate pair, which is not a character.
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
        value: The argument.
        secret: Leave the value out of the error.

    Raises:
        TypeError: `value` is not a string.
        ValueError: It has other characters than printable ASCII.
    """
    check_text(name, value)
    if not (value.isascii() and value.isprintable()):
        got = "something else" if secret else shown(value)
        raise ValueError(f"{name}: expected printable ASCII, got {got}")


def check_named(name: str, value: object) -> None:
    """Refuse a value that is not a mapping from strings.

    Raises:
        TypeError: `value` is not a mapping, or a key is not a string.
    """
    check_kind(name, value, Mapping, "a mapping from names")
    assert isinstance(value, Mapping)
    for key in value:
        check_text(f"{name}, key {shown(key)}", key)


def check_flag(name: str, value: object, *, numbers: bool = False) -> bool:
    """Return a bool.

    Args:
        name: The argument's name.
        value: The argument.
        numbers: Take the integers 0 and 1, and NumPy's bool, too.

    Raises:
        TypeError: `value` is not a bool.
        ValueError: It is another integer than 0 or 1, where `numbers` are taken.
    """
    if isinstance(value, bool):
        return value
    if numbers:
        if _is_numpy_bool(value):
            return bool(value)
        if hasattr(value, "__index__"):
            return check_integer(name, value, 0, 1, expected="True or False") == 1
    raise TypeError(f"{name}: expected True or False, got {_kind(value)}")


def check_integer(
    name: str, value: object, least: int, most: int = _MOST, *, expected: str | None = None
) -> int:
    """Return an integer from `least` to `most`; a bool is not one.

    Args:
        name: The argument's name.
        value: The argument.
        least: The smallest value.
        most: The largest value.
        expected: What is expected, in words, if the bounds do not say it well.

    Raises:
        TypeError: `value` is not an integer.
        ValueError: It is out of range.
    """
    if expected is None:
        expected = f"an integer >= {least}"
        if most != _MOST:
            expected = f"an integer from {least} to {_bound(most)}"
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(cast("SupportsIndex", value))
    except TypeError:  # an array has the method too
        raise TypeError(f"{name}: expected {expected}, got {_kind(value)}") from None
    if number > most == _MOST:
        expected = f"an integer <= {_bound(most)}"
    if not least <= number <= most:
        raise ValueError(f"{name}: expected {expected}, got {shown(number)}")
    return number


def check_port(name: str, value: object) -> int:
    """Return a TCP port, 0 for a free one; gRPC would take 65536 for that, and -1 for 65535.

    Raises:
        TypeError: `value` is not an integer.
        ValueError: It is not in 0 .. 65535.
    """
    return check_integer(name, value, 0, 65535)


def check_number(
    name: str, value: object, *, expected: str = "a finite number", infinite: bool = False
) -> float:
    """Return a finite number as a float; a bool is not one, nor is text.

    Args:
        name: The argument's name.
        value: The argument.
        expected: What is expected, in words.
        infinite: Take infinity too.

    Raises:
        TypeError: `value` is not a number.
        ValueError: It is not finite, or too large for a float.
    """
    try:
        if isinstance(value, (bool, str, bytes)) or _is_numpy_bool(value):
            raise TypeError
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, RuntimeError):  # an array or a tensor of several raises these
        raise TypeError(f"{name}: expected {expected}, got {_kind(value)}") from None
    except OverflowError:
        number = math.nan
    if math.isnan(number) or (math.isinf(number) and not infinite):
        raise ValueError(f"{name}: expected {expected}, got {shown(value)}")
    return number


def check_seconds(name: str, value: object, *, above: bool = False) -> float:
    """Return a finite number of seconds.

    Args:
        name: The argument's name.
        value: The argument.
        above: Refuse 0 too.

    Raises:
        TypeError: `value` is not a number.
        ValueError: It is negative, or not finite.
    """
    expected = "seconds > 0" if above else "seconds >= 0"
    seconds = check_number(name, value, expected=expected)
    if seconds < 0 or (above and not seconds):
        raise ValueError(f"{name}: expected {expected}, got {shown(value)}")
    return seconds


def check_timeout(name: str, value: object, *, above: bool = False) -> float | None:
    """Return the seconds of a wait, None for one without a limit.

    Infinity, and more than a thread can wait (`threading.TIMEOUT_MAX`), are None too.

    Args:
        name: The argument's name.
        value: The argument.
        above: Refuse 0 too.

    Raises:
        TypeError: `value` is neither a number nor None.
        ValueError: It is negative, or not a number (NaN).
    """
    if value is None:
        return None
    expected = f"seconds {'>' if above else '>='} 0 or None"
    seconds = check_number(name, value, expected=expected, infinite=True)
    if seconds < 0 or (above and not seconds):
        raise ValueError(f"{name}: expected {expected}, got {shown(value)}")
    return None if seconds > threading.TIMEOUT_MAX else seconds


def check_path(name: str, value: str | os.PathLike[str]) -> Path:
    """Return a path.

    Raises:
        TypeError: `value` is not a path.
    """
    try:
        return Path(value)
    except TypeError:
        raise TypeError(f"{name}: expected a path, got {_kind(value)}") from None


def _bound(number: int) -> str:
    """Return an integer as text: 2**n - 1 in that form, if it is large."""
    power = number >= _LARGE and number & (number + 1) == 0
    return f"2**{number.bit_length()} - 1" if power else str(number)


def _is_numpy_bool(value: object) -> bool:
    """Return whether a value is NumPy's bool; without NumPy, which this module does not import."""
    return type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_")


def _kind(value: object) -> str:
    return type(value).__name__
