"""The recorded cases in tests/data/replay: how to load, play and compare them."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.replay.model import BUFFERS, FIELDS

_DATA = Path(__file__).parents[1] / "data" / "replay"
_INDEX = json.loads((_DATA / "index.json").read_text())
FIRST_ROW = 100_000


@dataclass(frozen=True)
class Checkpoint:
    """The whole set that can be drawn at one moment, ordered by row."""

    row: np.ndarray
    prev_rows: np.ndarray
    next_rows: np.ndarray
    weight: np.ndarray
    prev_q: np.ndarray
    next_q: np.ndarray
    weight_sum: float


@dataclass(frozen=True)
class Case:
    name: str
    about: dict[str, Any]

    @cached_property
    def data(self) -> dict[str, np.ndarray]:
        with np.load(_DATA / f"{self.name}.npz") as file:
            return dict(file)

    @property
    def exact(self) -> bool:
        return self.about["exact"]

    def templates(self) -> dict[str, np.ndarray]:
        buffers = self.about["buffers"]
        return {
            field: np.zeros(buffers[name]["shape"], buffers[name]["dtype"])
            for field, name in zip(FIELDS, BUFFERS, strict=True)
        }

    def step(self, row: int) -> tuple[Any, ...]:
        """The arguments of `add_entry`."""
        return tuple(self.data[name][row] for name in "sarpviw")

    def checkpoint(self, number: int) -> Checkpoint:
        part = slice(*self.data["ck_ptr"][number : number + 2])
        names = ("row", "prev_rows", "next_rows", "w64", "prev_q64", "next_q64")
        columns = [self.data[f"ck_{name}"][part] for name in names]
        return Checkpoint(*columns, weight_sum=self.data["ck_sum64"][number])

    def weights_agree(self, got: np.ndarray, expected: np.ndarray) -> bool:
        return np.allclose(got, expected, rtol=0 if self.exact else 1e-4, atol=0)

    def returns_agree(self, got: np.ndarray, expected: np.ndarray) -> bool:
        expected = expected.reshape(got.shape)
        tolerance = 0 if self.exact else 2e-5 * np.maximum(1, np.abs(expected))
        return bool((np.abs(got - expected) <= tolerance).all())


CASES = [Case(about["name"], about) for about in _INDEX["cases"]]
STATS = [Case(about["name"], about) for about in _INDEX["stats"]]


def configure(case: Case, memory: Any) -> Any:
    for name, value in case.about["params"].items():
        if name != "max_step":
            setattr(memory, name, value)
    return memory


def snapshot(memory: Any) -> tuple[Any, ...]:
    """All that can be seen of a memory."""
    episodes = [memory.episode(k) for k in range(memory.num_episode())]
    contents = [
        [part.tobytes() for part in (*view.entries, view.weight, view.id)] for view in episodes
    ]
    return memory.num_episode(), memory.num_entry, memory.weight_sum, contents


def _refused(memory: Any, call: Callable[[], Any]) -> None:
    before = snapshot(memory)
    with pytest.raises(RuntimeError):
        call()
    assert snapshot(memory) == before


def _calls(case: Case, memory: Any, op: list[Any]) -> Iterator[Callable[[], Any]]:
    kind, *args = op
    if kind == "new":
        yield memory.new_episode
    elif kind == "add":
        for row in range(*args):
            yield partial(memory.add_entry, *case.step(row))
    elif kind == "close":
        yield partial(memory.close_episode, *args)
    elif kind == "raises":
        for call in _calls(case, memory, args[0]):
            yield partial(_refused, memory, call)
    elif kind == "set":
        setattr(memory, *args)


def play(case: Case, memory: Any, after_call: Callable[[], None] | None = None) -> Iterator[None]:
    """Play the script, with a stop at each checkpoint."""
    for op in case.about["ops"]:
        for call in _calls(case, memory, op):
            call()
            if after_call is not None:
                after_call()
        if op[0] in ("close", "check"):
            yield


def play_counted(case: Case, memory: Any) -> Iterator[Checkpoint]:
    """Play the script, with its number of episodes checked after each call."""
    counts = iter(case.data["num_episode"])

    def check_count() -> None:
        assert memory.num_episode() == next(counts)

    number = 0
    for _ in play(case, memory, check_count):
        yield case.checkpoint(number)
        number += 1
    assert number == case.about["checkpoints"]
    assert next(counts, None) is None


@dataclass(frozen=True)
class Stored:
    row: int
    id: int
    weight: float
    q: np.ndarray


def drawable(memory: Any) -> list[Stored]:
    """What the closed episodes say can be drawn, ordered by row."""
    found = []
    for k in range(memory.num_episode()):
        view = memory.episode(k)
        rows = view.entries.i.reshape(len(view.weight), -1)[:, 0].astype(int) - FIRST_ROW
        found += [
            Stored(int(rows[t]), int(view.id[t]), view.weight[t], view.entries.q[t])
            for t in np.flatnonzero(view.weight)
        ]
    return sorted(found, key=lambda stored: stored.row)


def check_drawable(case: Case, memory: Any, expected: Checkpoint) -> None:
    found = drawable(memory)
    assert [stored.row for stored in found] == expected.row.tolist()
    assert case.weights_agree(np.array([stored.weight for stored in found]), expected.weight)
    if found:
        assert case.returns_agree(np.array([stored.q for stored in found]), expected.prev_q)
    assert memory.weight_sum == pytest.approx(expected.weight_sum, rel=1e-5, abs=0)


def pooled_chi2(observed: np.ndarray, expected: np.ndarray) -> tuple[float, int]:
    """Chi-square and its degrees of freedom; cells too rare for it are counted as one."""
    rare = expected < 10
    if rare.any():
        observed = np.append(observed[~rare], observed[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
    return float(((observed - expected) ** 2 / expected).sum()), len(expected) - 1


def chi2_limit(df: int, z: float = 5.0) -> float:
    """Wilson and Hilferty's approximation: at z = 5, 3 false alarms in 10 million runs."""
    a = 2 / (9 * df)
    return df * (1 - a + z * a**0.5) ** 3
