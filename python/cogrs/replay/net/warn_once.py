"""Warnings about peers: one for each, so that none of them can fill the log."""

from __future__ import annotations

import logging
import threading

_logger = logging.getLogger("cogrs.replay")

_MOST = 1000
"""Subjects that are remembered; no others are warned of then."""


class WarnOnce:
    """Logs a warning once for each subject. Any thread may call it."""

    def __init__(self) -> None:
        """Create it without subjects."""
        self._lock = threading.Lock()
        self._subjects: set[object] = set()

    def __call__(self, subject: object, text: str, *args: object) -> None:
        """Log a text to 'cogrs.replay', unless that was done for this subject."""
        with self._lock:
            if subject in self._subjects or len(self._subjects) == _MOST:
                return
            self._subjects.add(subject)
        _logger.warning(text, *args)
