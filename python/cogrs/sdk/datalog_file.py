"""What the sinks of data logs in files have in common."""

from __future__ import annotations

import importlib
import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cogrs.sdk.datalog import DatalogSink
from cogrs.sdk.datalog_row import check_size, rows_of, size_of

if TYPE_CHECKING:
    import os

    from cogrs.sdk.datalog import LoggedTrial, Sample
    from cogrs.sdk.datalog_row import Row

_SAFE = re.compile(r"[\w-][\w.-]*")


class FileSink(DatalogSink):
    """Writes a trial to `<trial id><suffix>`, a row for each actor at each tick."""

    suffix = ""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Write to a folder, which is made if it is not there."""
        self._folder = Path(folder)
        self._samples = 0

    def start(self, trial: LoggedTrial) -> None:
        """Create the file.

        Raises:
            OSError: It cannot be created, or exists already.
            ValueError: The trial's id cannot be the name of a file.
        """
        if not _SAFE.fullmatch(trial.id):
            raise ValueError(f"trial id: expected letters, digits, '-', '_', '.'; got {trial.id!r}")
        self._folder.mkdir(parents=True, exist_ok=True)
        self._trial = trial
        self._open(self._folder / f"{trial.id}{self.suffix}", trial)

    def sample(self, sample: Sample) -> None:
        """Write a sample's rows, or keep them until more have come together.

        Raises:
            OSError: They cannot be written.
            ValueError: The sample is larger than `read_log` takes.
        """
        rows = list(rows_of(self._trial, self._samples, sample))
        size = sum(map(size_of, rows))
        check_size(size)
        self._samples += 1
        self._add(rows, size)

    def end(self) -> None:
        """Close the file."""
        self.lost()

    def _open(self, path: Path, trial: LoggedTrial) -> None:
        raise NotImplementedError

    def _add(self, rows: list[Row], size: int) -> None:
        raise NotImplementedError


_MOVED = ("JsonLinesSink", "ParquetSink", "read_log")


def __getattr__(name: str) -> Any:
    if name not in _MOVED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(f"{__name__}.{name} is now cogrs.sdk.{name}", DeprecationWarning, stacklevel=2)
    return getattr(importlib.import_module("cogrs.sdk"), name)
