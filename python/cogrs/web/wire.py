"""The messages between a page and its server: one table, by which both sides are checked.

The table in docs/web.md is generated from it: `python -m cogrs.web.wire`.
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from cogrs.shown import shown

PNG, JPEG = 1, 2
"""Kinds of pictures."""

_HEADER = struct.Struct(">BQ")

TEXT, NUMBER, INTEGER, FLAG, TEXTS, INTEGERS, VALUE, OBJECT, OBJECTS = (
    "text",
    "number",
    "integer",
    "flag",
    "texts",
    "integers",
    "value",
    "object",
    "objects",
)

_LONGEST_TEXT = 200
_MOST_PARTS = 1024
"""Numbers of an action, and texts of a list."""


class WireError(ValueError):
    """A message that is not of the table; the text is the reason with which to close."""


class Field(NamedTuple):
    """One field of a message."""

    name: str
    kind: str
    meaning: str
    required: bool = False


@dataclass(frozen=True)
class Kind:
    """One type of messages, in one direction."""

    type: str
    meaning: str
    fields: tuple[Field, ...] = ()


_TICK = Field("tick", INTEGER, "the tick that it is about, from 0", required=True)

UP: Final = (
    Kind(
        "join",
        "Take a place; the first message of a connection. A second one gives name and consent",
        (
            Field("token", TEXT, "of the link, from its fragment; good for one join"),
            Field("session", TEXT, "the key that `hello` gave, to resume in place of a token"),
            Field("name", TEXT, "of the person, who may leave it empty"),
            Field("consent", FLAG, "whether the person consents to the text of `hello`"),
            Field("ready", FLAG, "false to be told of the place first; true if it is left out"),
            Field("here", FLAG, "take the place over from another tab of the session"),
        ),
    ),
    Kind(
        "action",
        "Say which action the controls stand for; one for a past tick does not count",
        (
            Field("tick", INTEGER, "the tick that it answers; without it, the one that is open"),
            Field("value", VALUE, "the action; null when all controls are released"),
            Field("keys", TEXTS, "the keys that are down, by `KeyboardEvent.code`"),
            Field("takeover", FLAG, "act in place of the policy while it is true"),
        ),
    ),
    Kind(
        "feedback",
        "Judge the picture of a tick, or take the latest judgement back; answered by `ack`",
        (
            Field("tick", INTEGER, "the tick that was on the screen, from 1"),
            Field("value", NUMBER, "how good it was, from -1 to 1"),
            Field("confidence", NUMBER, "the weight of the judgement, from 0 to 1; 1 by default"),
            Field("seen", NUMBER, "seconds for which the tick was on the screen"),
            Field("ticks", INTEGERS, "ticks to spread the value over, in place of `tick`"),
            Field(
                "trial", TEXT, "the trial that it is about, as of `state`; the latest by default"
            ),
            Field("undo", FLAG, "take back the latest judgement that is not taken back"),
        ),
    ),
    Kind("pause", "Stop the ticks, or let them go on", (Field("on", FLAG, "", required=True),)),
    Kind("leave", "Leave the place for good"),
    Kind("ping", "Ask for an `ack`", (Field("id", INTEGER, "returned by the `ack`"),)),
    Kind(
        "terminate",
        "Of the console: ask for the end of a trial; answered by `ack`",
        (Field("trial", TEXT, "the trial's id", required=True),),
    ),
    Kind(
        "list",
        "Of the console: ask for the newest trials of the store; answered by `stored`",
        (
            Field("until", NUMBER, "only those that started before, in seconds since 1970 (UTC)"),
            Field("people", FLAG, "only those that a person rewarded"),
        ),
    ),
    Kind(
        "open",
        "Of the console: open a trial of the store, in place of another; answered by `timeline`",
        (Field("trial", TEXT, "the trial's id", required=True),),
    ),
    Kind(
        "show",
        "Of the console: ask for a tick of the trial that is open; answered by `step`, and then by "
        "its picture if there is one",
        (Field("trial", TEXT, "the trial's id", required=True), _TICK),
    ),
)
"""What a page sends."""

DOWN: Final = (
    Kind(
        "hello",
        "Answer `join` with all that the page needs to know",
        (
            Field("session", TEXT, "the key by which to resume", required=True),
            Field("role", TEXT, "`player`, `judge` or `spectator`", required=True),
            Field("title", TEXT, "name of the environment", required=True),
            Field("controls", OBJECT, "actions with names and keys, or bounds; see below"),
            Field("mode", TEXT, "`hold`, `press` or `queue`", required=True),
            Field("fps", NUMBER, "ticks per second at most", required=True),
            Field("takeover", FLAG, "whether a policy plays that the person can replace"),
            Field("feedback", FLAG, "whether judgements are taken"),
            Field("credit", VALUE, "seconds before a press, from and to, that it judges; or null"),
            Field("consent", TEXT, "the text to consent to; empty for no such text"),
            Field("ready", FLAG, "whether the place is taken: no name or consent is missing"),
            Field("messages_per_second", NUMBER, "more close the connection"),
        ),
    ),
    Kind(
        "state",
        "Say how the place fares",
        (
            Field(
                "state",
                TEXT,
                "`waiting`, `playing`, `paused`, `ended` or `elsewhere`; in the console `waiting` "
                "or `connected`",
                required=True,
            ),
            Field("reason", TEXT, "why, in words; may be empty"),
            Field("trial", TEXT, "id of the trial; empty before the first one"),
            Field("score", NUMBER, "sum of the rewards of this trial, without own judgements"),
        ),
    ),
    Kind(
        "tick",
        "Say that a tick is open",
        (
            _TICK,
            Field("reward", NUMBER, "that came with it", required=True),
            Field("score", NUMBER, "sum of the rewards of this trial", required=True),
            Field("deadline", VALUE, "seconds until it closes; null if it waits for the person"),
            Field("summary", OBJECT, "the observation by names of parts, if there are no pictures"),
        ),
    ),
    Kind(
        "ack",
        "Answer `feedback`, `ping`, `terminate`, and whatever is refused",
        (
            Field("of", TEXT, "type of the message", required=True),
            Field("id", INTEGER, "of the judgement that was recorded or taken back, or the ping"),
            Field("ok", FLAG, "whether it was done", required=True),
            Field("reason", TEXT, "why not, in words"),
            Field("tick", INTEGER, "the tick that was judged"),
            Field("value", NUMBER, "the value that was recorded"),
            Field("undone", FLAG, "whether the judgement was taken back"),
            Field(
                "stored",
                FLAG,
                "whether the trial, or what stored its steps, took it; left out while it waits for "
                "a tick, after which another `ack` tells",
            ),
        ),
    ),
    Kind(
        "console",
        "Answer `join` of the console",
        (
            Field("title", TEXT, "the orchestrator", required=True),
            Field("store", FLAG, "whether there is a store of trials"),
        ),
    ),
    Kind(
        "report",
        "Say how an orchestrator and its trials fare; the console gets one per second",
        (
            Field(
                "trials",
                OBJECTS,
                "that have not ended, the oldest first: `id`, `state`, `tick` (-1 before the first "
                "one), `rate` (ticks per second, or null), `awaited` (how many of each party) and "
                "`waited` (seconds)",
                required=True,
            ),
            Field("unlisted", INTEGER, "further trials that have not ended", required=True),
            Field("ended", OBJECTS, "the latest ended trials: `id`, `reason`, `failed`"),
            Field("counts", OBJECT, "since the start of the orchestrator, by name"),
            Field("dropped", OBJECT, "what was dropped since then, and how often"),
            Field("replays", OBJECTS, "replay servers: `name`, `figures` by name, `fault`"),
            Field("charts", OBJECT, "values to draw over time, by name; null for unknown ones"),
        ),
    ),
    Kind(
        "stored",
        "List trials of the store",
        (
            Field(
                "trials",
                OBJECTS,
                "the newest first, 50 at most: `id`, `started` (seconds since 1970, UTC), `ticks`, "
                "`returns` by actor, `people` (whether a person rewarded it), `partial`, `reason`",
                required=True,
            ),
        ),
    ),
    Kind(
        "timeline",
        "Give an overview of a stored trial, in parts of `width` ticks",
        (
            Field("trial", TEXT, "the trial's id", required=True),
            Field("last", INTEGER, "its last tick", required=True),
            Field("width", INTEGER, "ticks per part", required=True),
            Field("pictures", INTEGER, "how many ticks have a picture", required=True),
            Field(
                "actors",
                OBJECTS,
                "`name`, `class`; `rewards`: by sender, pairs of a part and the sum of its "
                "rewards; `origins`: by origin, pairs of a part and how many actions it has. "
                "Origins are `agent`, `client`, `default` (of an actor that was late or gone), "
                "and, where a person could take over, `policy` and `person`",
                required=True,
            ),
            Field("unlisted", INTEGER, "further actors, which are not shown"),
        ),
    ),
    Kind(
        "step",
        "Show a tick of a stored trial",
        (
            Field("trial", TEXT, "the trial's id", required=True),
            _TICK,
            Field("picture", FLAG, "whether a picture follows", required=True),
            Field(
                "actors",
                OBJECTS,
                "`name`, `seen` and `action` by names of parts, `origin` of the action, `policy` "
                "(its action, which a person replaced), `rewards` of this tick (`sender`, `value`, "
                "`confidence`, `delivered`: the tick with which it came), `terminated`, "
                "`truncated`",
                required=True,
            ),
        ),
    ),
)
"""What a server sends."""

_UP = {kind.type: kind for kind in UP}
_DOWN = {kind.type: kind for kind in DOWN}


def read_message(text: str) -> dict[str, Any] | None:
    """Return a message of a page, with the fields that were given; None if its type is unknown.

    Raises:
        WireError: It is not an object with a type, or a field is missing or wrong.
    """
    try:
        message = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WireError("expected JSON") from error
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise WireError("expected a JSON object with a type")
    kind = _UP.get(message["type"])
    return None if kind is None else _checked(kind, message)


def write_message(kind: str, **fields: Any) -> str:
    """Return a message of the server as text; a WireError if the table has no such message."""
    checked = _checked(_DOWN[kind], {"type": kind, **fields})
    if len(checked) != len(fields) + 1:
        raise WireError(f"{kind}: unknown fields in {', '.join(fields)}")
    return json.dumps(checked, allow_nan=False, separators=(",", ":"))


def pack_frame(kind: int, tick: int, picture: bytes) -> bytes:
    """Return a picture as a binary message."""
    return _HEADER.pack(kind, tick) + picture


def unpack_frame(message: bytes) -> tuple[int, int, bytes]:
    """Return kind, tick and picture of a binary message."""
    kind, tick = _HEADER.unpack_from(message)
    return kind, tick, message[_HEADER.size :]


def _checked(kind: Kind, message: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"type": kind.type}
    for field in kind.fields:
        value = message.get(field.name)
        if value is None and field.kind is not VALUE:
            if field.required:
                raise WireError(f"{kind.type}: {field.name}: expected {field.kind}, got nothing")
        elif field.name in message:
            if not _fits(field.kind, value, own=kind.type in _DOWN):
                what = f"{kind.type}: {field.name}"
                raise WireError(f"{what}: expected {field.kind}, got {shown(value)}"[:120])
            found[field.name] = value
    return found


def _fits(kind: str, value: Any, *, own: bool) -> bool:
    if kind == TEXT:
        return isinstance(value, str) and (own or len(value) <= _LONGEST_TEXT)
    if kind == FLAG:
        return isinstance(value, bool)
    if kind == INTEGER:
        return _is_integer(value)
    if kind == NUMBER:
        return _is_number(value)
    if kind == TEXTS:
        few = isinstance(value, list) and len(value) <= _MOST_PARTS
        return few and all(isinstance(each, str) and len(each) <= _LONGEST_TEXT for each in value)
    if kind == INTEGERS:
        few = isinstance(value, list) and 0 < len(value) <= _MOST_PARTS
        return few and all(map(_is_integer, value))
    if kind == OBJECT:
        return isinstance(value, dict)
    if kind == OBJECTS:
        return isinstance(value, list) and all(isinstance(each, dict) for each in value)
    if isinstance(value, list):
        return len(value) <= _MOST_PARTS and all(map(_is_number, value))
    return value is None or _is_number(value)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def as_markdown() -> str:
    """Return the table for docs/web.md."""
    lines = []
    for title, kinds in (("From the page", UP), ("From the server", DOWN)):
        lines += [f"### {title}", "", "| type | field | kind | meaning |", "|---|---|---|---|"]
        for kind in kinds:
            lines.append(f"| `{kind.type}` | | | {kind.meaning} |")
            for field in kind.fields:
                star = ", required" if field.required else ""
                lines.append(f"| | `{field.name}` | {field.kind}{star} | {field.meaning} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    print(as_markdown())
