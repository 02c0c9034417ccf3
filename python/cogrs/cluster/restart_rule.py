"""When a part that fails is started again, and when it is given up."""

from __future__ import annotations

from collections import deque
from typing import Final

MOST_FAILURES: Final = 3
"""Failures within the window after which a part is given up."""
WINDOW: Final = 300.0
"""Seconds."""
_FIRST_DELAY, _LONGEST_DELAY = 0.2, 10.0
"""Seconds before the first restart, doubled with each further failure in the window."""


class RestartRule:
    """The failures of one part."""

    def __init__(self) -> None:
        """Count no failure yet."""
        self._failures: deque[float] = deque(maxlen=MOST_FAILURES)

    def delay(self, now: float) -> float | None:
        """Count a failure; return the seconds until the restart, or None to give the part up.

        `now` is a time of the monotonic clock, in seconds.
        """
        self._failures.append(now)
        recent = sum(now - each < WINDOW for each in self._failures)
        if recent >= MOST_FAILURES:
            return None
        return min(_FIRST_DELAY * 2.0 ** (recent - 1), _LONGEST_DELAY)
