"""Suggestions for misspelt names."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def suggestion(name: object, known: Iterable[str]) -> str:
    """Return "did you mean 'x'?" for the closest of the known names, "" where none is close."""
    names = {each.lower(): each for each in known}
    text = name.lower() if isinstance(name, str) else ""
    close = difflib.get_close_matches(text, names, n=1, cutoff=0.7)
    return f"did you mean {names[close[0]]!r}?" if close else ""


def check_options(options: Iterable[str], known: Iterable[str], owner: str) -> None:
    """Refuse unknown options with a TypeError, which names the known ones, and the closest."""
    names = list(known)
    for option in options:
        if option not in names:
            expected = f"{owner} has no such option, expected one of {names}"
            raise TypeError(
                "; ".join(filter(None, (f"{option}: {expected}", suggestion(option, names))))
            )


def misspelt(error: TypeError, options: Mapping[str, object], known: Iterable[str]) -> str:
    """Return a suggestion for the option that a call refused, "" where none of ours is close."""
    names = list(known)
    for option in options:
        if f"'{option}'" in str(error) and (found := suggestion(option, names)):
            return f"{option}: {found}"
    return ""
