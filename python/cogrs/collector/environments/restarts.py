"""How often environments of a vector may begin again after a failure."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field

from cogrs.collector.environments.env_api import error_line

_logger = logging.getLogger("cogrs.collector")
_LONGEST = 60.0
"""Seconds that an environment rests at most."""


@dataclass
class Restarts:
    """The policy for environments that fail; counts by environment.

    Attributes:
        most: Restarts of each environment; 0 where a failure is an error at once.
        backoff: Seconds before the first; doubled for each next one, up to a minute.
    """

    most: int = 0
    backoff: float = 0.1
    counts: dict[int, int] = field(default_factory=dict)

    def take(self, number: int, error: BaseException) -> bool:
        """Count a failure and rest; return False where the limit was reached before it."""
        count = self.counts.get(number, 0)
        if isinstance(error, KeyboardInterrupt) or count >= self.most:
            return False
        self.counts[number] = count + 1
        reason = error_line(error)
        _logger.warning("environment %d restarts (%d): %s", number, count + 1, reason)
        time.sleep(min(self.backoff * 2.0 ** min(count, 30), _LONGEST))
        return True

    def note(self, number: int) -> str:
        """Return the end of an error text: how often this environment was restarted."""
        count = self.counts.get(number, 0)
        return f" (after {count} restart{'s' if count > 1 else ''})" if count else ""
