"""Log formats of `cogrs orchestrator`."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

from cogrs.escape import escaped


class JsonFormatter(logging.Formatter):
    """Formats a record as a JSON object: time, level, logger, message.

    Records about a trial have `trial_id`, records with a traceback `exception`.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return a line."""
        told = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        trial_id = getattr(record, "trial_id", None)
        if trial_id is not None:
            told["trial_id"] = trial_id
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        return json.dumps(told)


class PlainFormatter(logging.Formatter):
    """Formats a record as an escaped line, so that peers cannot forge others, and its traceback."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """Return the line."""
        return escaped(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802
        """Return a traceback on indented lines."""
        return escaped(super().formatException(ei), keep="\n").replace("\n", "\n  ")

    def formatStack(self, stack_info: str) -> str:  # noqa: N802
        """Return a stack on indented lines."""
        return escaped(super().formatStack(stack_info), keep="\n").replace("\n", "\n  ")


def log_to_stderr(style: str, level: str) -> None:
    """Write the log of the process to standard error, `plain` or as `json`."""
    handler = logging.StreamHandler()
    plain = PlainFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(JsonFormatter() if style == "json" else plain)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
