"""`cogrs data`: list, show, move and check the trials of a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cogrs.commands.data_options import (
    add_filters,
    add_verb,
    print_json,
    row_of,
    until_stopped,
    wanted_by,
)
from cogrs.commands.parser import DONE, FAILED, Parser
from cogrs.escape import escaped

if TYPE_CHECKING:
    import argparse

    from cogrs.stop_signal import StopSignal
    from cogrs.store import Store


def add_data(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add the command; its verbs are added when it is used."""
    commands.add_parser(
        "data",
        help="list, show, export and check stored trials",
        description="List, show, export, import, replay, remove and check the trials of a store, "
        "which an orchestrator with datalog.type store, or --store, writes.",
        fill=_fill,
    )


def _fill(parser: Parser) -> None:
    from cogrs.commands.data_export import add_export, add_import
    from cogrs.commands.data_replay import add_replay
    from cogrs.commands.data_show import add_show

    verbs = parser.add_subparsers(metavar="VERB", dest="verb", required=True)
    listing = add_verb(verbs, "ls", "list trials, by the time of their start", _ls)
    add_filters(listing)
    listing.add_argument("--json", action="store_true", help="print JSON, one object per line")
    add_show(verbs)
    add_export(verbs)
    add_import(verbs)
    add_replay(verbs)
    removal = add_verb(verbs, "rm", "remove trials and their files", _rm)
    removal.add_argument("trial", nargs="+", metavar="ID", help="id of a trial")
    check = add_verb(
        verbs, "verify", "compare the index with the files, both ways", _verify, codes=_VERIFIED
    )
    check.add_argument(
        "--mend",
        action="store_true",
        help="remove rows without a file, add files without a row, take over what a changed file "
        "says, and move files that cannot be read to the folder 'damaged'",
    )
    check.add_argument("--json", action="store_true", help="print JSON, one object per line")


_VERIFIED = (
    "Exit codes: 0 no damage, or all of it was mended, though trials may be partial; 1 damage was "
    "found; 2 an argument is invalid or there is no store; 130 Ctrl-C, 143 SIGTERM."
)


def _ls(given: argparse.Namespace, store: Store, stop: StopSignal) -> int:
    records = until_stopped(store.trials(wanted_by(given)), stop)
    if given.json:
        for record in records:
            print_json(record.as_json())
        return DONE
    count = 0
    for count, record in enumerate(records, 1):  # noqa: B007
        print(row_of(record))
    if not count:
        print("no trials")
    return DONE


def _rm(given: argparse.Namespace, store: Store, _stop: StopSignal) -> int:
    for record in store.remove(given.trial):
        print(f"removed {escaped(record.trial_id)}")
    return DONE


def _verify(given: argparse.Namespace, store: Store, stop: StopSignal) -> int:
    from dataclasses import asdict

    damage = partial = 0
    for finding in until_stopped(store.verify(mend=given.mend), stop):
        damage += finding.is_damage
        partial += finding.kind == "partial"
        if given.json:
            print_json(asdict(finding))
        else:
            mended = f"; {finding.mended}" if finding.mended else ""
            print(escaped(f"{finding.kind:9} {finding.file}: {finding.text}{mended}"))
    if not given.json and not stop.is_set():
        hint = "; cogrs data verify --mend mends it" if damage and not given.mend else ""
        print(f"{store.count()} trials, {partial} of them partial, {damage} damaged{hint}")
    return FAILED if damage else DONE
