"""`VecEnv` beside `DummyVecEnv` of Stable-Baselines3."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

import cogrs
from cogrs.collector import GameError
from cogrs.sb3 import VecEnv
from tests.sb3.counter import Counter


def both(by_key: bool = False, count: int = 3, **more: Any) -> tuple[VecEnv, DummyVecEnv]:
    def make() -> Counter:
        return Counter(by_key=by_key, **more)

    return VecEnv(cogrs.VectorEnv(make, num_envs=count)), DummyVecEnv([make] * count)


def equal(one: Any, other: Any) -> None:
    if isinstance(other, dict):
        assert set(one) == set(other)
        for key in other:
            equal(one[key], other[key])
    elif isinstance(other, list):
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            equal(left, right)
    else:
        assert np.asarray(one).dtype == np.asarray(other).dtype
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("by_key", [False, True])
def test_environments_give_the_results_of_dummy_vec_env(by_key: bool) -> None:
    ours, other = both(by_key)
    for env in (ours, other):
        env.seed(7)
    equal(ours.reset(), other.reset())
    equal(ours.reset_infos, other.reset_infos)
    rng = np.random.default_rng(0)
    ends = cuts = 0
    for _ in range(40):
        actions = (rng.random(3) < 0.2).astype(np.int64)
        made, expected = ours.step(actions), other.step(actions)
        for part, like in zip(made, expected, strict=True):
            equal(part, like)
        equal(ours.reset_infos, other.reset_infos)
        ends += int(expected[2].sum())
        cuts += sum(info["TimeLimit.truncated"] for info in expected[3])
    assert ends > cuts > 0
    ours.close()


def of_gymnasium(mode: AutoresetMode) -> gymnasium.vector.VectorEnv[Any, Any, Any]:
    modes = {"autoreset_mode": mode}
    return SyncVectorEnv([Counter] * 3, **modes)


def in_processes(mode: AutoresetMode) -> cogrs.VectorEnv:
    return cogrs.VectorEnv("tests.sb3.counter:Counter", 3, processes=2, autoreset_mode=mode)


def in_threads(mode: AutoresetMode) -> cogrs.VectorEnv:
    return cogrs.VectorEnv(Counter, 3, num_threads=2, autoreset_mode=mode)


@pytest.mark.parametrize("make", [of_gymnasium, in_processes, in_threads])
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_every_autoreset_mode_is_shown_as_a_reset_in_the_same_step(
    mode: AutoresetMode, make: Callable[[AutoresetMode], Any]
) -> None:
    ours = VecEnv(make(mode))
    other = DummyVecEnv([Counter] * 3)
    for env in (ours, other):
        env.seed(3)
    equal(ours.reset(), other.reset())
    rng = np.random.default_rng(1)
    for _ in range(30):
        actions = (rng.random(3) < 0.2).astype(np.int64)
        for part, like in zip(ours.step(actions), other.step(actions), strict=True):
            equal(part, like)
        equal(ours.reset_infos, other.reset_infos)
    ours.close()


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_built_in_game_ends_with_its_last_state_and_begins_in_the_same_step(
    mode: AutoresetMode,
) -> None:
    envs = cogrs.VectorEnv("cartpole", num_envs=4, max_episode_steps=12, autoreset_mode=mode)
    ours = VecEnv(envs)
    ours.seed(0)
    shown = ours.reset()
    assert (np.abs(shown) <= 0.05).all()
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(100):
        shown, rewards, done, infos = ours.step(rng.integers(0, 2, 4))
        assert (shown.dtype, rewards.dtype, done.dtype) == (np.float32, np.float32, np.bool_)
        for env in range(4):
            assert ("terminal_observation" in infos[env]) == done[env]
            if done[env]:
                final = infos[env]["terminal_observation"]
                fell = abs(final[0]) > 2.4 or abs(final[2]) > 12 * 2 * np.pi / 360
                assert infos[env]["TimeLimit.truncated"] == (not fell)
                assert (np.abs(shown[env]) <= 0.05).all()
                seen.add(fell)
    assert seen == {True, False}
    ours.close()


def test_seed_and_options_are_used_by_the_next_reset_only() -> None:
    ours, other = both()
    for env in (ours, other):
        env.seed(1)
        env.set_options({"start": 5})
    for _ in range(3):
        equal(ours.reset(), other.reset())
    for env in (ours, other):
        env.set_options([{"start": 1}, {"start": 2}, {"start": 3}])
    equal(ours.reset(), other.reset())
    equal(ours.reset_infos, other.reset_infos)
    ours.close()


def test_attributes_and_methods_reach_the_environments() -> None:
    ours, other = both()
    for env in (ours, other):
        env.reset()
        env.set_attr("limit", 2, indices=[1])
    for indices in (None, 1, [0, 2]):
        assert ours.get_attr("limit", indices) == other.get_attr("limit", indices)
        made, expected = (
            env.env_method("double", 4, plus=1, indices=indices) for env in (ours, other)
        )
        assert made == expected
    ours.set_attr("limit", 7)
    assert ours.get_attr("limit") == [7, 7, 7]
    assert ours.has_attr("limit")
    assert not ours.has_attr("nothing")
    with pytest.raises(AttributeError, match="nothing"):
        ours.env_method("nothing")
    ours.close()


def test_method_of_an_environment_is_an_attribute_that_is_not_called() -> None:
    ours, other = both()
    for env in (ours, other):
        env.seed(0)
        env.reset()
        env.step(np.zeros(3, np.int64))
        assert env.has_attr("reset")
        assert [reset.__name__ for reset in env.get_attr("reset")] == ["reset"] * 3
        assert env.get_attr("at") == [1, 1, 1]
    ours.close()


def test_attributes_and_methods_reach_environments_in_other_processes() -> None:
    ours = VecEnv(in_processes(AutoresetMode.NEXT_STEP))
    ours.reset()
    ours.set_attr("limit", 2, indices=[1])
    assert ours.get_attr("limit") == [4, 2, 4]
    assert ours.get_attr("limit", [0, 1]) == [4, 2]
    assert ours.env_method("double", 4, plus=1) == [13, 11, 13]
    with pytest.raises(ValueError, match="indices: expected all environments, where they are not"):
        ours.env_method("double", 4, indices=[1])
    with pytest.raises(AttributeError, match="nothing"):
        ours.env_method("nothing")
    assert not ours.has_attr("nothing")
    assert ours.env_is_wrapped(Monitor) == [False] * 3
    ours.close()


def test_environment_that_failed_is_replaced_before_its_attributes_are_read() -> None:
    ours, _ = both()
    ours.reset()
    ours.set_attr("limit", "none", indices=[1])
    with pytest.raises(GameError, match="environment 1"):
        ours.step(np.zeros(3, np.int64))
    assert ours.get_attr("limit") == [4, 4, 4]
    assert ours.env_is_wrapped(Monitor) == [False] * 3
    ours.close()


def test_built_in_games_have_the_attributes_of_their_vector() -> None:
    ours = VecEnv(cogrs.VectorEnv("cartpole", num_envs=2))
    assert ours.get_attr("render_mode") == [None, None]
    assert ours.get_attr("spec", [1]) == [ours.envs.spec]
    assert not ours.has_attr("nothing")
    assert ours.env_is_wrapped(Monitor) == [False, False]
    with pytest.raises(AttributeError):
        ours.set_attr("length", 2.0)
    with pytest.raises(AttributeError):
        ours.env_method("swing")
    ours.close()


def test_wrappers_of_environments_are_found() -> None:
    ours = VecEnv(cogrs.VectorEnv(lambda: Monitor(Counter()), num_envs=2))
    assert ours.env_is_wrapped(Monitor) == [True, True]
    assert ours.env_is_wrapped(Monitor, indices=0) == [True]
    assert ours.env_is_wrapped(gymnasium.wrappers.TimeLimit) == [False, False]
    ours.close()


def test_images_equal_the_images_of_dummy_vec_env() -> None:
    ours, other = both(render_mode="rgb_array")
    for env in (ours, other):
        env.reset()
        env.step(np.zeros(3, np.int64))
    assert ours.render_mode == "rgb_array"
    equal(list(ours.get_images()), list(other.get_images()))
    equal(ours.render(), other.render())
    assert ours.metadata["render_modes"] == ["human", "rgb_array"]
    ours.close()


def test_images_without_a_render_mode_are_a_warning() -> None:
    ours, _ = both()
    with pytest.warns(UserWarning, match="render_mode: expected 'rgb_array', got None"):
        assert ours.get_images() == [None, None, None]
    ours.close()


def test_object_that_is_not_a_vector_environment_is_refused() -> None:
    with pytest.raises(TypeError, match=r"envs: expected a cogrs\.VectorEnv, got Counter"):
        VecEnv(Counter())  # type: ignore[arg-type]
    envs = SyncVectorEnv([Counter])
    envs.metadata = {"autoreset_mode": "now and then"}
    with pytest.raises(ValueError, match="NEXT_STEP, SAME_STEP, DISABLED, got 'now and then'"):
        VecEnv(envs)
    envs.close()
