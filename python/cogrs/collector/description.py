"""Parses and checks descriptions of batches; errors name collector, key and value."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from cogrs._core import builtin_columns
from cogrs.shown import shown
from cogrs.validation import check_kind

if TYPE_CHECKING:
    Value = str | int
    Description = tuple[Mapping[str, Value], Mapping[str, Value] | None]
    Shape = tuple[int, ...]


REWARDS = "_last_r"
"""The column of rewards that are vectors; `last_r` of the core is one number."""


@dataclass(frozen=True)
class GameSpec:
    """Keys, action and players of a game.

    Attributes:
        keys: dtype and shape of each key of a state.
        action: dtype and shape of an action.
        num_action: Number of discrete actions, or the length of a continuous one.
        players: Names of the players.
        has_agents: Whether each player has episodes of its own.
        reward_shape: Shape of a reward.
    """

    keys: Mapping[str, tuple[Any, Shape]]
    action: tuple[Any, Shape]
    num_action: int
    players: Sequence[str]
    has_agents: bool = False
    reward_shape: Shape = ()

    @property
    def columns(self) -> Mapping[str, tuple[Any, Shape]]:
        """Types and shapes of the columns that the game writes: its keys, and vector rewards."""
        if not self.reward_shape:
            return self.keys
        return {**self.keys, REWARDS: (np.dtype(np.float32), self.reward_shape)}

    def params(self) -> dict[str, Any]:
        """Return the sizes that a model needs; see `GameContext.GetParams`."""
        shapes = {key: shape for key, (_, shape) in self.keys.items()}
        dtypes = {key: str(dtype) for key, (dtype, _) in self.keys.items()}
        dtype, shape = self.action
        return {
            "num_action": self.num_action,
            "action_shape": shape,
            "action_dtype": str(dtype),
            "state_shape": shapes.get("s", shapes),
            "state_dtype": dtypes.get("s", dtypes),
            "players": list(self.players),
        }


@dataclass(frozen=True)
class InputKey:
    """One key of an input; the core reads these fields."""

    key: str
    column: str
    """The column that it comes from: `key`, or `last_` and `key`."""
    shifted: bool
    """Whether it is the column of the next state."""
    stack: int
    """Number of stacked frames; 0 is one without an axis."""
    dtype: Any
    shape: Shape
    """Shape of one frame of one row."""

    @property
    def row(self) -> Shape:
        """Shape of one row."""
        return (self.stack, *self.shape) if self.stack else self.shape


@dataclass(frozen=True)
class ReplyKey:
    """One key of a reply; `shape` is that of one row."""

    key: str
    dtype: Any
    shape: Shape

    @property
    def row(self) -> Shape:
        """Shape of one row."""
        return self.shape


@dataclass(frozen=True)
class Collector:
    """One description: `_batchsize`, `_T`, `_timeout_usec`, `_name` and `_block`, and its keys."""

    name: str
    batch_size: int
    steps: int
    timeout_usec: int
    player: int | None
    """The number of the player that `_name` names."""
    inputs: tuple[InputKey, ...]
    replies: tuple[ReplyKey, ...] | None
    block: bool
    """Whether games wait until their batch is given back, even without a reply."""


_BUILTIN = builtin_columns()
_SHIFTED = tuple(key.removeprefix("last_") for key in _BUILTIN if key.startswith("last_"))
_REPLIES = ("a", "pi", "V", "Q", "A", "rv")
RESERVED = frozenset((*_BUILTIN, *_SHIFTED, *_REPLIES))
"""Keys that no game can have."""
_DIGITS = 100
"""Most characters of a number: Python takes long for very many, and refuses them in the end."""
_SETTINGS = ("_batchsize", "_T", "_timeout_usec", "_name", "_block")


def parse(descriptions: Mapping[str, Description], game: GameSpec) -> list[Collector]:
    """Parse and check descriptions.

    Raises:
        ValueError: A key, a value or a setting is wrong; the text names collector, key and value.
        TypeError: Descriptions are not a mapping of pairs of mappings.
    """
    check_kind("descriptions", descriptions, Mapping, "a mapping")
    if not descriptions:
        raise ValueError("descriptions: expected at least one collector, got {}")
    pairs = {name: _pair(name, pair) for name, pair in descriptions.items()}
    shapes: dict[str, tuple[Shape, str]] = {}
    replies = {name: _replies(name, pair, game, shapes) for name, pair in pairs.items()}
    return [
        _Parser(name, game, shapes).collector(pair[0], replies[name])
        for name, pair in pairs.items()
    ]


def overlapping_replies(collectors: Sequence[Collector]) -> dict[str, list[str]]:
    """Return the names of the collectors that reply the same key to the same player, by key."""
    found: dict[str, set[str]] = {}
    for one, other in combinations(collectors, 2):
        if None in (one.player, other.player) or one.player == other.player:
            keys = {reply.key for reply in one.replies or ()}
            for key in keys & {reply.key for reply in other.replies or ()}:
                found.setdefault(key, set()).update((one.name, other.name))
    names = [collector.name for collector in collectors]
    return {key: [name for name in names if name in found[key]] for key in sorted(found)}


def _pair(name: str, pair: Any) -> Description:
    if not isinstance(name, str):
        raise TypeError(f"descriptions: expected names as keys, got {name!r}")
    if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
        raise TypeError(f"{name!r}: expected a pair (input, reply), got {shown(pair)}")
    given, reply = pair
    if not isinstance(given, Mapping) or not (reply is None or isinstance(reply, Mapping)):
        raise TypeError(f"{name!r}: expected a dict and a dict or None, got {shown(pair)}")
    for key in (*given, *(reply or ())):
        if not isinstance(key, str):
            raise TypeError(f"{name!r}: expected text as keys, got {shown(key)}")
    if "_batchsize" not in given:
        where = "; it is only in the reply" if "_batchsize" in (reply or ()) else ""
        raise ValueError(f"{name!r}: _batchsize is missing in the input{where}")
    return given, reply


def _replies(
    name: str, pair: Description, game: GameSpec, shapes: dict[str, tuple[Shape, str]]
) -> tuple[ReplyKey, ...] | None:
    given, reply = pair
    if reply is None:
        return None
    parser = _Parser(name, game, shapes)
    for setting in (key for key in reply if key.startswith("_")):
        if setting not in ("_batchsize", "_T"):
            parser.unknown(setting, ["_batchsize", "_T"])
        inherited = parser.number(setting, given.get(setting, 1))
        if parser.number(setting, reply[setting]) != inherited:
            raise ValueError(
                f"{name!r}: {setting} of the reply: expected {inherited}, as in the input, "
                f"got {shown(reply[setting])}"
            )
    tensors = {key: value for key, value in reply.items() if not key.startswith("_")}
    return tuple(parser.reply(key, value) for key, value in tensors.items())


class _Parser:
    """Parses one description."""

    def __init__(self, name: str, game: GameSpec, shapes: dict[str, tuple[Shape, str]]) -> None:
        self.name = name
        self.game = game
        # The shape of each reply key, and the collector that asked for it first.
        self.shapes = shapes

    def collector(
        self, given: Mapping[str, Value], replies: tuple[ReplyKey, ...] | None
    ) -> Collector:
        for setting in (key for key in given if key.startswith("_")):
            if setting not in _SETTINGS:
                self.unknown(setting, _SETTINGS)
        tensors = {key: value for key, value in given.items() if not key.startswith("_")}
        return Collector(
            name=self.name,
            batch_size=self.number("_batchsize", given["_batchsize"]),
            steps=self.number("_T", given.get("_T", 1)),
            timeout_usec=self.number("_timeout_usec", given.get("_timeout_usec", 0), 0),
            player=self.player(given.get("_name")),
            inputs=tuple(self.input(key, value) for key, value in tensors.items()),
            replies=replies,
            block=bool(self.number("_block", given.get("_block", 0) or 0, 0, 2)),
        )

    def player(self, name: Value | None) -> int | None:
        if name is None:
            return None
        players = list(self.game.players)
        if name not in players:
            raise ValueError(f"{self.name!r}: _name: expected one of {players}, got {name!r}")
        return players.index(str(name))

    def input(self, key: str, value: Value) -> InputKey:
        if key in self.game.keys:
            dtype, shape = self.game.keys[key]
            return InputKey(key, key, False, self.length(key, value) or 0, dtype, shape)
        if key in _BUILTIN:
            self.scalar(key, value)
            if key == "last_r" and self.game.reward_shape:
                return InputKey(key, REWARDS, False, 0, *self.game.columns[REWARDS])
            return InputKey(key, key, False, 0, _BUILTIN[key], ())
        if key in _REPLIES:
            reply = self.reply(key, value, inherit=True)
            return InputKey(key, key, False, 0, reply.dtype, reply.shape)
        last = f"last_{key}"
        if last in self.game.keys or last in _BUILTIN:
            self.scalar(key, value)
            return replace(self.input(last, ""), key=key, shifted=True)
        self.unknown(key, [*self.game.keys, *_BUILTIN, *_SHIFTED, *_REPLIES])
        raise AssertionError

    def reply(self, key: str, value: Value, *, inherit: bool = False) -> ReplyKey:
        if key not in _REPLIES:
            self.unknown(key, _REPLIES)
        length = self.length(key, value)
        if inherit and length is None and key in self.shapes:
            shape = self.shapes[key][0]
        else:
            shape = self.shape(key, length)
        first, owner = self.shapes.setdefault(key, (shape, self.name))
        if first != shape:
            raise ValueError(
                f"{self.name!r}: {key}={value!r} makes rows of shape {shape}, "
                f"but {owner!r} has {first}"
            )
        dtypes = {"a": self.game.action[0], "rv": "int32"}
        return ReplyKey(key, dtypes.get(key, "float32"), shape)

    def shape(self, key: str, length: int | None) -> Shape:
        """Return the shape of a reply's row."""
        if key == "a":
            shape = self.game.action[1]
            if length not in (None, math.prod(shape)):
                raise ValueError(
                    f"{self.name!r}: a: the action has length {math.prod(shape)}, got {length}"
                )
            return shape
        if key == "rv":
            self.scalar(key, length or "")
            return ()
        default = 1 if key == "V" else self.game.num_action
        length = length or default
        return () if length == 1 else (length,)

    def scalar(self, key: str, value: Value) -> None:
        if self.length(key, value) not in (None, 1):
            raise ValueError(f"{self.name!r}: {key} has one value per row, got {key}={value!r}")

    def length(self, key: str, value: Value) -> int | None:
        """Return a value as a number, or None for the game's default."""
        return None if value == "" else self.number(key, value)

    def number(self, key: str, value: Value, least: int = 1, end: int = 2**40) -> int:
        number = -1
        if isinstance(value, str):
            if len(value) < _DIGITS and value.isascii() and value.strip().isdigit():
                number = int(value)
        elif isinstance(value, Integral) and not isinstance(value, bool):
            number = int(value)
        if not least <= number < end:
            expected = "0 or 1" if end == 2 else f"an integer in [{least}, 2**40)"
            raise ValueError(f"{self.name!r}: {key}: expected {expected}, got {shown(value)}")
        return number

    def unknown(self, key: str, known: Sequence[str]) -> None:
        raise ValueError(
            f"{self.name!r}: unknown key {key!r}, expected one of {sorted(set(known))}"
        )
