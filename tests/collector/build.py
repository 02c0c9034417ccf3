"""Games for tests, and a run of them that cannot hang a test for ever."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

import cogrs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LIMIT = 60.0
"""Seconds after which a call counts as hanging: far more than any takes."""

ACTOR = (
    {"id": "", "seq": "", "s": "", "last_r": "", "last_terminal": "", "last_truncated": ""},
    {"a": "1"},
)


def actor(batchsize: int, **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    return {**ACTOR[0], "_batchsize": batchsize, **more}, dict(ACTOR[1])


def wrapper(descriptions: dict[str, Any], num_games: int = 4, **options: Any) -> cogrs.GCWrapper:
    co = cogrs.ContextOptions(num_games=num_games, **{"seed": 1, "num_threads": 2, **options})
    return cogrs.GCWrapper(cogrs.GameContext("cartpole", co), co, descriptions)


@contextmanager
def running(
    descriptions: dict[str, Any], num_games: int = 4, **options: Any
) -> Iterator[cogrs.GCWrapper]:
    with wrapper(descriptions, num_games, **options) as games:
        games.Start()
        yield games


def run(games: cogrs.GCWrapper) -> Any:
    """Call Run, which must not time out."""
    value = games.Run(LIMIT)
    assert games.infos is not None
    assert games.infos.gid >= 0, "no batch in time"
    return value


def balance(batch: Any, _gpu: Any, reply: Any) -> None:
    """Push the cart under the pole: episodes last long, but not for ever."""
    state = batch[-1]["s"]
    reply[-1]["a"][:] = state[:, 2] + 0.1 * state[:, 3] > 0


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that is about to happen."""
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.001)


def rows(batch: Any) -> dict[str, np.ndarray]:
    """Arrays (rows, T, ...) by key, copied."""
    return {key: np.stack([each[key] for each in batch], axis=1) for key in batch[0]}


def forever(call: Callable[[], object]) -> None:
    """Call it until it raises."""
    while True:
        call()


def same(ours: Any, theirs: Any) -> None:
    """Assert that two values of any form are equal, dtypes included."""
    assert type(ours) is type(theirs)
    if isinstance(ours, dict):
        assert list(ours) == list(theirs)
        for key, value in ours.items():
            same(value, theirs[key])
    elif isinstance(ours, tuple | list):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            same(one, other)
    elif isinstance(ours, np.ndarray):
        assert ours.dtype == theirs.dtype
        if ours.dtype == object:
            assert ours.shape == theirs.shape
            same(list(ours.flat), list(theirs.flat))
            return
        np.testing.assert_array_equal(ours, theirs)
    else:
        assert ours == theirs
