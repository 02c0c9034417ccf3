"""Checks of arguments: a wrong one is refused by its name, before anything is done with it.

Each check takes the argument's name and value. It raises TypeError if the value has the wrong type,
and ValueError if it has the right one and is out of range; the error names the argument, what was
expected and what came.
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


def check_kind(name: str, value: object, kind: Any, expected: str) -> None:
    """Refuse a value that is not an instance of `kind`, a class or a union of classes."""
    if not isinstance(value, kind):
        raise TypeError(f"{name}: expected {expected}, got {_type_name(value)}")


def check_text(name: str, value: object) -> None:
    """Refuse a value that is not a string, or has half a surrogate pair and cannot be encoded."""
    check_kind(name, value, str, "a string")
    assert isinstance(value, str)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{name}: expected Unicode text, got {shown(value)}") from error


def check_header(name: str, value: str, *, secret: bool = False) -> None:
    """Refuse a string that cannot travel as metadata; errors do not show a secret."""
    check_text(name, value)
    if not (value.isascii() and value.isprintable()):
        got = "something else" if secret else shown(value)
        raise ValueError(f"{name}: expected printable ASCII, got {got}")


def check_named(name: str, value: object) -> None:
    """Refuse a value that is not a mapping from strings."""
    check_kind(name, value, Mapping, "a mapping from names")
    assert isinstance(value, Mapping)
    for key in value:
        check_text(f"{name}, key {shown(key)}", key)


def check_flag(name: str, value: object, *, numbers: bool = False) -> bool:
    """Return a bool. With `numbers`, NumPy's bool and the integers 0 and 1 are taken too."""
    if isinstance(value, bool) or (numbers and _is_numpy_bool(value)):
        return bool(value)
    if numbers and hasattr(value, "__index__"):
        return check_integer(name, value, 0, 1, expected="True or False") == 1
    raise TypeError(f"{name}: expected True or False, got {_type_name(value)}")


def check_integer(
    name: str, value: object, least: int, most: int = _MOST, *, expected: str | None = None
) -> int:
    """Return an integer from `least` to `most`; a bool is refused.

    `expected` says what is expected where the bounds do not say it well.
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
        raise TypeError(f"{name}: expected {expected}, got {_type_name(value)}") from None
    if number > most == _MOST:
        expected = f"an integer <= {_bound(most)}"
    if not least <= number <= most:
        raise ValueError(f"{name}: expected {expected}, got {shown(number)}")
    return number


def check_count(name: str, value: object, least: int = 1, most: int = 2**31 - 1) -> int:
    """Return an integer from `least` to `most`; errors name the bound that is broken."""
    above = isinstance(value, int) and value > most
    expected = f"an integer <= {most}" if above else f"an integer >= {least}"
    return check_integer(name, value, least, most, expected=expected)


def check_port(name: str, value: object) -> int:
    """Return a TCP port, 0 for a free one; gRPC would take 65536 for that, and -1 for 65535."""
    return check_integer(name, value, 0, 65535)


def check_number(
    name: str, value: object, *, expected: str = "a finite number", infinite: bool = False
) -> float:
    """Return a number that is finite, or may be infinite; a bool, and text, is refused."""
    try:
        if isinstance(value, (bool, str, bytes)) or _is_numpy_bool(value):
            raise TypeError
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, RuntimeError):  # an array or a tensor of several raises these
        raise TypeError(f"{name}: expected {expected}, got {_type_name(value)}") from None
    except OverflowError:
        number = math.nan
    if math.isnan(number) or (math.isinf(number) and not infinite):
        raise ValueError(f"{name}: expected {expected}, got {shown(value)}")
    return number


def check_seconds(name: str, value: object, *, above: bool = False) -> float:
    """Return a finite number of seconds >= 0; with `above` it is > 0."""
    return _at_least_0(name, value, f"seconds {'>' if above else '>='} 0", above=above)


def check_timeout(name: str, value: object, *, above: bool = False) -> float | None:
    """Return the seconds of a wait, or None: without a limit.

    Infinity, and more than threads can wait (`threading.TIMEOUT_MAX`), are None too.
    """
    if value is None:
        return None
    expected = f"seconds {'>' if above else '>='} 0 or None"
    seconds = _at_least_0(name, value, expected, above=above, infinite=True)
    return None if seconds > threading.TIMEOUT_MAX else seconds


def check_path(name: str, value: str | os.PathLike[str]) -> Path:
    """Return a path."""
    try:
        return Path(value)
    except TypeError:
        raise TypeError(f"{name}: expected a path, got {_type_name(value)}") from None


def _at_least_0(
    name: str, value: object, expected: str, *, above: bool, infinite: bool = False
) -> float:
    number = check_number(name, value, expected=expected, infinite=infinite)
    if number < 0 or (above and not number):
        raise ValueError(f"{name}: expected {expected}, got {shown(value)}")
    return number


def _bound(number: int) -> str:
    """Return an integer as text: 2**n - 1 in that form, if it is large."""
    power = number > 0xFFFF and number & (number + 1) == 0
    return f"2**{number.bit_length()} - 1" if power else str(number)


def _is_numpy_bool(value: object) -> bool:
    # By name, since this module does not import NumPy.
    return type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_")


def _type_name(value: object) -> str:
    # NumPy's bool has the name of Python's.
    return f"{'numpy.' if _is_numpy_bool(value) else ''}{type(value).__name__}"
