"""What the verbs of `cogrs data` share: their options, how they run, and how they print trials."""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

from cogrs.commands.parser import FAILED, Parser, fail, integer
from cogrs.escape import escaped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cogrs.stop_signal import StopSignal
    from cogrs.store import Store, TrialFilter, TrialRecord

    Work = Callable[[argparse.Namespace, Store, StopSignal], int]

STORE, FILES = "COGRS_STORE", "COGRS_STORE_FILES"
DEFAULT = "runs/trials"
_UNREAD = 141
"""Exit code as of SIGPIPE."""
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_CODES = (
    "Exit codes: 0 done, 1 a trial or a file is missing, damaged or cannot be written, 2 an "
    "argument is invalid or there is no store, 130 Ctrl-C, 141 the output was closed, 143 SIGTERM."
)


def add_verb(
    verbs: argparse._SubParsersAction[Parser],
    name: str,
    text: str,
    work: Work,
    *,
    create: bool = False,
    codes: str = _CODES,
) -> Parser:
    """Add a verb that works on a store; with `create` a missing one is created."""
    verb = verbs.add_parser(
        name, help=text, description=f"{text[0].upper()}{text[1:]}.", epilog=codes
    )
    verb.add_argument(
        "--store",
        default=os.environ.get(STORE, DEFAULT),
        metavar="DIR",
        help=f"folder of the store, or postgresql://... (default: {STORE}, or {DEFAULT})",
    )
    verb.add_argument(
        "--files",
        default=os.environ.get(FILES),
        metavar="DIR",
        help=f"folder of the files if the index is in PostgreSQL (default: {FILES})",
    )
    verb.set_defaults(run=_run, work=work, create=create)
    return verb


def add_filters(verb: Parser) -> None:
    """Add the options of `wanted_by`."""
    add = verb.add_argument_group("filters", "all that are given have to hold").add_argument
    add("--class", dest="actor_class", metavar="CLASS", help="an actor is of this class")
    add("--since", type=_moment, metavar="TIME", help="started then or later: 2026-01-31, "
        "2026-01-31T08:00, or 90s, 15m, 2h, 7d, 4w ago")  # fmt: skip
    add("--until", type=_moment, metavar="TIME", help="started before that time")
    add("--min-return", type=_number, metavar="N", help="an actor's return is at least this")
    add("--ended-by", metavar="TEXT", help="part of the reason why it ended")
    add("--user", metavar="ID", help="id of the user who started it")
    add("--partial", action="store_true", default=None, help="samples of it are missing")
    add("--whole", action="store_false", dest="partial", help="no samples of it are missing")
    add("--people", action="store_true", default=None, help="a person rewarded an actor")
    add("--limit", type=_count, metavar="N", help="only the newest N of these")


def wanted_by(given: argparse.Namespace) -> TrialFilter:
    """Return the filter of the options of `add_filters`."""
    from cogrs.store import TrialFilter

    names = ("actor_class", "since", "until", "min_return", "ended_by", "user", "partial", "people")
    return TrialFilter(**{name: getattr(given, name) for name in (*names, "limit")})


def until_stopped(items: Iterator[Any], stop: StopSignal) -> Iterator[Any]:
    """Yield items until a signal comes."""
    for item in items:
        if stop.is_set():
            return
        yield item


def unless_stopped(items: Iterator[Any], stop: StopSignal) -> Iterator[Any]:
    """Yield items; raise KeyboardInterrupt when a signal comes."""
    for item in items:
        if stop.is_set():
            raise KeyboardInterrupt
        yield item


def print_json(value: Any) -> None:
    """Print an object on a line; numbers that JSON lacks are null."""
    try:
        text = json.dumps(value, allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(value))
    print(text)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _run(given: argparse.Namespace, stop: StopSignal) -> int:
    command = f"data {given.verb}"
    try:
        from cogrs.store import open_store

        files = given.files if given.store.startswith(("postgres://", "postgresql://")) else None
        store = open_store(given.store, files=files, create=given.create)
    except (ImportError, OSError, TypeError, ValueError) as error:
        return fail(command, str(error).replace("where:", "--store:", 1))
    with store:
        try:
            code = int(given.work(given, store, stop))
            return stop.code if stop.is_set() else code
        except BrokenPipeError:
            # The reader of the output has enough, as `head` has; nothing is flushed at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            return _UNREAD
        except (ImportError, OSError, MemoryError, RuntimeError, TypeError, ValueError) as error:
            return fail(command, str(error), FAILED)
        except store.errors as error:
            return fail(command, f"{given.store}: {error}", FAILED)


def row_of(record: TrialRecord) -> str:
    """Return a trial as a line of a listing."""
    started = record.started.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    returns = " ".join(f"{name}={value:.6g}" for name, value in record.returns.items())
    marks = [name for name in ("partial", "people") if getattr(record, name)]
    end = f"[{', '.join(marks)}] " if marks else ""
    return escaped(
        f"{record.trial_id}  {started}  {record.ticks:6} ticks  {returns}  {end}{record.end_reason}"
    ).rstrip()


def _moment(text: str) -> float:
    """Return a time as seconds since the epoch: that of a date, or of some time ago."""
    ago = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", text)
    if ago:
        return time.time() - float(ago[1]) * _UNITS[ago[2]]
    try:
        return datetime.fromisoformat(text).timestamp()
    except (OverflowError, ValueError):
        expected = "a date, a date with a time, or a time ago such as 15m, 2h, 7d"
        raise argparse.ArgumentTypeError(f"expected {expected}, got {text!r}") from None


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"expected a finite number, got {text!r}")
    return number


def _count(text: str) -> int:
    return integer(text, 1, 2**31 - 1)
