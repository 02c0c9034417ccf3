"""A store of trials: listing, reading, adding and removing them."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from cogrs.store.location import Location, locate
from cogrs.store.record import TrialFilter, TrialRecord
from cogrs.store.recovery import recover_all
from cogrs.store.session import REMOVED, Session
from cogrs.store.store_index import open_index
from cogrs.store.trial_file import check_unchanged, parquet
from cogrs.validation import check_number, check_text

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Sequence
    from types import TracebackType

    from google.protobuf.message import Message

    from cogrs.sdk import LoggedTrial, Sample
    from cogrs.store.verification import Finding


_LOOK = 0.05
"""Seconds between two looks for a trial that is awaited."""


def is_person(trial: LoggedTrial, sender: str) -> bool:
    """Return whether the sender of a reward's source is a person.

    The environment is not, nor an actor with an agent's endpoint. A client actor is, and so is a
    sender that takes no part in the trial, such as one of `Store.add_reward`.
    """
    from cogrs.store.summary import people_of

    return people_of(trial.params).get(sender, True)


def open_store(
    where: str | os.PathLike[str],
    *,
    files: str | os.PathLike[str] | None = None,
    create: bool = False,
) -> Store:
    """Open a store of trials.

    Trials of orchestrators that were killed are taken in, as partial ones, if the store can be
    written.

    Args:
        where: Its folder, as a path or `file:FOLDER`; or `postgresql://...`, where its index is.
        files: The folder of its files, if its index is in PostgreSQL.
        create: Create it if it is missing.

    Returns:
        The store. Close it, or use it as a context manager.

    Raises:
        ImportError: The index is in PostgreSQL, and psycopg is not installed.
        OSError: It is missing, or cannot be read; with `create`, it cannot be written.
        TypeError: An argument has the wrong type.
        ValueError: A URL is wrong, or the index is of a newer version.
    """
    store = Store(locate(where, files, "where"), create=create)
    try:
        store.recover()
    except BaseException:
        store.close()
        raise
    return store


class Store:
    """An open store; see `open_store`. Any thread may call its methods."""

    def __init__(self, location: Location, *, create: bool = False) -> None:
        """Open the index."""
        self.folder = location.folder
        """The folder of its files."""
        self._index = open_index(location, create=create)
        self._session: Session | None = None
        self._closed = threading.Event()

    def __enter__(self) -> Store:
        """Return the store."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Close the index."""
        self._closed.set()
        session, self._session = self._session, None
        if session is not None:
            session.end()
        self._index.close()

    def recover(self) -> list[TrialRecord]:
        """Take in what orchestrators left that were killed; return these trials.

        What cannot be written is left as it is.
        """
        return recover_all(self.folder, self._index)

    # -- reading --------------------------------------------------------------------------------

    def trials(self, wanted: TrialFilter | None = None) -> Iterator[TrialRecord]:
        """Yield the trials that fit a filter, by the time of their start; None takes all.

        Trials that are under way are not there yet.
        """
        return self._index.select(TrialFilter() if wanted is None else wanted)

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """Errors of the index's database, which its methods raise too."""
        return self._index.errors

    def count(self) -> int:
        """Return how many trials there are."""
        return self._index.count()

    def trial(self, trial_id: str) -> TrialRecord:
        """Return a trial.

        Raises:
            TypeError: `trial_id` is not a string.
            ValueError: No trial has this id; the text names the nearest one.
        """
        check_text("trial_id", trial_id)
        return self._index.find(trial_id)

    def path(self, record: TrialRecord) -> Path:
        """Return the path of a trial's Parquet file, which `cogrs.sdk.read_log` reads too."""
        return self.folder / record.file

    def read(
        self, trial_id: str, messages: Sequence[type[Message]] = ()
    ) -> tuple[LoggedTrial, Iterator[Sample]]:
        """Read a trial, as `cogrs.sdk.read_log` does.

        Args:
            trial_id: Its id.
            messages: Classes of the user's messages; messages of other classes come back as bytes.

        Returns:
            The trial, and its samples in order, read one by one as they are asked for. A reward
            has the tick that it is about; one that came after the end is in the last sample.

        Raises:
            ImportError: pyarrow is not installed.
            OSError: The file cannot be read.
            ValueError: No trial has this id, or its file was changed since it was stored.
        """
        from cogrs.sdk import read_log

        parquet()
        record = self.trial(trial_id)
        check_unchanged(self.path(record), record)
        return read_log(self.path(record), messages)

    # -- writing --------------------------------------------------------------------------------

    def add(self, path: str | os.PathLike[str]) -> TrialRecord:
        """Take in a file of a data log, which may be of another store.

        Args:
            path: A file of `ParquetSink` or `JsonLinesSink`.

        Returns:
            The trial. It is partial if its samples have no reason why it ended.

        Raises:
            ImportError: pyarrow is not installed.
            OSError: The file cannot be read, or the store cannot be written.
            ValueError: It is not such a file, or the store has a trial of this id.
        """
        from cogrs.store.log_import import import_log

        session = self._writing()
        record = import_log(Path(path), session, self.folder, self._index)
        return record

    def add_reward(
        self,
        trial_id: str,
        actor: str,
        tick: int,
        value: float,
        *,
        sender: str = "",
        confidence: float = 1.0,
        timeout: float = 0.0,
    ) -> TrialRecord:
        """Add a reward that comes after a trial has ended.

        It is in the trial's last sample, with the tick that it is about.

        Args:
            trial_id: The trial.
            actor: Name of the actor that is rewarded.
            tick: Tick of the reward, as in `cogrs.sdk.Reward`: that of the observations that the
                rewarded action led to.
            value: The reward.
            sender: Name of the person who gives it.
            confidence: Weight of the value, > 0.
            timeout: Seconds to wait for a trial that has just ended, and is not in the store yet;
                `close` ends the wait.

        Returns:
            The trial as it is now.

        Raises:
            OSError: The store cannot be written.
            TypeError: An argument has the wrong type.
            ValueError: There is no such trial, actor or tick; a number is not finite; or the
                trial's file was changed since it was stored.
        """
        from cogrs.store.late_reward import LateReward, add_late_reward

        check_text("trial_id", trial_id)
        check_number("timeout", timeout)
        self._await_trial(trial_id, timeout)
        reward = LateReward(actor, tick, value, sender, confidence)
        return add_late_reward(self.folder, self._index, trial_id, reward)

    def _await_trial(self, trial_id: str, timeout: float) -> None:
        """Wait until there is a trial, at most so many seconds."""
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            with suppress(ValueError):
                self._index.find(trial_id)
                return
            if self._closed.wait(_LOOK):
                return

    def remove(self, trial_ids: Iterable[str]) -> list[TrialRecord]:
        """Remove trials, with their files.

        Returns:
            The trials that were removed.

        Raises:
            OSError: The store cannot be written.
            ValueError: No trial has one of the ids; nothing was removed.
        """
        if isinstance(trial_ids, str):
            raise TypeError("trial_ids: expected a list of ids, got a string")
        wanted = list(dict.fromkeys(trial_ids))
        moved: dict[Path, Path] = {}
        try:
            # Nobody else's writing meanwhile: a late reward would give a trial another file.
            with self._index.transaction():
                records = [self.trial(each) for each in wanted]
                # If this is interrupted, `verify` finds which removals were begun.
                for path in map(self.path, records):
                    aside = path.with_name(path.name + REMOVED)
                    with suppress(FileNotFoundError):
                        path.rename(aside)
                        moved[aside] = path
                self._index.remove(wanted)
        except BaseException:
            for aside, path in moved.items():
                with suppress(OSError):
                    aside.rename(path)
            raise
        for aside in moved:
            aside.unlink(missing_ok=True)
        return records

    def verify(self, *, mend: bool = False) -> Iterator[Finding]:
        """Compare all files with the index, both ways; yield what is found.

        Args:
            mend: Remove rows without a file, add files without a row, take over what a changed file
                says if it can be read, and move files that cannot be read to the folder `damaged`.
        """
        from cogrs.store.verification import verify

        return verify(self.folder, self._index, mend=mend)

    def _writing(self) -> Session:
        if self._session is None:
            self._session = Session.begin(self.folder)
        return self._session
