"""Figures of replay servers and memories, by their names."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Mapping
from functools import reduce
from typing import Any

from cogrs.validation import check_text

_logger = logging.getLogger("cogrs.web")

_FIGURES = (
    ("caches", ("caches",), "caches"),
    ("samples unused", ("samples_unused",), "samples_unused"),
    ("samples received", ("received", "samples"), "samples_received"),
    ("samples given", ("samples_given",), "samples_given"),
    ("samples discarded", ("samples_discarded",), "samples_discarded"),
    ("messages refused", ("total_refused",), "messages_refused"),
    ("limiter inserts", ("limiter", "inserts"), "limiter_inserts"),
    ("limiter samples", ("limiter", "samples"), "limiter_samples"),
    ("samples per insert", ("limiter", "samples_per_insert"), "limiter_samples_per_insert"),
    ("sample wait, s", ("limiter", "sample_wait_seconds"), "limiter_sample_wait_seconds"),
    ("insert wait, s", ("limiter", "insert_wait_seconds"), "limiter_insert_wait_seconds"),
)
"""Names of figures; where they are in what `stats` of a server or memory returns, which has some of
them; and their names among metrics."""


class ReplayFigures:
    """Takes the statistics of named servers and memories."""

    def __init__(self, replays: Mapping[str, Any]) -> None:
        """Name them.

        Raises:
            TypeError: A name is not a string, or there is no method `stats`.
        """
        for name, replay in replays.items():
            check_text("replays", name)
            if not callable(getattr(replay, "stats", None)):
                kind = type(replay).__name__
                raise TypeError(f"replays: {name!r}: expected a method stats, got {kind}")
        self._replays = dict(replays)

    async def take(self) -> list[dict[str, Any]]:
        """Return name, figures, and what is wrong, of each."""
        return [await self._take(name, replay) for name, replay in self._replays.items()]

    async def _take(self, name: str, replay: Any) -> dict[str, Any]:
        try:
            stats = await asyncio.to_thread(replay.stats)
        except Exception as error:  # whatever the object is, the others are shown
            _logger.debug("replay server %r has no statistics", name, exc_info=True)
            return {"name": name, "figures": {}, "fault": str(error)[:200] or type(error).__name__}
        figures = {}
        for label, path, metric in _FIGURES:
            if isinstance(stats, Mapping):
                value = stats.get(metric)
            else:
                value = reduce(lambda of, part: getattr(of, part, None), path, stats)
            if value is not None and math.isfinite(value):
                figures[label] = value
        return {"name": name, "figures": figures, "fault": ""}
