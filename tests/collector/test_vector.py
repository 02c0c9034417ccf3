"""Games as a vector environment of Gymnasium."""

from __future__ import annotations

import math
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

gymnasium = pytest.importorskip("gymnasium")
from gymnasium.error import ClosedEnvironmentError, ResetNeeded  # noqa: E402
from gymnasium.vector import AutoresetMode, SyncVectorEnv  # noqa: E402
from gymnasium.wrappers import vector as wrappers  # noqa: E402

from cogrs import VectorEnv  # noqa: E402
from cogrs.collector import BUILT_IN, GameError  # noqa: E402
from tests.collector import sample_environments  # noqa: E402
from tests.collector.build import LIMIT, forever, same  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

TWINS = {
    "acrobot": "Acrobot-v1",
    "cartpole": "CartPole-v1",
    "mountain_car": "MountainCar-v0",
    "mountain_car_continuous": "MountainCarContinuous-v0",
    "pendulum": "Pendulum-v1",
}


def sync(env: str | Callable[[], Any], count: int, **options: Any) -> Any:
    make = (lambda: gymnasium.make(env, **options)) if isinstance(env, str) else env
    return SyncVectorEnv([make] * count)


class Telling(sample_environments.Dicts):
    """Has the arguments of its reset in its infos, and a number of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.metadata = {"render_modes": ["ansi"]}
        self.render_mode = "ansi"

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        shown, info = super().reset(seed=7 if seed is None else seed)
        return shown, {**info, "seed": -1 if seed is None else seed, "options": str(options)}

    def step(self, action: Any) -> Any:
        *rest, info = super().step(action)
        return *rest, ({**info, "steps": self.steps} if self.steps % 2 else info)

    def render(self) -> Any:
        return f"step {self.steps}"


@pytest.mark.parametrize(
    ("env", "options"),
    [
        ("CartPole-v1", {"max_episode_steps": 30}),
        ("Pendulum-v1", {"max_episode_steps": 20}),
        ("FrozenLake-v1", {}),
        (Telling, {}),
    ],
)
@pytest.mark.parametrize("num_threads", [0, 2])
def test_python_environments_equal_sync_vector_env(
    env: Any, options: Any, num_threads: int
) -> None:
    count = 5
    ours, theirs = (
        VectorEnv(env, count, num_threads=num_threads, **options),
        sync(env, count, **options),
    )
    for name in ("single_observation_space", "single_action_space", "observation_space"):
        assert getattr(ours, name) == getattr(theirs, name)
    assert ours.action_space == theirs.action_space
    assert ours.metadata == theirs.metadata
    assert ours.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    ours.action_space.seed(3)
    kinds: list[dict[str, Any]] = [
        {"seed": 5},
        {"options": {"low": -0.01, "high": 0.01}},
        {"seed": [3, None, 1, 4, None]},
        {"options": {"reset_mask": np.array([True, False, False, True, False])}},
        {"seed": 11, "options": {"reset_mask": np.array([False, True, False, True, True])}},
        {},
    ]
    if env != "CartPole-v1":
        kinds = [kind for kind in kinds if "low" not in kind.get("options", {})]
    for number, kind in enumerate(kinds):
        given_options = dict(kind["options"]) if "options" in kind else None
        same(ours.reset(**kind), theirs.reset(**{**kind, "options": given_options}))
        for _ in range(25 + 20 * number):
            actions = ours.action_space.sample()
            same(ours.step(actions), theirs.step(actions))
    ours.close()
    theirs.close()


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_games_have_the_spaces_of_gymnasium_s(name: str) -> None:
    envs = VectorEnv(name, 3, seed=1)
    if name in TWINS:
        twin = gymnasium.make(TWINS[name])
        assert envs.single_observation_space == twin.observation_space
        assert envs.single_action_space == twin.action_space
    envs.action_space.seed(1)
    shown, infos = envs.reset()
    assert envs.observation_space.contains(shown)
    assert infos == {}
    for _ in range(60):
        if name == "connect_four":
            actions = shown["action_mask"].argmax(axis=1)
        else:
            actions = envs.action_space.sample()
        shown, rewards, terminated, truncated, infos = envs.step(actions)
        assert envs.observation_space.contains(shown)
        assert (rewards.dtype, terminated.dtype, truncated.dtype) == (np.float64, bool, bool)
        assert rewards.shape == terminated.shape == truncated.shape == (3,)
        assert infos == {}
    assert envs.render() is envs.render_mode is None
    envs.close()


@settings(max_examples=15)
@given(
    seed=st.integers(0, 2**32),
    count=st.integers(1, 6),
    limit=st.integers(1, 40),
    name=st.sampled_from(["cartpole", "pendulum"]),
)
def test_built_in_games_follow_gymnasium_from_the_same_states(
    seed: int, count: int, limit: int, name: str
) -> None:
    """An episode of each at a time: where it ends, what it pays, what the next step does."""
    envs = VectorEnv(name, count, max_episode_steps=limit)
    twins = [gymnasium.make(TWINS[name], max_episode_steps=limit) for _ in range(count)]
    shown, _ = envs.reset(seed=seed)

    def begin(number: int) -> None:
        twins[number].reset(seed=0)
        state = shown[number].astype(np.float64)
        if name == "pendulum":
            state = np.array([math.atan2(state[1], state[0]), state[2]])
        twins[number].unwrapped.state = state

    over = np.zeros(count, bool)
    for number in range(count):
        begin(number)
    envs.action_space.seed(seed)
    for _ in range(100):
        actions = envs.action_space.sample()
        shown, rewards, terminated, truncated, _ = envs.step(actions)
        for number in range(count):
            if over[number]:
                assert (rewards[number], terminated[number], truncated[number]) == (0, False, False)
                begin(number)
                continue
            state, reward, *ends, _ = twins[number].step(actions[number])
            # The twins began at states of float32.
            np.testing.assert_allclose(shown[number], state, rtol=2e-3, atol=2e-4)
            np.testing.assert_allclose(rewards[number], reward, rtol=1e-3, atol=1e-3)
            # Terminated first, where the game says both.
            assert [terminated[number], truncated[number] or all(ends)] == [ends[0], ends[1]]
        over = terminated | truncated
    envs.close()


def test_same_seed_gives_the_same_episodes_at_any_time() -> None:
    envs = VectorEnv("cartpole", 4, seed=9)
    actions = np.array([0, 1, 1, 0])

    def history(**reset: Any) -> list[Any]:
        return [envs.reset(**reset)[0], *(envs.step(actions)[0] for _ in range(30))]

    first, on, again = history(), history(), history(seed=9)
    other, listed = history(seed=8), history(seed=[9, 10, 11, 12])
    envs.close()
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first, listed)
    assert (np.array(first) != on).any()
    assert (np.array(first) != other).any()


def test_reset_mask_resets_only_the_selected_environments() -> None:
    envs, twin = VectorEnv("cartpole", 3, seed=1), VectorEnv("cartpole", 3, seed=1)
    envs.reset()
    twin.reset()
    mask = np.array([False, True, False])
    actions = np.array([1, 1, 1])
    last = [env.step(actions)[0] for _ in range(4) for env in (envs, twin)][-1]
    shown, _ = envs.reset(options={"reset_mask": mask})
    assert (shown[~mask] == last[~mask]).all()
    assert (np.abs(shown[mask]) <= 0.05).all()
    for _ in range(4):
        ours, theirs = envs.step(actions), twin.step(actions)
        for one, other in zip(ours[:4], theirs[:4], strict=True):
            assert (one[~mask] == other[~mask]).all()
        assert (ours[0][mask] != theirs[0][mask]).any()
    envs.close()
    twin.close()


def test_results_are_the_caller_s_to_keep() -> None:
    envs = VectorEnv("cartpole", 2, seed=1)
    results = [envs.reset()[0]]
    copies = [results[0].copy()]
    for _ in range(10):
        results.append(envs.step(np.array([0, 1]))[0])
        copies.append(results[-1].copy())
    envs.close()
    np.testing.assert_array_equal(results, copies)


def test_wrappers_of_vectors_work() -> None:
    envs: Any = wrappers.RecordEpisodeStatistics(VectorEnv("cartpole", 4, seed=3))
    envs = wrappers.NormalizeReward(wrappers.NormalizeObservation(envs))
    envs.reset()
    ends = 0
    lengths = np.zeros(4, int)
    fresh = np.zeros(4, bool)
    for _ in range(300):
        shown, _, terminated, truncated, infos = envs.step(envs.action_space.sample())
        lengths = np.where(fresh, 0, lengths + 1)
        fresh = terminated | truncated
        for number in np.flatnonzero(fresh):
            ends += 1
            assert infos["episode"]["r"][number] == infos["episode"]["l"][number] == lengths[number]
    assert ends > 10
    assert np.abs(shown).max() < 100
    envs.close()
    clipped = wrappers.ClipReward(VectorEnv("pendulum", 2, seed=1), -0.5, 0.5)
    clipped.reset()
    assert np.abs(clipped.step(clipped.action_space.sample())[1]).max() <= 0.5
    clipped.close()


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda envs: envs.step(np.zeros(3, int)), ValueError, r"actions: expected int64 \(2,\)"),
        (lambda envs: envs.step(np.zeros((2, 1), int)), ValueError, r"actions: expected int64"),
        (lambda envs: envs.step([0.5, 0.5]), TypeError, "actions: cannot convert float64"),
        (
            lambda envs: envs.step(np.array([0, 2])),
            ValueError,
            r"\[0, 2\), got 2 for environment 1",
        ),
        (lambda envs: envs.step(np.array([-1, 0])), ValueError, "got -1 for environment 0"),
        (lambda envs: envs.reset(seed=-1), ValueError, "seed: expected an integer >= 0, got -1"),
        (lambda envs: envs.reset(seed=1.5), TypeError, "seed: expected an integer >= 0, got float"),
        (lambda envs: envs.reset(seed=[1]), ValueError, "seed: expected 2 seeds, got 1"),
        (lambda envs: envs.reset(seed="12"), TypeError, "seed: expected an integer >= 0, got str"),
        (lambda envs: envs.reset(options={"low": 0}), ValueError, "expected only reset_mask"),
        (
            lambda envs: envs.reset(options=3),
            TypeError,
            "options: expected a dict or None, got int",
        ),
        (
            lambda envs: envs.reset(options={"reset_mask": [True, False]}),
            TypeError,
            "reset_mask: expected an array of bool, got list",
        ),
        (
            lambda envs: envs.reset(options={"reset_mask": np.zeros(2, bool)}),
            ValueError,
            "reset_mask: .* with at least one True",
        ),
    ],
)
def test_wrong_call_is_refused_and_changes_nothing(call: Any, kind: Any, words: str) -> None:
    envs, twin = VectorEnv("cartpole", 2, seed=1), VectorEnv("cartpole", 2, seed=1)
    envs.reset()
    twin.reset()
    with pytest.raises(kind, match=words):
        call(envs)
    same(envs.step(np.array([0, 1])), twin.step(np.array([0, 1])))
    envs.close()
    twin.close()


@pytest.mark.parametrize(
    "env", ["catch", lambda: sample_environments.Free(length=3)], ids=["built-in", "python"]
)
def test_number_outside_the_space_is_refused_unless_ignored(env: Any) -> None:
    envs = VectorEnv(env, 2, seed=1)
    envs.reset()
    ended = np.zeros(2, bool)
    ends = 0
    for _ in range(30):
        if not ended[1]:
            with pytest.raises(ValueError, match="got 99 for environment 1"):
                envs.step([0, 99])
        _, _, terminated, truncated, _ = envs.step(np.where(ended, -7, 0))
        ended = terminated | truncated
        ends += ended.sum()
    assert ends > 1
    envs.close()


def test_call_before_reset_or_after_close_is_refused() -> None:
    envs = VectorEnv("cartpole", 2)
    with pytest.raises(ResetNeeded):
        envs.step(np.zeros(2, int))
    with pytest.raises(ResetNeeded):
        envs.reset(options={"reset_mask": np.array([True, False])})
    envs.reset()
    envs.close()
    envs.close()
    for call in (envs.reset, envs.render, lambda: envs.step(np.zeros(2, int))):
        with pytest.raises(ClosedEnvironmentError):
            call()


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (lambda: VectorEnv("cartpole", 0), ValueError, "num_envs: expected an integer >= 1, got 0"),
        (lambda: VectorEnv("cartpole", 2, seed=-1), ValueError, "seed: expected an integer >= 0"),
        (lambda: VectorEnv("cartpole", 2, length=3), TypeError, "length"),
        (lambda: VectorEnv("cartpole", 2, max_episode_steps=0), ValueError, "max_episode_steps"),
        (lambda: VectorEnv("NoSuch-v1", 2), gymnasium.error.Error, "NoSuch"),
        (lambda: VectorEnv(3, 2), TypeError, "env: expected an id"),  # type: ignore[arg-type]
        (lambda: VectorEnv(object, 2), TypeError, "without reset"),
    ],
)
def test_wrong_argument_of_vector_env_is_refused(make: Any, kind: Any, words: str) -> None:
    with pytest.raises(kind, match=words):
        make()


def test_environment_that_raises_ends_the_vector() -> None:
    envs = VectorEnv("tests.collector.sample_environments:Failing", 3, at=3)
    envs.reset(seed=1)
    with pytest.raises(GameError, match="ZeroDivisionError: told to") as info:
        forever(lambda: envs.step(np.zeros(3, int)))
    assert isinstance(info.value.__cause__, ZeroDivisionError)
    envs.close()


def test_interrupt_leaves_a_vector_that_goes_on() -> None:
    class Interrupted(sample_environments.Free):
        def step(self, action: Any) -> Any:
            if self.steps == 2 and not done:
                done.append(True)
                signal.raise_signal(signal.SIGINT)
            return super().step(action)

    done: list[bool] = []
    envs = VectorEnv(Interrupted, 3)
    envs.reset(seed=1)
    interrupts = 0
    for _ in range(40):
        try:
            shown, rewards, *_ = envs.step(np.zeros(3, int))
        except KeyboardInterrupt:
            interrupts += 1
            continue
        assert (shown[:, 1] == rewards).all()
    assert (interrupts, len(envs.envs)) == (1, 3)
    assert done
    envs.close()


@pytest.mark.parametrize("seed", [7, np.int64(7), np.array(7)])
def test_np_random_of_built_in_games_is_seeded_by_reset_as_in_gymnasium(seed: Any) -> None:
    envs = VectorEnv("cartpole", 3)
    envs.reset(seed=seed)
    assert envs.np_random_seed == 7
    assert envs.np_random.random() == gymnasium.utils.seeding.np_random(7)[0].random()
    envs.reset()
    envs.reset(seed=[1, 2, 3])
    assert envs.np_random_seed == 7
    envs.np_random = np.random.default_rng(1)
    assert envs.np_random_seed == -1
    envs.close()


def test_np_random_without_a_seed_is_drawn_from_the_system() -> None:
    envs = VectorEnv("cartpole", 2)
    assert isinstance(envs.np_random, np.random.Generator)
    assert isinstance(envs.np_random_seed, int)
    assert VectorEnv("cartpole", 2).np_random_seed != envs.np_random_seed
    envs.close()


@pytest.mark.parametrize("num_threads", [0, 2])
def test_np_random_of_environments_is_that_of_each_as_in_gymnasium(num_threads: int) -> None:
    envs, theirs = VectorEnv("CartPole-v1", 3, num_threads=num_threads), sync("CartPole-v1", 3)
    envs.reset(seed=7)
    theirs.reset(seed=7)
    assert envs.np_random_seed == theirs.np_random_seed == (7, 8, 9)
    ours, others = envs.np_random, theirs.np_random
    assert [each.random() for each in ours] == [each.random() for each in others]
    with pytest.raises(AttributeError, match="np_random"):
        envs.np_random = np.random.default_rng(1)
    envs.close()
    theirs.close()


def test_gymnasium_is_imported_on_first_use() -> None:
    script = (
        "import sys, cogrs.collector; assert 'gymnasium' not in sys.modules; "
        "cogrs.VectorEnv; assert 'gymnasium' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=6 * LIMIT)
    script = (
        "import sys; sys.modules['gymnasium'] = None; import cogrs.collector\n"
        "try:\n    cogrs.collector.VectorEnv\nexcept ImportError as error:\n    print(error)"
    )
    run = [sys.executable, "-c", script]
    done = subprocess.run(run, check=True, timeout=6 * LIMIT, capture_output=True, text=True)
    assert "pip install gymnasium" in done.stdout
