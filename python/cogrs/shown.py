"""Values as messages show them."""

from __future__ import annotations

import reprlib

_SHOWN = 100
"""Characters of a value in a message."""

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 2 * _SHOWN
_SHORT.maxlong = _SHOWN


def shown(value: object) -> str:
    """Return a value as messages show it: short, however large, deep or often repeated it is."""
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    text = _SHORT.repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
