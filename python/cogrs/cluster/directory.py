"""The directory of a run: where each part is, which generation it is, and what it last told.

Parts repeat their registration every second, so a directory that starts anew soon knows them all.
Only the counts of parts that have ended would be lost; a function that keeps them may be given.

Threads: any may call any method; the condition `_changed` guards all state.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from cogrs.replay.net.deadline import Deadline

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SUPERVISOR, SHARD, ACTOR, LEARNER = "supervisor", "shard", "actor", "learner"


class LateGenerationError(ValueError):
    """A part registers that was replaced by a later generation: it has to end."""


class _Entry(NamedTuple):
    """A part, as it registered last."""

    told: dict[str, Any]
    at: float


class Directory:
    """Where parts are; `version` grows with each change of that, not with what they report."""

    def __init__(
        self,
        ended: Mapping[str, Any] | None = None,
        keep: Callable[[dict[str, Any]], object] | None = None,
    ) -> None:
        """Create a directory without parts.

        Args:
            ended: The counts of parts that have ended, as `keep` was given them.
            keep: Called with these whenever they change.
        """
        self._changed = threading.Condition()
        self._parts: dict[tuple[str, int], _Entry] = {}
        self._keep = keep
        self._ended: dict[str, Any] = dict(ended or {})
        self._order: dict[str, Any] = {}
        self._restarts: dict[str, int] = {}
        self._errors: dict[str, str] = {}
        # Larger than those of a directory before this one.
        self._version = time.time_ns() // 1_000_000

    def register(self, part: Mapping[str, Any]) -> None:
        """Note a part, or that it is still there.

        Args:
            part: `role`, `index`, `generation`, and what others need of it: `endpoints`, `node`,
                `pid`, `since`, and `report`, which does not change the version.

        Raises:
            LateGenerationError: A later generation has registered before.
        """
        told = dict(part)
        key = str(told["role"]), int(told["index"])
        with self._changed:
            known = self._parts.get(key)
            if known is not None:
                before = known.told["generation"]
                if told["generation"] < before:
                    raise LateGenerationError(f"{key[0]} {key[1]}: generation {before} is there")
                if told["generation"] > before:
                    self._note_end(known.told)
                    name = f"{key[0]}-{key[1]}"
                    self._restarts[name] = self._restarts.get(name, 0) + 1
                    self._errors[name] = known.told.get("report", {}).get("error", "")
            self._parts[key] = _Entry(told, time.monotonic())
            if known is None or _place(known.told) != _place(told):
                self._advance()

    def end_all(self) -> None:
        """Remember the counts of all parts, for the run is over."""
        with self._changed:
            for each in self._parts.values():
                self._note_end(each.told)

    def order(self, what: Mapping[str, Any]) -> None:
        """Note what a driver asks of the supervisor: a number of `actors`, or to `stop`."""
        with self._changed:
            self._order |= what
            self._advance()

    def snapshot(self) -> dict[str, Any]:
        """Return where the parts are, and the version of that."""
        with self._changed:
            return self._snapshot()

    def wait(self, version: int, timeout: float | None) -> dict[str, Any] | None:
        """Wait until the version is larger, and return the snapshot; None after the timeout."""
        deadline = Deadline.of("timeout", timeout)
        with self._changed:
            while self._version <= version:
                if deadline.passed:
                    return None
                self._changed.wait(deadline.left)
            return self._snapshot()

    def status(self) -> dict[str, Any]:
        """Return all that parts have told, and how many seconds ago (`silent`).

        `restarts` and `errors` are of parts that were replaced, as far as this directory saw it; a
        supervisor knows more.
        """
        now = time.monotonic()
        with self._changed:
            parts = [each.told | {"silent": now - each.at} for each in self._parts.values()]
            return {
                "parts": parts,
                "ended": dict(self._ended),
                "restarts": dict(self._restarts),
                "errors": dict(self._errors),
            }

    def _snapshot(self) -> dict[str, Any]:
        parts = [_place(each.told) for each in self._parts.values()]
        return {"version": self._version, "parts": parts, "order": dict(self._order)}

    def _advance(self) -> None:
        self._version += 1
        self._changed.notify_all()

    def _note_end(self, told: Mapping[str, Any]) -> None:
        """Remember the counts of a part that was replaced."""
        name = f"{told['role']}-{told['index']}-{told['generation']}"
        self._ended[name] = told.get("report", {}).get("rows", {})
        if self._keep is not None:
            self._keep(dict(self._ended))


def _place(told: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a registration that others act on."""
    return {name: value for name, value in told.items() if name != "report"}
