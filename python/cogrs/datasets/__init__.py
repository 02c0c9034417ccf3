"""Data sets of other libraries, in and out: Minari's, and flat arrays as of D4RL.

Only calls that read or write Minari's data sets need Minari: `pip install 'cogrs[minari]'`.

| question | file |
|---|---|
| how an episode of a data set gets into a memory | `memory_import.py` |
| which steps of flat arrays make an episode | `flat_arrays.py` |
| how Minari's data sets are read | `minari_import.py`, `minari_reader.py` |
| what `to_minari` does, and which episodes go into which data set | `minari_export.py` |
| which names and spaces Minari can keep, how files are written aside | `minari_files.py` |
| how arrays get into them | `hdf5_writer.py` |
| what an episode of a data set is made of | `dataset_episode.py` |
| how a memory or a trial becomes episodes | `memory_episodes.py`, `trial_{episodes,columns}.py` |
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cogrs.datasets.flat_arrays import from_arrays
    from cogrs.datasets.memory_import import Imported
    from cogrs.datasets.minari_export import Exported, to_minari
    from cogrs.datasets.minari_import import from_minari

_HOMES = {
    "Exported": "cogrs.datasets.minari_export",
    "Imported": "cogrs.datasets.memory_import",
    "from_arrays": "cogrs.datasets.flat_arrays",
    "from_minari": "cogrs.datasets.minari_import",
    "to_minari": "cogrs.datasets.minari_export",
}

__all__ = ["Exported", "Imported", "from_arrays", "from_minari", "to_minari"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'cogrs.datasets' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
