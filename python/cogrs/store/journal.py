"""Journals: what arrived of a trial that has not ended, for the case that the process is killed.

A journal is appended to as often as `FLUSH` says, without waiting for the disk: what was written
survives the process. It is a sequence of frames: length, CRC-32, bytes. The first frame is JSON,
the others are `LogExporterSampleRequest` messages. A frame that was cut short ends it.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from cogrs._core import frames_of_samples, samples_of_frames
from cogrs.api.common_pb2 import TrialParams
from cogrs.api.datalog_pb2 import LogExporterSampleRequest
from cogrs.log_schema import metadata_of
from cogrs.store.trial_columns import TrialColumns
from cogrs.store.trial_file import parquet, write_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import IO

    from cogrs.store.record import TrialRecord
    from cogrs.store.session import Session

FLUSH = 0.4
"""Seconds between two writes to the journals."""

_FRAME = struct.Struct("<II")
_ROWS, _BYTES = 4_096, 64 << 20
"""Rows, or bytes, that are written to a file together."""
_CHUNK = 1 << 20
"""Bytes of a journal that are read together, unless a frame is larger."""


class OpenTrial:
    """A trial that is being logged: the samples that came since its journal was written."""

    def __init__(self, trial_id: str, params: TrialParams, spaces: str, started: float) -> None:
        """Create one with its parameters; `started` is in seconds since the Unix epoch."""
        self.trial_id = trial_id
        self.params = params
        self.spaces = spaces
        self.started = started
        self.ended: float | None = None
        """When it ended, likewise; None if it has not, or was cut off."""
        self.whole = True
        """Whether all of its samples came."""
        self.samples: list[bytes] = []
        """Serialized samples that are not in the journal."""
        self.journaled = 0
        """Samples that are."""
        self._journal: Path | None = None

    def flush(self, session: Session) -> None:
        """Write the samples that came to the journal.

        Raises:
            OSError: They cannot be written; they stay in memory.
        """
        if not self.samples:
            return
        path = self._journal or session.new_journal()
        head = b"" if self._journal else self._head()
        _append(path, head + frames_of_samples(self.samples))
        self._journal = path
        self.journaled += len(self.samples)
        self.samples.clear()

    def store(self, session: Session, folder: Path) -> TrialRecord:
        """Write the trial's file, and return its row.

        Raises:
            OSError: It cannot be written; the journal stays.
            ValueError: Its id cannot be the name of a file.
        """
        columns = TrialColumns(self.trial_id, self.params, _ROWS, _BYTES)
        path = session.place(self.trial_id)
        size, checksum = write_file(path, self._pieces(columns))
        summary = columns.summary()
        whole = self.whole and bool(summary.end_reason)
        last = summary.last_timestamp
        ended = self.ended or (last / 1e9 if last and whole else None)
        return summary.record(
            str(path.relative_to(folder)),
            size,
            checksum,
            started=self.started,
            ended=ended,
            partial=not whole,
        )

    def forget(self, session: Session) -> None:
        """Give the journal back, once the trial's row is written or nothing is to be kept."""
        if self._journal is not None:
            session.free_journal(self._journal)
            self._journal = None

    def _head(self) -> bytes:
        head = {"trial_id": self.trial_id, "started": self.started}
        params = LogExporterSampleRequest(trial_params=self.params, spaces=self.spaces)
        frames = json.dumps(head).encode(), params.SerializeToString()
        return b"".join(
            part for each in frames for part in (_FRAME.pack(len(each), zlib.crc32(each)), each)
        )

    def _pieces(self, columns: TrialColumns) -> Iterator[bytes]:
        """Yield the bytes of the file, of the journal and what came after it."""
        if self._journal is not None:
            with self._journal.open("rb") as file:
                _frame(file), _frame(file)
                for samples in _samples(file):
                    yield columns.add(samples)
        yield columns.add(self.samples)
        yield columns.finish(
            metadata_of(self.trial_id, self.params.SerializeToString(), self.spaces)
        )


def warm_up() -> None:
    """Load what the first file needs, which takes long enough to hold up a journal.

    Raises:
        ImportError: pyarrow is not installed.
    """
    parquet()
    columns = TrialColumns("", TrialParams(), _ROWS, _BYTES)
    columns.finish({})
    columns.summary().record("", 0, 0, started=0.0, ended=None, partial=True)


def read_journal(path: Path) -> OpenTrial | None:
    """Return the trial of a journal that a killed process left; None if nothing of it arrived.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        try:
            head = json.loads(_frame(file))
            request = LogExporterSampleRequest.FromString(_frame(file))
            started = float(head["started"])
            trial = OpenTrial(str(head["trial_id"]), request.trial_params, request.spaces, started)
        except (DecodeError, KeyError, TypeError, ValueError):
            return None  # cut short before its first sample
        trial._journal = path
        trial.journaled = sum(map(len, _samples(file)))
    return trial if trial.journaled else None


def _append(path: Path, data: bytes) -> None:
    """Append all of the frames, or nothing: what a full disk cut short is taken back."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    file = os.open(path, flags, 0o666)
    try:
        size = os.fstat(file).st_size
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(file, view) :]
        except BaseException:
            os.ftruncate(file, size)
            raise
    finally:
        os.close(file)


def _frame(file: IO[bytes]) -> bytes:
    """Return the next frame.

    Raises:
        ValueError: It was cut short, or is damaged.
    """
    head = file.read(_FRAME.size)
    if len(head) == _FRAME.size:
        length, checksum = _FRAME.unpack(head)
        frame = file.read(length)
        if len(frame) == length and zlib.crc32(frame) == checksum:
            return frame
    raise ValueError("expected a whole frame")


def _samples(file: IO[bytes]) -> Iterator[list[bytes]]:
    """Yield the samples of a journal's frames up to the first that is damaged."""
    rest, damaged = b"", False
    while not damaged and (more := file.read(max(_CHUNK, len(rest)))):
        rest += more
        samples, size, damaged = samples_of_frames(rest)
        rest = rest[size:]
        yield samples
