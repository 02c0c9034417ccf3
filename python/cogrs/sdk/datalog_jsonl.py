"""Data logs as JSON lines.

Files may come from anybody. So what is read is bounded before it is made: by the length of lines
and the number of their lists and objects.
"""

from __future__ import annotations

import base64
import json
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from cogrs.api.common_pb2 import TrialParams
from cogrs.api.json_message import fill_message
from cogrs.arrays import refuse_loss
from cogrs.dtypes import dtype_of, holds_numbers, kind_of
from cogrs.limits import LOG_CONTAINERS, LOG_LINE_BYTES
from cogrs.sdk.datalog import LoggedTrial
from cogrs.sdk.datalog_file import FileSink
from cogrs.sdk.datalog_row import Packed, check_size, checked_row
from cogrs.sdk.wire import actors_of
from cogrs.shown import shown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cogrs.sdk.datalog_row import Row


class JsonLinesSink(FileSink):
    """Writes a trial to `<trial id>.jsonl`, a line for its parameters, then one for each row.

    A row is an actor at a tick. The file of a trial that broke off ends without an `end_reason`.
    """

    suffix = ".jsonl"
    _file: IO[str] | None = None

    def _open(self, path: Path, trial: LoggedTrial) -> None:
        self._file = path.open("x", encoding="utf-8")
        from google.protobuf import json_format

        params = json_format.MessageToDict(trial.params, preserving_proto_field_name=True)
        head: Row = {"trial_id": trial.id, "params": params}
        if trial.spaces_json:
            head["spaces"] = json.loads(trial.spaces_json)
        self._write(head)

    def _add(self, rows: list[Row], size: int) -> None:
        for row in rows:
            self._write(row)
        if self._file is not None:
            self._file.flush()

    def lost(self) -> None:
        """Close the file with the samples so far."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _write(self, row: Row) -> None:
        if self._file is not None:
            self._file.write(json.dumps(_to_json(row), allow_nan=False) + "\n")


def read_json_lines(path: Path) -> tuple[LoggedTrial, Iterator[Row]]:
    """Return the trial of a file, and its rows as they are asked for.

    Raises:
        ValueError: It does not begin with parameters. Rows raise it as they are read.
    """
    with path.open("rb") as file:
        try:
            head = _parsed(file.readline(LOG_LINE_BYTES + 1))
            params = fill_message(TrialParams(), head["params"])
            spaces = json.dumps(head["spaces"]) if "spaces" in head else ""
            trial = LoggedTrial(str(head["trial_id"]), actors_of(params.actors), params, spaces)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path}: expected a trial's parameters first: {error}") from None
    return trial, _json_rows(path)


def _json_rows(path: Path) -> Iterator[Row]:
    with path.open("rb") as file:
        file.readline(LOG_LINE_BYTES + 1)
        lines = iter(lambda: file.readline(LOG_LINE_BYTES + 1), b"")
        for number, line in enumerate(lines, 2):
            try:
                row = checked_row(_from_json(_parsed(line)))
            except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
                raise ValueError(f"{path}:{number}: {error}") from error
            yield row


def _parsed(line: bytes) -> Any:
    """Return the value of a line of JSON; raise a ValueError if it exceeds a limit."""
    if len(line) > LOG_LINE_BYTES:
        raise ValueError(f"expected lines of at most {LOG_LINE_BYTES} bytes")
    # An empty list takes thirty times the bytes of its text.
    if line.count(b"[") + line.count(b"{") > LOG_CONTAINERS:
        raise ValueError(f"expected at most {LOG_CONTAINERS} lists and objects in a line")
    try:
        return json.loads(line, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise ValueError("expected fewer levels of nested lists and objects") from error


def _refuse_constant(text: str) -> None:
    raise ValueError(f"expected finite numbers, got {text}")


def _to_json(value: Any) -> Any:
    if isinstance(value, Packed):
        return _packed_to_json(value)
    if isinstance(value, dict):
        return {name: _to_json(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_to_json(each) for each in value]
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _packed_to_json(value: Packed) -> Row:
    """Return readable numbers where JSON can hold them, otherwise bytes in base 64."""
    kept: Row = {"kind": value.kind, "shape": list(value.shape)}
    if holds_numbers(value.kind) and kind_of(dtype := dtype_of(value.kind)) in "biuf":
        array = np.frombuffer(value.data, dtype)
        # float128 has digits that JSON's readers lose.
        if dtype.itemsize <= 8 and np.isfinite(array).all():
            return {**kept, "values": array.tolist()}
    return {**kept, "data": base64.b64encode(value.data).decode()}


def _from_json(row: Any) -> Row:
    if not isinstance(row, dict):
        raise ValueError(f"expected a row, got {shown(row)}")
    for name in ("observation", "action"):
        if (kept := row[name]) is not None:
            kind, shape = kept["kind"], kept["shape"]
            data = (
                _bytes_of(kind, kept["values"])
                if "values" in kept
                else base64.b64decode(kept["data"], validate=True)
            )
            row[name] = Packed(kind, tuple(shape), data)
    row.setdefault("stood_in", False)  # files of before have no such column
    for message in row["messages"]:
        message["data"] = base64.b64decode(message["data"], validate=True)
    return row


def _bytes_of(kind: Any, values: Any) -> bytes:
    """Return the bytes of an array's numbers; a ValueError if they do not fit its dtype."""
    if not isinstance(kind, str) or not holds_numbers(kind):
        raise ValueError(f"expected a dtype of numbers, got {shown(kind)}")
    if not isinstance(values, list) or not {*map(type, values)} <= {bool, int, float}:
        raise ValueError(f"expected a list of numbers, got {shown(values)}")
    dtype = dtype_of(kind, "kind")
    check_size(dtype.itemsize * len(values))
    # Integers of any length stay as they are, unless they become floats anyway.
    given = np.array(values, np.float64 if kind_of(dtype) == "f" else None)
    with np.errstate(over="ignore", invalid="ignore"):
        made = np.array(values, dtype)
    refuse_loss("values", given, made)
    return made.tobytes()
