"""A store of trials: one Parquet file per trial, and an index of them in SQLite or PostgreSQL.

| question | file |
|---|---|
| what is known of a trial without reading its file | `record.py` |
| where a store is | `location.py` |
| which trials fit a filter; the tables | `index.py`, `sqlite_index.py`, `postgres_index.py` |
| reading, adding and removing trials | `store.py`, `log_import.py`, `late_reward.py` |
| what an orchestrator does with samples | `writer.py`, `row_committer.py` |
| samples as columns of a file, and as a row | `trial_columns.py`, `trial_file.py`, `summary.py` |
| what survives `kill -9`, and how it is taken in | `session.py`, `journal.py`, `recovery.py` |
| files against the index | `verification.py` |

The modules that write import nothing of `cogrs.sdk`: an orchestrator loads them.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cogrs.store.record import TrialFilter as TrialFilter
    from cogrs.store.record import TrialRecord as TrialRecord
    from cogrs.store.store import Store as Store
    from cogrs.store.store import is_person as is_person
    from cogrs.store.store import open_store as open_store
    from cogrs.store.verification import Finding as Finding

_HOMES = {
    "Finding": "verification",
    "Store": "store",
    "TrialFilter": "record",
    "TrialRecord": "record",
    "is_person": "store",
    "open_store": "store",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'cogrs.store' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"cogrs.store.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
