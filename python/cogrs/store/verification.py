"""Files against the index of a store, both ways."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cogrs.store.record import TrialFilter
from cogrs.store.recovery import record_of_file
from cogrs.store.session import PART, REMOVED, SUFFIX, files_of, is_unfinished, sessions
from cogrs.store.trial_file import check_unchanged

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cogrs.store.index import TrialIndex
    from cogrs.store.record import TrialRecord

ASIDE = "damaged"
"""The folder of a store to which files are moved that cannot be read."""

_YOUNG = 60.0
"""Seconds in which another process may be about to write a file's row."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that `Store.verify` found.

    Attributes:
        kind: "missing" (a row without its file), "changed" (a file that is not the one that was
            stored), "unlisted" (a file without a row), "leftover" (a file that an interrupted call
            left, which counts as no damage) or "partial" (a partial trial, likewise).
        trial_id: The trial; "" if it is not known.
        file: The file, from the store's folder.
        text: What was expected, and what is there.
        mended: What was done about it; "" for nothing.
    """

    kind: str
    trial_id: str
    file: str
    text: str
    mended: str = ""

    @property
    def is_damage(self) -> bool:
        """Whether something is wrong still."""
        return self.kind not in ("leftover", "partial") and not self.mended


def verify(folder: Path, index: TrialIndex, *, mend: bool) -> Iterator[Finding]:
    """Yield what is found; see `Store.verify`."""
    listed: set[str] = set()
    known: set[str] = set()
    # Files first: a row that is written meanwhile then has its file.
    files = {str(path.relative_to(folder)): path for path in _files(folder)}
    for record in index.select(TrialFilter()):
        listed.add(record.file)
        known.add(record.trial_id)
        finding = _check(folder, record)
        if finding is not None and not index.has(record):
            # Removed, or rewarded late, after its row was read: the row is newer or gone.
            continue
        if finding is not None:
            yield _mend(folder, index, finding, record) if mend else finding
        elif record.partial:
            text = f"partial: {record.ticks} ticks arrived"
            yield Finding("partial", record.trial_id, record.file, text)
    for file, path in files.items():
        if file not in listed:
            finding = _unlisted(path, file, known)
            if finding is not None:
                yield _take_in(folder, index, finding, path) if mend else finding


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files of writers that have ended; others may be about to write the rows."""
    for session in sessions(folder):
        files = list(files_of(session))
        # Looked at last: a writer that began meanwhile has its lock before its first file.
        if not is_unfinished(session):
            yield from files


def _check(folder: Path, record: TrialRecord) -> Finding | None:
    try:
        check_unchanged(folder / record.file, record)
    except FileNotFoundError:
        if (folder / (record.file + REMOVED)).exists():
            text = "its removal was interrupted"
            return Finding("leftover", record.trial_id, record.file, text)
        text = "the file is missing"
        return Finding("missing", record.trial_id, record.file, text)
    except (OSError, ValueError) as error:
        return Finding("changed", record.trial_id, record.file, str(error))
    return None


def _mend(folder: Path, index: TrialIndex, found: Finding, record: TrialRecord) -> Finding:
    if found.kind in ("leftover", "missing"):
        index.remove([record.trial_id])
        return replace(found, mended="removed from the index")
    path = folder / record.file
    try:
        there = record_of_file(folder, path)
        if there.trial_id != record.trial_id:
            raise ValueError(f"it is of trial {there.trial_id}")
    except (OSError, ValueError) as error:
        _set_aside(folder, path)
        index.remove([record.trial_id])
        text = f"{found.text}; {error}"
        return replace(found, text=text, mended=f"moved to {ASIDE}, removed from the index")
    index.replace(there)
    return replace(found, mended="it can be read: the index has what it says now")


def _unlisted(path: Path, file: str, known: set[str]) -> Finding | None:
    try:
        young = time.time() - path.stat().st_mtime < _YOUNG
    except FileNotFoundError:
        return None
    trial_id = _trial_of(path.name)
    if path.name.endswith((PART, REMOVED)) or trial_id in known:
        # Late rewards make a trial's file anew; the old one may have stayed, or the new one.
        text = "left by a call that was interrupted"
        return None if young else Finding("leftover", trial_id, file, text)
    return Finding("unlisted", trial_id, file, "the index does not have it")


def _trial_of(name: str) -> str:
    """Return the trial of a file's name; ids may have ".parquet" in them, but no "~"."""
    return name.removesuffix(PART).removesuffix(REMOVED).removesuffix(SUFFIX).partition("~")[0]


def _take_in(folder: Path, index: TrialIndex, found: Finding, path: Path) -> Finding:
    if found.kind == "leftover":
        path.unlink(missing_ok=True)
        return replace(found, mended="removed")
    try:
        index.add([record_of_file(folder, path)])
    except (OSError, ValueError) as error:
        _set_aside(folder, path)
        return replace(found, text=f"{found.text}; {error}", mended=f"moved to {ASIDE}")
    return replace(found, mended="added to the index")


def _set_aside(folder: Path, path: Path) -> None:
    (folder / ASIDE).mkdir(exist_ok=True)
    with suppress(FileNotFoundError):
        os.replace(path, folder / ASIDE / path.name)
