"""The status of a run: one table of its parts, and what became of the rows that actors sent."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from cogrs.cluster.directory import ACTOR, LEARNER, SHARD, SUPERVISOR

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cogrs.cluster.state import RunState

_ORDER = (SUPERVISOR, LEARNER, SHARD, ACTOR)
_SILENT = 5.0
"""Seconds after which a part that has told nothing is shown as silent."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PartStatus:
    """One part of a run.

    Attributes:
        role: "supervisor", "learner", "shard" or "actor".
        index: Its number among those.
        node: The machine.
        pid: Its process.
        generation: Larger than those of the processes before it.
        since: When it registered, in seconds since 1970.
        count: Steps of an actor, rows that have come to a shard, updates of the learner.
        rate: The same per second, since it registered; 0 of the supervisor.
        silent: Seconds since it told something.
        restarts: How often it was started again.
        given_up: Whether it failed too often, and is not started again.
        error: Its last error; empty without.
        figures: What else it tells, such as `mean_return` of an actor.
    """

    role: str
    index: int
    node: str
    pid: int
    generation: int
    since: float
    count: int
    rate: float
    silent: float
    restarts: int
    given_up: bool
    error: str
    figures: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class RowCounts:
    """What became of rows; inserted = stored + lost.

    Attributes:
        inserted: Rows that actors have sent, those that have ended too.
        stored: Rows that have come to shards and are in their counts: a shard that was killed goes
            on with those of its newest checkpoint.
        lost: The others. Rows on their way are among them until they come.
        lost_with_shards: Those of them that had come to a shard after its newest checkpoint, before
            it was killed.
        drawn: Rows that the learner has drawn.
    """

    inserted: int
    stored: int
    lost: int
    lost_with_shards: int
    drawn: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RunStatus:
    """All parts of a run at one moment.

    Attributes:
        name: The run.
        state: "starting", "running", "ended" or "failed".
        error: Why it failed; empty otherwise.
        rows: What became of rows.
        parts: The supervisor first, actors last.
    """

    name: str
    state: str
    error: str
    rows: RowCounts
    parts: tuple[PartStatus, ...]

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return asdict(self)

    def __str__(self) -> str:
        """Return it as a table."""
        head = ("part", "node", "generation", "since", "count", "per second", "restarts", "note")
        lines = [head]
        for part in self.parts:
            notes = [
                "given up" if part.given_up else "",
                f"silent for {part.silent:.0f} s" if part.silent > _SILENT else "",
                part.error.splitlines()[-1] if part.error else "",
            ]
            lines.append(
                (
                    f"{part.role} {part.index}",
                    f"{part.node}:{part.pid}",
                    str(part.generation),
                    time.strftime("%H:%M:%S", time.localtime(part.since)),
                    f"{part.count:,}",
                    f"{part.rate:,.1f}",
                    str(part.restarts),
                    "; ".join(filter(None, notes)),
                )
            )
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        table = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        ]
        rows = self.rows
        counts = (
            f"rows: {rows.inserted:,} inserted = {rows.stored:,} stored + {rows.lost:,} lost "
            f"({rows.lost_with_shards:,} with shards since their checkpoints, the others on their "
            f"way); {rows.drawn:,} drawn"
        )
        error = [f"error: {self.error}"] if self.error else []
        return "\n".join([f"{self.name}: {self.state}", *error, *table, counts])


def status_of(name: str, state: RunState, told: Mapping[str, Any]) -> RunStatus:
    """Return the status of a run, from what `Directory.status` returned."""
    parts: list[dict[str, Any]] = told["parts"]
    of_supervisor = {name: told[name] for name in ("restarts", "errors") if name in told}
    for each in parts:
        if each["role"] == SUPERVISOR:
            of_supervisor = each["report"]
    made = [_part(each, of_supervisor) for each in parts if each["role"] in _ORDER]
    made.sort(key=lambda each: (_ORDER.index(each.role), each.index))
    return RunStatus(name=name, **state._asdict(), rows=row_counts(told), parts=tuple(made))


def row_counts(told: Mapping[str, Any]) -> RowCounts:
    """Return what became of rows, from what `Directory.status` returned.

    An actor that was killed may have sent rows after it told its count last: what has come from it
    counts as sent, too.
    """
    ended: dict[str, dict[str, Any]] = told["ended"]
    current = {
        f"{each['role']}-{each['index']}-{each['generation']}": each["report"].get("rows", {})
        for each in told["parts"]
    }
    every = ended | current
    inserted: dict[str, int] = {}
    for rows in every.values():
        if "inserted" in rows:
            inserted[rows["sender"]] = max(rows["inserted"], inserted.get(rows["sender"], 0))
    # Of each shard the newest generation counts, which has what those before it had saved.
    newest: dict[str, tuple[int, dict[str, Any]]] = {}
    lost_with_shards = 0
    for part, rows in sorted(every.items(), key=lambda each: int(each[0].rpartition("-")[2])):
        if "stored" not in rows:
            continue
        shard, _, generation = part.rpartition("-")
        if shard in newest:
            lost_with_shards += max(0, newest[shard][1]["stored"] - rows["restored"])
        newest[shard] = int(generation), rows
    stored: dict[str, int] = {}
    for _, rows in newest.values():
        for sender, count in rows["senders"].items():
            stored[sender] = stored.get(sender, 0) + count
    total = sum(rows["stored"] for _, rows in newest.values())
    # Those of clients that no shard counts by themselves any more came from somebody.
    sent = sum(max(inserted.get(each, 0), stored.get(each, 0)) for each in {*inserted, *stored})
    sent = max(sent, total)
    drawn = max((rows["drawn"] for rows in every.values() if "drawn" in rows), default=0)
    return RowCounts(
        inserted=sent,
        stored=total,
        lost=sent - total,
        lost_with_shards=min(lost_with_shards, sent - total),
        drawn=drawn,
    )


def _part(told: Mapping[str, Any], of_supervisor: Mapping[str, Any]) -> PartStatus:
    name = f"{told['role']}-{told['index']}"
    report = dict(told["report"])
    error = report.pop("error", "") or of_supervisor.get("errors", {}).get(name, "")
    count, at = report.pop("count", 0), report.pop("at", told["since"])
    report.pop("rows", None)
    if told["role"] == SUPERVISOR:
        report = {}
    return PartStatus(
        role=told["role"],
        index=told["index"],
        node=told["node"],
        pid=told["pid"],
        generation=told["generation"],
        since=told["since"],
        count=count,
        rate=count / max(at - told["since"], 1.0),
        silent=told["silent"],
        restarts=of_supervisor.get("restarts", {}).get(name, 0),
        given_up=name in of_supervisor.get("given_up", ()),
        error=error,
        figures=report,
    )
