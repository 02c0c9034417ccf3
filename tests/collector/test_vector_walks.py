"""Long walks of `VectorEnv` beside `SyncVectorEnv`: calls and failures in any order."""

from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit

import cogrs
from cogrs.collector import GameError
from tests.collector.vector_environments import Random

COUNT = 3


def equal(one: Any, other: Any) -> None:
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert list(one) == list(other)
        for key in one:
            equal(one[key], other[key])
    elif isinstance(one, np.ndarray) and one.dtype != object:
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    elif isinstance(one, tuple | list | np.ndarray):
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            equal(left, right)
    else:
        assert one == other


class Both:
    """Makes each call of two vectors, and compares what comes back."""

    def __init__(self, ours: Any, theirs: Any) -> None:
        self.ours, self.theirs = ours, theirs

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Return the result, or None where both failed."""
        try:
            # SyncVectorEnv takes the mask out of its options.
            expected = getattr(self.theirs, name)(*args, **deepcopy(kwargs))
        except RuntimeError as error:
            with pytest.raises(GameError, match=str(error)):
                getattr(self.ours, name)(*args, **kwargs)
            return None
        found = getattr(self.ours, name)(*args, **kwargs)
        equal(found, expected)
        return found


def walk(both: Both, mode: AutoresetMode, seed: int, steps: int) -> int:
    """Take chance calls; return how many of them failed."""
    chance = np.random.default_rng(seed)
    both.theirs.action_space.seed(seed)
    over, begun, failed = np.zeros(COUNT, np.bool_), False, 0
    for _ in range(steps):
        if not begun:
            given = both.call("reset", seed=int(chance.integers(10_000)), options={"k": 1})
            begun, over[:] = given is not None, False
        elif mode is AutoresetMode.DISABLED and over.any():
            mask = over | (chance.random(COUNT) < 0.2)
            begun = both.call("reset", options={"reset_mask": mask}) is not None
            over[:] = False
        elif chance.random() < 0.1:
            mask = np.arange(COUNT) == chance.integers(COUNT)
            options = {"reset_mask": mask, "k": 2}
            begun = both.call("reset", seed=[4, None, 6], options=options) is not None
        elif chance.random() < 0.1:
            both.call("call", "steps")
        else:
            given = both.call("step", both.theirs.action_space.sample())
            begun = given is not None
            over = given[2] | given[3] if begun else over
        failed += not begun
    return failed


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("space", range(len(Random.SPACES)))
def test_walk_of_any_calls_equals_the_walk_of_sync_vector_env(
    space: int, mode: AutoresetMode
) -> None:
    def make(number: int) -> Any:
        return TimeLimit(Random(number, space=space, fails=0.03), 5)

    options: dict[str, Any] = {"autoreset_mode": mode}
    ours = cogrs.VectorEnv(make, COUNT, num_threads=2 * (space % 2), **options)
    theirs = SyncVectorEnv([partial(make, number) for number in range(COUNT)], **options)
    assert walk(Both(ours, theirs), mode, space, 90) > 0
    ours.close()


def test_walk_with_processes_equals_the_walk_of_sync_vector_env() -> None:
    options: dict[str, Any] = {"autoreset_mode": AutoresetMode.SAME_STEP}
    path = "tests.collector.vector_environments:Random"
    more: dict[str, Any] = {"space": 3, "fails": 0.03}
    ours = cogrs.VectorEnv(path, COUNT, processes=2, **more, **options)
    theirs = SyncVectorEnv([partial(Random, number, **more) for number in range(COUNT)], **options)
    assert walk(Both(ours, theirs), AutoresetMode.SAME_STEP, 0, 60) > 0
    ours.close()
