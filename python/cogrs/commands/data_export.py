"""`cogrs data export` and `cogrs data import`.

A format is a row of `FORMATS`: a function that writes trials to a target.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from cogrs.commands.data_options import (
    add_filters,
    add_verb,
    unless_stopped,
    until_stopped,
    wanted_by,
)
from cogrs.commands.parser import DONE
from cogrs.escape import escaped

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from cogrs.commands.parser import Parser
    from cogrs.stop_signal import StopSignal
    from cogrs.store import Store, TrialRecord


class Export(Protocol):
    """Writes trials to a target."""

    def __call__(
        self, store: Store, records: Iterator[TrialRecord], target: str, given: argparse.Namespace
    ) -> int:
        """Return how many trials were written; options are in `given`."""
        ...


def _to_parquet(
    store: Store, records: Iterator[TrialRecord], target: str, given: argparse.Namespace
) -> int:
    """Copy the trials' own files."""
    from cogrs.store.trial_file import check_unchanged

    del given
    folder, count = Path(target), 0
    folder.mkdir(parents=True, exist_ok=True)
    for count, record in enumerate(records, 1):  # noqa: B007
        check_unchanged(store.path(record), record)
        place = folder / f"{record.trial_id}.parquet"
        part = place.with_name(f"{place.name}.part")
        shutil.copyfile(store.path(record), part)
        part.replace(place)
    return count


def _to_jsonl(
    store: Store, records: Iterator[TrialRecord], target: str, given: argparse.Namespace
) -> int:
    """Write a file of JSON lines for each trial."""
    from cogrs.sdk import JsonLinesSink

    del given
    folder, count = Path(target), 0
    folder.mkdir(parents=True, exist_ok=True)
    for count, record in enumerate(records, 1):  # noqa: B007
        trial, samples = store.read(record.trial_id)
        sink = JsonLinesSink(folder)
        sink.start(trial)
        try:
            for sample in samples:
                sink.sample(sample)
        finally:
            sink.end()
    return count


def _to_minari(
    store: Store, records: Iterator[TrialRecord], target: str, given: argparse.Namespace
) -> int:
    """Write data sets of Minari, whose id is the target; nothing if the iterator raises."""
    from cogrs.datasets import to_minari
    from cogrs.datasets.trial_episodes import has_failed

    count = 0

    def chosen() -> Iterator[str]:
        nonlocal count
        for record in records:
            if given.failed or not (record.partial or has_failed(record.end_reason)):
                count += 1
                yield record.trial_id

    for each in to_minari(store, target, trials=chosen(), failed=True, env=given.env):
        left_out = f", {each.left_out} actions left out" if each.left_out else ""
        sizes = f"{each.episodes} episodes, {each.steps} steps{left_out}"
        print(escaped(f"{each.dataset_id}  {sizes}  {each.path}"))
    return count


FORMATS: dict[str, Export] = {"parquet": _to_parquet, "jsonl": _to_jsonl, "minari": _to_minari}


def add_export(verbs: argparse._SubParsersAction[Parser]) -> None:
    """Add `cogrs data export`."""
    export = add_verb(verbs, "export", "write trials to files that other programs read", _export)
    export.add_argument("--to", required=True, choices=tuple(FORMATS), help="format")
    export.add_argument(
        "target",
        metavar="TARGET",
        help="folder for the files, one per trial; for minari the id of the data set, NAME-vN",
    )
    export.add_argument(
        "--trial", action="append", metavar="ID", help="only this trial; may be repeated"
    )
    export.add_argument(
        "--failed", action="store_true", help="minari: trials that failed or are partial, too"
    )
    export.add_argument("--env", metavar="ID", help="minari: the environment's id in Gymnasium")
    add_filters(export)


def add_import(verbs: argparse._SubParsersAction[Parser]) -> None:
    """Add `cogrs data import`."""
    taking = add_verb(
        verbs, "import", "take in files of data logs, or of other stores", _import, create=True
    )
    taking.add_argument(
        "path",
        nargs="+",
        type=Path,
        metavar="PATH",
        help="a .parquet or .jsonl file, or a folder with such files at any depth",
    )


def _export(given: argparse.Namespace, store: Store, stop: StopSignal) -> int:
    records = (
        store.trials(wanted_by(given))
        if given.trial is None
        else iter([store.trial(each) for each in given.trial])
    )
    # A data set is whole or not there.
    kept = unless_stopped(records, stop) if given.to == "minari" else until_stopped(records, stop)
    try:
        count = FORMATS[given.to](store, kept, given.target, given)
    except KeyboardInterrupt:
        if not stop.is_set():
            raise
        return DONE  # the signal has its own exit code
    print(escaped(f"{count} trials to {given.target}"))
    return DONE


def _import(given: argparse.Namespace, store: Store, stop: StopSignal) -> int:
    count = 0
    for path in until_stopped(_files(given.path), stop):
        record = store.add(path)
        count += 1
        print(escaped(f"{record.trial_id}{' partial' if record.partial else ''}  {path}"))
    print(f"{count} trials")
    return DONE


def _files(paths: list[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(each for each in path.rglob("*") if each.suffix in _SUFFIXES)
        else:
            yield path


_SUFFIXES = {".parquet", ".jsonl"}
