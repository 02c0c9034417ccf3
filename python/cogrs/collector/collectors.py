"""The collectors of a game context: their names, numbers, descriptions and arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cogrs.collector.description import parse
from cogrs.validation import check_kind

if TYPE_CHECKING:
    from cogrs.collector.description import Collector, Description, GameSpec, Value


@dataclass(frozen=True)
class TensorSpec:
    """Dtype and shape of the arrays of a key.

    Attributes:
        key: The key.
        dtype: The dtype's name.
        shape: Shape of one array: (batchsize, ...).
        T: Number of arrays, one for each state of the history.
    """

    key: str
    dtype: str
    shape: tuple[int, ...]
    T: int


class Collectors:
    """Parsed descriptions, which do not change: additions return another object.

    Attributes:
        parsed: The collectors; the position of each is its number (gid).
        gids: The number of each, by name.
    """

    def __init__(self, game: GameSpec, descriptions: Mapping[str, Description] | None = None):
        self._game = game
        self._descriptions = dict(descriptions or {})
        self.parsed: list[Collector] = (
            [] if descriptions is None else parse(self._descriptions, game)
        )
        self.gids = {collector.name: gid for gid, collector in enumerate(self.parsed)}

    def with_collectors(self, descriptions: Mapping[str, Description]) -> Collectors:
        """Return these and more collectors, which replace those of the same name."""
        check_kind("descriptions", descriptions, Mapping, "a mapping")
        return Collectors(self._game, {**self._descriptions, **descriptions})

    def with_key(self, collector: int | str, key: str, value: Value, *, reply: bool) -> Collectors:
        """Return these collectors with one more key in the input or the reply of one."""
        name = self.parsed[self.gid(collector)].name
        inputs, replies = self._descriptions[name]
        if reply:
            replies = {**(replies or {}), key: value}
        else:
            inputs = {**inputs, key: value}
        return self.with_collectors({name: (inputs, replies)})

    def gid(self, collector: int | str) -> int:
        """Return the number of a collector, given its name or number; ValueError if unknown."""
        if isinstance(collector, str) and collector in self.gids:
            return self.gids[collector]
        if isinstance(collector, int) and 0 <= collector < len(self.parsed):
            return collector
        raise ValueError(f"collector: expected one of {list(self.gids)}, got {collector!r}")

    def tensor_spec(self, collector: int | str, key: str, *, reply: bool) -> TensorSpec:
        """Return dtype and shape of the arrays of a key; ValueError if one does not exist."""
        found = self.parsed[self.gid(collector)]
        tensors = {each.key: each for each in (found.replies if reply else found.inputs) or ()}
        if key not in tensors:
            raise ValueError(f"{found.name!r}: expected one of {list(tensors)}, got {key!r}")
        shape = (found.batch_size, *tensors[key].row)
        return TensorSpec(key, str(tensors[key].dtype), shape, found.steps)
