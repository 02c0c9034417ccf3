"""Opens the index of a store, in the database that its location says."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from cogrs.store.sqlite_index import NAME, SqliteIndex

if TYPE_CHECKING:
    from cogrs.store.index import TrialIndex
    from cogrs.store.location import Location


def open_index(location: Location, *, create: bool = False, patience: float = 10.0) -> TrialIndex:
    """Open the index of a store; errors are those of `cogrs.store.open_store`."""
    if create:
        location.folder.mkdir(parents=True, exist_ok=True)
        if not os.access(location.folder, os.W_OK | os.X_OK):
            raise PermissionError(f"{location.folder}: expected a folder that can be written")
    if location.postgres:
        from cogrs.store.postgres_index import PostgresIndex

        return PostgresIndex(location.postgres, patience=patience)
    return SqliteIndex(location.folder / NAME, create=create, patience=patience)
