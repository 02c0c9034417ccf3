"""Spaces of all kinds in vectors of environments, beside Gymnasium's own."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

gymnasium = pytest.importorskip("gymnasium")
from gymnasium import spaces  # noqa: E402
from gymnasium.vector import SyncVectorEnv  # noqa: E402

from cogrs.collector import GameError, VectorEnv  # noqa: E402
from tests.collector.build import same  # noqa: E402


class Sampled(gymnasium.Env[Any, Any]):
    """Shows what its space has at random, and takes any action of its own."""

    def __init__(self, observation: Any, action: Any) -> None:
        self.observation_space, self.action_space = observation, action
        self.taken: list[Any] = []
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.steps = 0
        if seed is not None:
            self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        self.taken.append(action)
        self.steps += 1
        shown = self.observation_space.sample()
        return shown, self.steps / 3, self.steps == 5, False, {"action_mask": np.arange(3)}


def boxes() -> Any:
    dtypes = st.sampled_from([np.float32, np.float64, np.uint8, np.int16])
    shapes = st.lists(st.integers(1, 3), max_size=3).map(tuple)
    return st.builds(lambda dtype, shape: spaces.Box(0, 100, shape, dtype), dtypes, shapes)


KEYS = st.sampled_from(["a", "r", "V", "id", "seq", "_T", "a.b", "s", "action_mask", "0"])
LEAVES = st.one_of(
    boxes(),
    st.builds(spaces.Discrete, st.integers(1, 5), start=st.integers(-3, 3)),
    st.builds(spaces.MultiBinary, st.integers(1, 4)),
    st.builds(spaces.MultiDiscrete, st.lists(st.integers(1, 4), min_size=1, max_size=3)),
)
SPACES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.dictionaries(KEYS, inner, min_size=1, max_size=3).map(spaces.Dict),
        st.lists(inner, min_size=1, max_size=3).map(spaces.Tuple),
    ),
    max_leaves=5,
)


@settings(max_examples=60)
@given(
    observation=SPACES,
    action=SPACES,
    count=st.integers(1, 3),
    num_threads=st.sampled_from([0, 2]),
)
def test_vector_has_the_observations_and_actions_of_sync_vector_env(
    observation: Any, action: Any, count: int, num_threads: int
) -> None:
    def make() -> Sampled:
        return Sampled(deepcopy(observation), deepcopy(action))

    ours = VectorEnv(make, count, num_threads=num_threads)
    theirs = SyncVectorEnv([make] * count)
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    same(ours.reset(seed=4), theirs.reset(seed=4))
    ours.action_space.seed(1)
    for _ in range(8):
        actions = ours.action_space.sample()
        same(ours.step(actions), theirs.step(actions))
    for one, other in zip(ours.envs, theirs.envs, strict=True):
        for mine, its in zip(one.taken, other.taken, strict=True):
            same(mine, its)
    ours.close()
    theirs.close()


class Letters(spaces.Space[str]):
    """A space that Gymnasium does not know: one letter."""

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        return "abc"[int(self.np_random.integers(3))]

    def contains(self, x: Any) -> bool:
        return x in ("a", "b", "c")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Letters)


SHAPELESS: list[Any] = [
    Letters(),
    spaces.Text(5),
    spaces.Sequence(spaces.Discrete(3)),
    spaces.Sequence(spaces.Box(0, 1, (2,)), stack=True),
    spaces.Graph(spaces.Box(0, 1, (2,)), spaces.Discrete(3)),
    spaces.OneOf([spaces.Discrete(2), spaces.Text(4)]),
    spaces.Dict({"s": spaces.Text(3), "r": spaces.Box(0, 1, (2,)), "a": Letters()}),
    spaces.Tuple([spaces.OneOf([spaces.Discrete(2), spaces.Box(0, 1, (2,))])]),
]


def equal(ours: Any, theirs: Any) -> None:
    """Assert as `same` does; instances of graphs are compared part by part."""
    if isinstance(ours, spaces.GraphInstance):
        same(tuple(ours), tuple(theirs))
    elif isinstance(ours, tuple) and len(ours) == len(theirs):
        for one, other in zip(ours, theirs, strict=True):
            equal(one, other)
    else:
        same(ours, theirs)


@pytest.mark.parametrize("space", SHAPELESS, ids=lambda space: type(space).__name__)
@pytest.mark.parametrize("num_threads", [0, 2])
def test_spaces_without_a_fixed_shape_are_batched_by_gymnasium(
    space: Any, num_threads: int
) -> None:
    def make() -> Sampled:
        return Sampled(deepcopy(space), deepcopy(space))

    ours, theirs = VectorEnv(make, 3, num_threads=num_threads), SyncVectorEnv([make] * 3)
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    equal(ours.reset(seed=4), theirs.reset(seed=4))
    ours.action_space.seed(1)
    for _ in range(8):
        actions = ours.action_space.sample()
        equal(ours.step(actions), theirs.step(actions))
    for one, other in zip(ours.envs, theirs.envs, strict=True):
        equal(tuple(one.taken), tuple(other.taken))
    ours.close()
    theirs.close()


def test_keys_with_dots_do_not_collide() -> None:
    parts = {
        "a": spaces.Dict({"b": spaces.Discrete(4, start=10)}),
        "a.b": spaces.Discrete(4, start=20),
    }
    envs = VectorEnv(lambda: Sampled(spaces.Dict(parts), spaces.Discrete(2)), 2)
    shown, _ = envs.reset(seed=1)
    for _ in range(20):
        assert (shown["a"]["b"] // 10 == 1).all()
        assert (shown["a.b"] // 10 == 2).all()
        shown, *_ = envs.step(np.zeros(2, int))


def test_action_masks_and_other_infos_are_passed_through_untouched() -> None:
    def make() -> Sampled:
        return Sampled(spaces.Discrete(3), spaces.Discrete(2))

    ours, theirs = VectorEnv(make, 3), SyncVectorEnv([make] * 3)
    ours.reset(seed=1)
    theirs.reset(seed=1)
    infos = ours.step(np.zeros(3, int))[-1]
    assert infos["action_mask"].shape == (3, 3)
    same(infos, theirs.step(np.zeros(3, int))[-1])


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        ({"x": 1}, r"observation: expected a dict with 'y', got dict without it"),
        (5, r"observation: expected a dict with 'x', got int without it"),
        ({"x": 1, "y": (1,)}, r"observation\['y'\]: expected a tuple with 1, got tuple without"),
        ({"x": 1.5, "y": (1, 2)}, r"observation\['x'\]: 1.5 does not fit int64"),
        (
            {"x": 1, "y": (1, [2])},
            r"observation\['y'\]\[1\]: expected int64 \(\), got int64 \(1,\)",
        ),
    ],
)
def test_part_that_is_missing_or_wrong_is_named(shown: Any, words: str) -> None:
    pair = spaces.Tuple([spaces.Discrete(3), spaces.Discrete(3)])

    class Lacking(Sampled):
        def step(self, action: Any) -> Any:
            return (shown if action else {"x": 1, "y": (1, 2)}), 0.0, False, False, {}

    space = spaces.Dict({"x": spaces.Discrete(3), "y": pair})
    envs = VectorEnv(lambda: Lacking(space, spaces.Discrete(2)), 3)
    envs.reset(seed=1)
    with pytest.raises(GameError, match=f"environment 1: [A-Za-z]*Error: {words}"):
        envs.step(np.array([0, 1, 0]))


@pytest.mark.parametrize(
    ("actions", "words"),
    [
        ({"x": np.zeros(2)}, "actions: expected values of Dict.*KeyError"),
        (3, "actions: expected values of Dict"),
        ({"x": np.zeros(3, int), "y": np.zeros(3, int)}, "actions: expected 2 actions, got 3"),
    ],
)
def test_actions_that_are_not_of_a_dict_space_are_refused(actions: Any, words: str) -> None:
    space = spaces.Dict({"x": spaces.Discrete(3), "y": spaces.Discrete(3)})
    envs = VectorEnv(lambda: Sampled(spaces.Discrete(2), space), 2)
    envs.reset(seed=1)
    with pytest.raises(ValueError, match=words):
        envs.step(actions)
    envs.step({"x": np.zeros(2, int), "y": np.ones(2, int)})
    assert [env.taken for env in envs.envs] == [[{"x": 0, "y": 1}]] * 2


def test_environments_with_different_spaces_are_refused() -> None:
    sizes = iter(range(2, 9))

    def make() -> Sampled:
        return Sampled(spaces.Discrete(3), spaces.Discrete(next(sizes)))

    with pytest.raises(RuntimeError, match=r"action_space: .*Discrete\(2\).*Discrete\(3\).* 1"):
        VectorEnv(make, 2)


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.bool_])
def test_actions_of_other_integers_are_taken(dtype: Any) -> None:
    envs = VectorEnv(lambda: Sampled(spaces.Discrete(3), spaces.Discrete(2)), 2)
    envs.reset(seed=1)
    for given_actions in (np.array([0, 1], dtype), [0, 1]):
        envs.step(given_actions)
    assert [env.taken for env in envs.envs] == [[0, 0], [1, 1]]


def test_batches_share_no_memory_with_arrays_of_environments() -> None:
    class Reusing(Sampled):
        shown = np.zeros(2, np.float32)

        def reset(self, **_: Any) -> Any:
            self.shown = np.zeros(2, np.float32)
            return self.shown, {}

        def step(self, action: Any) -> Any:
            self.shown += 1
            return self.shown, 0.0, False, False, {}

    envs = VectorEnv(lambda: Reusing(spaces.Box(0, 99, (2,)), spaces.Discrete(2)), 2)
    batches = [envs.reset()[0], *(envs.step(np.zeros(2, int))[0] for _ in range(5))]
    assert [batch.tolist() for batch in batches] == [[[k, k]] * 2 for k in range(6)]
