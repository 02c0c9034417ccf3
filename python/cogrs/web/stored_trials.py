"""The trials of a store, as the console lists and opens them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from cogrs.store import Store, TrialFilter
from cogrs.validation import check_kind
from cogrs.web.recording import Recording

if TYPE_CHECKING:
    from collections.abc import Callable

    from cogrs.store import TrialRecord

_PAGE = 50
"""Trials of a list."""


class StoredTrials:
    """Lists the trials of a store, and opens them. Reading happens on threads."""

    def __init__(self, store: Store) -> None:
        """Take a store, which the caller closes.

        Raises:
            TypeError: It is not a store.
        """
        check_kind("store", store, Store, "a Store, as open_store returns it")
        self._store = store
        self.errors: tuple[type[Exception], ...] = (
            ImportError,
            OSError,
            ValueError,
            *store.errors,
        )
        """What the methods raise if the store, or a trial of it, cannot be read."""

    async def newest(self, until: float | None, *, people: bool) -> list[dict[str, Any]]:
        """Return the newest trials, the newest first.

        Args:
            until: Only those that started before, in seconds since the Unix epoch.
            people: Only those that a person rewarded.
        """
        wanted = TrialFilter(until=until, people=people or None, limit=_PAGE)
        records = await asyncio.to_thread(lambda: [*self._store.trials(wanted)])
        return [_row_of(record) for record in reversed(records)]

    async def open(self, trial_id: str, stopped: Callable[[], bool]) -> Recording:
        """Read a trial; see `Recording`."""
        return await asyncio.to_thread(self._open, trial_id, stopped)

    def _open(self, trial_id: str, stopped: Callable[[], bool]) -> Recording:
        trial, samples = self._store.read(trial_id)
        return Recording(trial, samples, stopped)


def _row_of(record: TrialRecord) -> dict[str, Any]:
    return {
        "id": record.trial_id,
        "started": record.started.timestamp(),
        "ticks": record.ticks,
        "returns": dict(list(record.returns.items())[:_MOST_RETURNS]),
        "people": record.people,
        "partial": record.partial,
        "reason": record.end_reason,
    }


_MOST_RETURNS = 8
"""Actors whose returns a list has."""
