"""Figures of replay servers and memories, by their names."""

from __future__ import annotations

import asyncio
import logging
import math
from typing import TYPE_CHECKING, Any

from cogrs.validation import check_text

if TYPE_CHECKING:
    from collections.abc import Mapping

_logger = logging.getLogger("cogrs.web")

_FIGURES = (
    ("caches", ("caches",)),
    ("samples unused", ("samples_unused",)),
    ("samples received", ("received", "samples")),
    ("samples given", ("samples_given",)),
    ("samples discarded", ("samples_discarded",)),
    ("messages refused", ("total_refused",)),
    ("limiter inserts", ("limiter", "inserts")),
    ("limiter samples", ("limiter", "samples")),
    ("samples per insert", ("limiter", "samples_per_insert")),
    ("sample wait, s", ("limiter", "sample_wait_seconds")),
    ("insert wait, s", ("limiter", "insert_wait_seconds")),
)
"""Names of figures, and where they are in what `stats` returns; a memory has some of them."""


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
        for label, path in _FIGURES:
            value = stats
            for part in path:
                value = getattr(value, part, None)
            if value is not None and math.isfinite(value):
                figures[label] = value
        return {"name": name, "figures": figures, "fault": ""}
