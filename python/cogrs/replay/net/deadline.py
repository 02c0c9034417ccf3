"""How long a call waits: seconds as they are given, and the moment at which they are over."""

from __future__ import annotations

import threading
import time

from cogrs.shown import shown


def deadline_after(name: str, timeout: float | None) -> float | None:
    """Return the moment at which a wait ends, of `time.monotonic`.

    Raises:
        TypeError: No number.
        ValueError: A negative one.
    """
    if timeout is None:
        return None
    seconds = seconds_of(name, timeout)
    if not seconds >= 0:
        raise ValueError(f"{name}: expected seconds >= 0 or None, got {timeout}")
    return None if seconds > threading.TIMEOUT_MAX else time.monotonic() + seconds


def seconds_of(name: str, value: float) -> float:
    """Return a number of seconds as a float.

    Raises:
        TypeError: No number.
        ValueError: More than a float holds.
    """
    try:
        if isinstance(value, (bool, str, bytes)):
            raise TypeError
        return float(value)
    except TypeError:
        got = type(value).__name__
        raise TypeError(f"{name}: expected seconds or None, got {got}") from None
    except OverflowError:
        raise ValueError(f"{name}: expected seconds or None, got {shown(value)}") from None


def seconds_to(deadline: float) -> float:
    """Return the seconds until a deadline, 0 when it has passed."""
    return max(0.0, deadline - time.monotonic())
