"""The counters of a run as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def summary(games: int, counts: Sequence[int]) -> str:
    """Return the counters of games, as `_core.CollectorContext.summary` has them first."""
    states, episodes, failures, restarts, dropped = counts
    text = f"{games} games, {states} states, {episodes} episodes"
    if failures:
        text += f"\n  failures of games: {failures}, {restarts} restarted, {dropped} games dropped"
    return text


def collector_summary(counts: Sequence[int]) -> str:
    """Return the counters of a collector, as they are behind those."""
    batches, rows, short, lost = counts
    text = f"{batches} batches, {rows} rows, {short} batches short"
    return f"{text}, {lost} states lost to failures" if lost else text
