"""What the index of a store knows of a trial, and which trials a listing asks for."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from cogrs.validation import check_flag, check_integer, check_number, check_text

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class TrialRecord:
    """A trial of a store, as its index has it.

    Attributes:
        trial_id: Its id.
        ticks: Number of its last tick: how many observation sets followed the first.
        returns: Sum of the rewards of each actor, by name in the trial's order, late ones included.
        classes: Class of each actor, likewise.
        end_reason: Why it ended; "" for a partial one.
        user: Id of the user who started it.
        partial: Whether samples are missing: the orchestrator was killed, or could not write them.
        people: Whether a person rewarded an actor: see `cogrs.store.is_person`.
        started: When its first observations were there, in UTC.
        ended: When it ended, in UTC; None for a partial one whose end is not known.
        file: Path of its Parquet file from the store's folder.
        size: Bytes of that file.
        checksum: CRC-32 of that file.
        params: Its parameters, as JSON of `cogment.TrialParams`.
    """

    trial_id: str
    ticks: int
    returns: Mapping[str, float]
    classes: Mapping[str, str]
    end_reason: str
    user: str
    partial: bool
    people: bool
    started: datetime
    ended: datetime | None
    file: str
    size: int = field(repr=False)
    checksum: int = field(repr=False)
    params: str = field(repr=False)

    def as_json(self) -> dict[str, Any]:
        """Return what `cogrs data ls --json` prints."""
        return {
            "trial_id": self.trial_id,
            "ticks": self.ticks,
            "returns": dict(self.returns),
            "classes": dict(self.classes),
            "end_reason": self.end_reason,
            "user": self.user,
            "partial": self.partial,
            "people": self.people,
            "started": self.started.isoformat(),
            "ended": None if self.ended is None else self.ended.isoformat(),
            "file": self.file,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialFilter:
    """Which trials to list: those for which all that is given holds. None asks nothing.

    Attributes:
        actor_class: An actor is of this class.
        since: Started at this time or later: a datetime (without a time zone: local time), or
            seconds since the Unix epoch.
        until: Started before this time.
        min_return: An actor's return is at least this.
        ended_by: Part of the reason why it ended.
        user: Id of the user who started it.
        partial: Whether it is partial.
        people: Whether a person rewarded it.
        limit: Only the newest of them, at most so many.
    """

    actor_class: str | None = None
    since: datetime | float | None = None
    until: datetime | float | None = None
    min_return: float | None = None
    ended_by: str | None = None
    user: str | None = None
    partial: bool | None = None
    people: bool | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        """Check all fields: TypeError or ValueError names the one that is wrong."""
        for name in ("actor_class", "ended_by", "user"):
            if getattr(self, name) is not None:
                check_text(name, getattr(self, name))
        for name in ("since", "until"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, datetime):
                check_number(name, value, expected="a datetime or seconds since the epoch")
        if self.min_return is not None:
            check_number("min_return", self.min_return)
        for name in ("partial", "people"):
            if getattr(self, name) is not None:
                check_flag(name, getattr(self, name))
        if self.limit is not None:
            check_integer("limit", self.limit, 1)


def seconds_of(moment: datetime | float) -> float:
    """Return a time as seconds since the Unix epoch."""
    return moment.timestamp() if isinstance(moment, datetime) else float(moment)


def moment_of(seconds: float) -> datetime:
    """Return a time of the index, in UTC."""
    return datetime.fromtimestamp(seconds, UTC)
