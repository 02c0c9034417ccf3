"""What the commands share: how they parse arguments, refuse them, and fail."""

from __future__ import annotations

import argparse
import re
import sys
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from cogrs.escape import escaped
from cogrs.files import read_bounded
from cogrs.limits import MIB, SHORTEST_TOKEN
from cogrs.validation import check_integer, check_number, check_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

Number = TypeVar("Number", int, float)

DONE, FAILED, REFUSED = 0, 1, 2
"""Exit codes: done; not done; not started, since an argument or a file is wrong."""
LOOK = 0.1
"""Seconds between two looks at whether a signal came."""


class Parser(argparse.ArgumentParser):
    """Refuses in one line, under the name of the command that was given."""

    def __init__(self, *args: Any, fill: Callable[[Parser], None] | None = None, **named: Any):
        """Create a parser; `fill` adds options when the command is used, since it imports more."""
        super().__init__(*args, **named)
        self._fill = fill

    def parse_known_args(self, *args: Any, **named: Any) -> Any:
        """Refuse unknown arguments here: argparse would leave them to the parser above."""
        if self._fill is not None:
            fill, self._fill = self._fill, None
            fill(self)
        known, unknown = super().parse_known_args(*args, **named)
        if unknown:
            name = unknown[0].partition("=")[0]
            like = get_close_matches(name, self._option_string_actions, 1)
            hint = f"did you mean {like[0]}?" if like else f"see {self.prog} --help"
            self.error(f"unrecognized arguments: {_without_secrets(unknown)}; {hint}")
        return known, unknown

    def error(self, message: str) -> NoReturn:
        """Print a line to standard error, and exit."""
        # argparse repeats an option with its value, which may be a secret.
        message = re.sub(r"^(ambiguous option: [^\s=]+=)\S{16,}", r"\1...", message)
        self.exit(REFUSED, f"{self.prog}: {message}\n")


def _without_secrets(words: Sequence[str]) -> str:
    """Return arguments as text, without values that are long enough to be tokens."""
    shown, of_option = [], False
    for word in words:
        option = word.startswith("-")
        name, equals, value = word.partition("=") if option else ("", "", word)
        hidden = (of_option or equals) and len(value) >= SHORTEST_TOKEN
        shown.append(f"{name}{equals}..." if hidden else word)
        of_option = option and not equals
    return " ".join(shown)


def integer(text: str, least: int, most: int) -> int:
    """Return an integer in a range."""
    return _checked(
        check_integer, text, int(text) if text.strip().isdecimal() else text, least, most
    )


def number(text: str) -> float:
    """Return a finite number."""
    return _checked(check_number, text, _float(text))


def seconds(text: str) -> float:
    """Return finite seconds >= 0."""
    return _checked(check_seconds, text, _float(text))


def port(text: str) -> int:
    """Return a TCP port."""
    return integer(text, 0, 65535)


def _float(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _checked(check: Callable[..., Number], text: str, value: object, *bounds: int) -> Number:
    """Return a checked value; an ArgumentTypeError shows the text that it was read from."""
    try:
        return check("", value, *bounds)
    except (TypeError, ValueError) as error:
        expected = str(error).removeprefix(": ").rpartition(", got ")[0]
        raise argparse.ArgumentTypeError(f"{expected}, got {text!r}") from None


def fail(command: str, reason: str, code: int = REFUSED) -> int:
    """Print why a command failed, in one line on standard error; return its exit code."""
    print(escaped(f"cogrs {command}: {reason}"), file=sys.stderr)
    return code


def read_text(path: Path, most: int = MIB) -> str:
    """Return the text of a file in UTF-8, of at most `most` bytes; errors name the file."""
    try:
        return read_bounded(path, most).decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: expected text in UTF-8: {error.reason}") from error
