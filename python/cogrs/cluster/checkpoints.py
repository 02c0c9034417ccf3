"""Numbered checkpoints in a folder: the newest that can be read counts, and two are kept."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    T = TypeVar("T")

_logger = logging.getLogger("cogrs.cluster")

_KEPT: Final = 2
_SUFFIX: Final = ".checkpoint"


class Checkpoints:
    """The checkpoints of one part."""

    def __init__(self, folder: Path) -> None:
        """Keep them in a folder, which is created."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder

    def newest(self, read: Callable[[Path], T]) -> T | None:
        """Return what `read` returns for the newest checkpoint that it can read; None without.

        One that it refuses by a ValueError or an OSError is left out, and logged.
        """
        for path in reversed(self._paths()):
            try:
                return read(path)
            except (OSError, ValueError) as error:
                _logger.error("a checkpoint is left out: %s", error)
        return None

    def write(self, write: Callable[[Path], object]) -> None:
        """Write the next one by `write`, and delete old ones; an OSError if it cannot."""
        paths = self._paths()
        number = int(paths[-1].stem) + 1 if paths else 0
        write(self._folder / f"{number:08}{_SUFFIX}")
        for path in paths[: 1 - _KEPT]:
            path.unlink(missing_ok=True)

    def _paths(self) -> list[Path]:
        return sorted(path for path in self._folder.glob(f"*{_SUFFIX}") if path.stem.isdecimal())
