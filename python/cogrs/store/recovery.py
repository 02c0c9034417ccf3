"""Takes in what writers left that were killed: files without a row, and journals."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from cogrs.store.session import PART, SUFFIX, Session, files_of, unfinished

if TYPE_CHECKING:
    from pathlib import Path

    from cogrs.store.index import TrialIndex
    from cogrs.store.record import TrialRecord

_log = logging.getLogger("cogrs.store")


def recover_all(store: Path, index: TrialIndex) -> list[TrialRecord]:
    """Take in what killed writers left; return the trials. What cannot be written stays there."""
    outages: tuple[type[Exception], ...] = (ImportError, OSError, *index.errors)
    found = []
    for folder in unfinished(store):
        try:
            found += recover(store, folder, index)
        except outages as error:
            _log.warning("%s: what its writer left is not taken in: %s", folder, error)
    return found


def recover(store: Path, folder: Path, index: TrialIndex) -> list[TrialRecord]:
    """Take in the session of a writer that was killed, and end it; return the trials.

    Raises:
        OSError: The store cannot be written; what is left is taken in another time.
    """
    session = Session.take_over(folder)
    if session is None:
        return []
    done = False
    try:
        found = [*_files(store, session, index), *_journals(store, session, index)]
        done = True
    finally:
        session.end(keep=not done)
    if found:
        _log.warning(
            "%s: its writer was killed: took in %d trials, %d of them partial",
            *(folder, len(found), sum(each.partial for each in found)),
        )
    return found


def _files(store: Path, session: Session, index: TrialIndex) -> list[TrialRecord]:
    """Take in complete files whose rows were not written, and remove incomplete ones."""
    first = session.told_committed()
    files = {}
    last = first
    for path in files_of(session.folder, first):
        last = int(path.parent.name)
        if path.name.endswith(PART):
            path.unlink(missing_ok=True)
        elif path.name.endswith(SUFFIX) and "~" not in path.name:
            files[path.name.removesuffix(SUFFIX)] = path
    session.continue_after(last + 1)
    known = index.known(files)
    found = []
    for name, path in files.items():
        if name not in known:
            try:
                found.append(record_of_file(store, path))
            except ValueError as error:
                _log.warning("%s: not taken in: %s", path, error)
    index.add(found)
    return found


def record_of_file(store: Path, path: Path) -> TrialRecord:
    """Return the row of a file of a trial.

    Raises:
        OSError, ValueError: It cannot be read, or is not a file of a trial.
    """
    from cogrs.sdk import read_log
    from cogrs.store.log_import import count_sample, record_of
    from cogrs.store.summary import TrialSummary
    from cogrs.store.trial_file import measure

    trial, samples = read_log(path)
    summary = TrialSummary(trial.id, trial.params)
    for sample in samples:
        count_sample(summary, sample)
    size, checksum = measure(path)
    file = str(path.relative_to(store))
    return record_of(summary, file, size, checksum, path.stat().st_mtime)


def _journals(store: Path, session: Session, index: TrialIndex) -> list[TrialRecord]:
    """Write the trials of journals to files; those that had ended are whole."""
    from cogrs.store.journal import read_journal  # most commands find no journals

    found = []
    for path in session.journals():
        trial = read_journal(path)
        if trial is not None and not index.known([trial.trial_id]):
            found.append(trial.store(session, store))
            index.add(found[-1:])
        path.unlink(missing_ok=True)
    return found
