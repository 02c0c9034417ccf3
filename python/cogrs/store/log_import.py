"""Files of data logs, taken into a store: by way of samples, as every program may write them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cogrs.log_schema import log_schema, metadata_of
from cogrs.sdk import read_log
from cogrs.sdk.datalog_row import Packed, rows_of, size_of
from cogrs.store.session import check_file_name
from cogrs.store.summary import TrialSummary
from cogrs.store.trial_file import copy_file, write_tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from cogrs.sdk import LoggedTrial, Sample
    from cogrs.sdk.datalog_row import Row
    from cogrs.store.index import TrialIndex
    from cogrs.store.record import TrialRecord
    from cogrs.store.session import Session

_ROWS, _BYTES = 4_096, 64 << 20
"""Rows, or bytes, that are written together."""


def import_log(path: Path, session: Session, folder: Path, index: TrialIndex) -> TrialRecord:
    """Take in a file; see `Store.add`."""
    trial, samples = read_log(path)
    try:
        check_file_name(trial.id)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if index.known([trial.id]):
        raise ValueError(f"{path}: trial {trial.id} is in the store already")
    summary = TrialSummary(trial.id, trial.params)
    place = session.place(trial.id)
    if path.suffix == ".parquet":
        for sample in samples:
            count_sample(summary, sample)
        size, checksum = copy_file(path, place)
    else:
        metadata = metadata_of(trial.id, trial.params.SerializeToString(), trial.spaces_json)
        size, checksum = write_tables(place, metadata, tables_of(trial, samples, summary))
    modified = path.stat().st_mtime
    record = record_of(summary, str(place.relative_to(folder)), size, checksum, modified)
    if index.add([record]):
        place.unlink(missing_ok=True)
        raise ValueError(f"{path}: trial {trial.id} is in the store already")
    return record


def record_of(
    summary: TrialSummary, file: str, size: int, checksum: int, otherwise: float
) -> TrialRecord:
    """Return the row of a file whose times are known by its observations, or `otherwise`."""
    first, last = summary.first_timestamp, summary.last_timestamp
    whole = bool(summary.end_reason)
    return summary.record(
        file,
        size,
        checksum,
        started=first / 1e9 if first else otherwise,
        ended=(last / 1e9 if last else otherwise) if whole else None,
        partial=not whole,
    )


def count_sample(summary: TrialSummary, sample: Sample) -> None:
    """Add a sample to a summary."""
    stamps = [each.timestamp for each in sample.observations.values()]
    summary.add_sample(sample.tick, max(stamps, default=0) or 0, sample.user_id, sample.end_reason)
    for actor, rewards in sample.rewards.items():
        for reward in rewards:
            summary.add_reward(actor, reward.value, [each.sender_name for each in reward.sources])


def tables_of(
    trial: LoggedTrial, samples: Iterable[Sample], summary: TrialSummary
) -> Iterator[Any]:
    """Yield the tables of a trial's samples, which are added to a summary."""
    rows: list[Row] = []
    size = 0
    for number, sample in enumerate(samples):
        count_sample(summary, sample)
        for row in rows_of(trial, number, sample):
            rows.append(row)
            size += size_of(row)
        if len(rows) >= _ROWS or size >= _BYTES:
            yield _table(rows)
            rows, size = [], 0
    yield _table(rows)


def _table(rows: list[Row]) -> Any:
    from pyarrow import Table

    kept = [
        {name: each._asdict() if isinstance(each, Packed) else each for name, each in row.items()}
        for row in rows
    ]
    return Table.from_pylist(kept, log_schema())
