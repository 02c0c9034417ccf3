"""Gymnasium's wrappers of vectors around ours, and `gymnasium.make_vec` for our ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")
from gymnasium import spaces  # noqa: E402
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv  # noqa: E402
from gymnasium.wrappers import TimeLimit, vector  # noqa: E402

import cogrs  # noqa: E402
from cogrs.collector import VectorEnv  # noqa: E402
from cogrs.collector.single import SingleEnv  # noqa: E402
from tests.collector.build import same  # noqa: E402
from tests.collector.vector_environments import rich_frame  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

# Of Gymnasium, about bounds that it rounds or finds too wide.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore:overflow:RuntimeWarning")

COUNT = 3
NEW = spaces.Box(-1, 1, (2,), np.float32)


def plus(array: Any) -> Any:
    return array + 1


def half(array: Any) -> Any:
    return array[..., :2] / 2


WRAPPERS: dict[str, Any] = {
    "RecordEpisodeStatistics": vector.RecordEpisodeStatistics,
    "DictInfoToList": vector.DictInfoToList,
    "VectorizeTransformObservation": lambda envs: vector.VectorizeTransformObservation(
        envs, gymnasium.wrappers.TransformObservation, func=half, observation_space=NEW
    ),
    "VectorizeTransformReward": lambda envs: vector.VectorizeTransformReward(
        envs, gymnasium.wrappers.TransformReward, func=plus
    ),
    "VectorizeTransformAction": lambda envs: vector.VectorizeTransformAction(
        envs,
        gymnasium.wrappers.TransformAction,
        func=lambda action: action,
        action_space=envs.single_action_space,
    ),
    "TransformObservation": lambda envs: vector.TransformObservation(envs, half),
    "TransformReward": lambda envs: vector.TransformReward(envs, plus),
    "TransformAction": lambda envs: vector.TransformAction(envs, lambda actions: actions // 1),
    "FlattenObservation": vector.FlattenObservation,
    "ReshapeObservation": lambda envs: vector.ReshapeObservation(envs, (1, 3)),
    "DtypeObservation": lambda envs: vector.DtypeObservation(envs, np.float64),
    "RescaleObservation": lambda envs: vector.RescaleObservation(envs, -1.0, 1.0),
    "NormalizeObservation": vector.NormalizeObservation,
    "NormalizeReward": vector.NormalizeReward,
    "ClipReward": lambda envs: vector.ClipReward(envs, 0.1, 0.4),
}


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("name", WRAPPERS)
def test_wrapped_vector_equals_wrapped_sync_vector_env(name: str, mode: AutoresetMode) -> None:
    wrap = WRAPPERS[name]
    factories = [lambda number=number: rich_frame(number) for number in range(COUNT)]
    envs, sync = (kind(factories, autoreset_mode=mode) for kind in (VectorEnv, SyncVectorEnv))
    try:
        theirs = wrap(sync)
    except ValueError as refusal:  # it is only for next-step resets
        with pytest.raises(ValueError, match=str(refusal).partition(",")[0]):
            wrap(envs)
        return
    ours = wrap(envs)
    for kind in ("observation_space", "single_observation_space", "action_space", "num_envs"):
        assert getattr(ours, kind) == getattr(theirs, kind)
    assert ours.np_random_seed == theirs.np_random_seed or ours.np_random_seed is not None
    ours.action_space.seed(1)
    same(ours.reset(seed=2), theirs.reset(seed=2))
    for _ in range(25):
        actions = ours.action_space.sample()
        mine, its = ours.step(actions), theirs.step(actions)
        if name == "RecordEpisodeStatistics":
            for infos in (mine[-1], its[-1]):
                infos.get("episode", {}).pop("t", None)
        same(mine, its)
    if name == "RecordEpisodeStatistics":
        assert list(ours.return_queue) == list(theirs.return_queue)
        assert ours.episode_count == theirs.episode_count > 10
    assert ours.closed is False
    ours.close()
    assert ours.closed
    theirs.close()


@pytest.mark.parametrize("name", ["RescaleAction", "ClipAction"])
def test_wrapped_actions_equal_actions_of_wrapped_sync_vector_env(name: str) -> None:
    options = {"min_action": -1.0, "max_action": 1.0} if name == "RescaleAction" else {}
    wrap = getattr(vector, name)
    ours = wrap(VectorEnv("Pendulum-v1", COUNT), **options)
    theirs = wrap(SyncVectorEnv([lambda: gymnasium.make("Pendulum-v1")] * COUNT), **options)
    same(ours.reset(seed=2), theirs.reset(seed=2))
    for actions in np.linspace(-3, 3, 20 * COUNT).reshape(20, COUNT, 1).astype(np.float32):
        given = np.clip(actions, -1, 1) if options else actions
        same(ours.step(given), theirs.step(given))
    ours.close()
    theirs.close()


def test_filtered_observations_equal_filtered_observations_of_sync_vector_env() -> None:
    class Parts(type(rich_frame(0))):  # type: ignore[misc]
        observation_space = spaces.Dict({"a": NEW, "r": spaces.Discrete(9)})

        def shown(self) -> Any:
            return {"a": np.zeros(2, np.float32) + self.steps / 9, "r": self.steps}

    factories = [lambda number=number: Parts(number) for number in range(COUNT)]
    ours = vector.FilterObservation(VectorEnv(factories), ["r"])
    theirs = vector.FilterObservation(SyncVectorEnv(factories), ["r"])
    same(ours.reset(seed=2), theirs.reset(seed=2))
    for _ in range(9):
        same(ours.step(np.zeros(COUNT, int)), theirs.step(np.zeros(COUNT, int)))
    ours.close()
    theirs.close()


@pytest.mark.parametrize("shape", [(4, 5), (2, 2)])
def test_images_are_made_gray_and_resized_as_of_sync_vector_env(shape: tuple[int, int]) -> None:
    pytest.importorskip("cv2")

    class Images(type(rich_frame(0))):  # type: ignore[misc]
        observation_space = spaces.Box(0, 255, (8, 6, 3), np.uint8)

        def shown(self) -> Any:
            return np.arange(144, dtype=np.uint8).reshape(8, 6, 3) + self.steps

    factories = [lambda number=number: Images(number) for number in range(COUNT)]
    ours, theirs = (
        vector.ResizeObservation(vector.GrayscaleObservation(each), shape)
        for each in (VectorEnv(factories), SyncVectorEnv(factories))
    )
    same(ours.reset(seed=2), theirs.reset(seed=2))
    for _ in range(9):
        same(ours.step(np.zeros(COUNT, int)), theirs.step(np.zeros(COUNT, int)))
    ours.close()
    theirs.close()


def test_arrays_of_torch_go_in_and_out() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("array_api_compat")
    envs = vector.NumpyToTorch(VectorEnv("cartpole", COUNT, seed=1))
    shown, _ = envs.reset()
    assert isinstance(shown, torch.Tensor)
    shown, rewards, *_ = envs.step(torch.zeros(COUNT, dtype=torch.int64))
    assert shown.shape == (COUNT, 4)
    assert rewards.tolist() == [1.0] * COUNT
    envs.close()


def test_arrays_are_converted_between_numpy_and_jax() -> None:
    jax = pytest.importorskip("jax")
    pytest.importorskip("array_api_compat")
    envs = vector.ArrayConversion(
        VectorEnv("cartpole", COUNT, seed=1), env_xp=np, target_xp=jax.numpy
    )
    shown, _ = envs.reset()
    assert isinstance(shown, jax.Array)
    shown, rewards, *_ = envs.step(jax.numpy.zeros(COUNT, int))
    assert isinstance(rewards, jax.Array)
    assert shown.shape == (COUNT, 4)
    envs.close()


@pytest.mark.parametrize("env", ["cartpole", "CartPole-v1"])
@pytest.mark.parametrize("wrapper", ["JaxToNumpy", "JaxToTorch", "NumpyToTorch"])
def test_converted_arrays_have_the_values_of_the_vector_itself(wrapper: str, env: str) -> None:
    pytest.importorskip("array_api_compat")
    needed = [name for name in ("jax", "torch") if name in wrapper.lower()]
    modules = {name: pytest.importorskip(name) for name in needed}
    kind = modules["torch"].Tensor if "torch" in modules else np.ndarray
    plain, wrapped = VectorEnv(env, COUNT), getattr(vector, wrapper)(VectorEnv(env, COUNT))
    shown, _ = wrapped.reset(seed=1)
    assert isinstance(shown, kind)
    np.testing.assert_array_equal(np.asarray(shown), plain.reset(seed=1)[0])
    for step in range(60):
        actions = np.full(COUNT, step // 3 % 2)
        converted = modules["torch"].from_numpy(actions) if "torch" in modules else actions
        *found, _ = wrapped.step(converted)
        *expected, _ = plain.step(actions)
        for ours, theirs in zip(found, expected, strict=True):
            assert isinstance(ours, kind)
            np.testing.assert_array_equal(np.asarray(ours), theirs)
    plain.close()
    wrapped.close()


def test_environment_of_jax_arrays_takes_and_returns_numpy_arrays() -> None:
    jax = pytest.importorskip("jax")
    pytest.importorskip("array_api_compat")

    class Functional(gymnasium.Env[Any, Any]):
        observation_space = spaces.Box(-9, 9, (2,), np.float32)
        action_space = spaces.Discrete(3)

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            self.state = jax.numpy.zeros(2, np.float32)
            return self.state, {}

        def step(self, action: Any) -> Any:
            self.state = self.state + jax.numpy.asarray(action, np.float32)
            return self.state, self.state.sum(), self.state[0] > 4, jax.numpy.asarray(False), {}

    envs = vector.JaxToNumpy(VectorEnv(Functional, 2))
    assert envs.reset(seed=1)[0].tolist() == [[0, 0], [0, 0]]
    shown, rewards, terminated, truncated, _ = envs.step(np.array([1, 2]))
    assert shown.tolist() == [[1, 1], [2, 2]]
    assert rewards.tolist() == [2, 4]
    assert not np.any([terminated, truncated])
    assert envs.step(np.array([1, 2]))[0].tolist() == [[2, 2], [4, 4]]
    assert envs.step(np.array([1, 1]))[2].tolist() == [False, True]
    envs.close()


def test_frames_of_a_vector_are_recorded_and_shown() -> None:
    pytest.importorskip("cv2")
    pytest.importorskip("pygame")
    envs = vector.HumanRendering(VectorEnv(rich_frame, COUNT), screen_size=(64, 64))
    envs.reset(seed=1)
    envs.step(np.zeros(COUNT, int))
    envs.close()


def test_videos_of_a_vector_are_written(tmp_path: Path) -> None:
    pytest.importorskip("moviepy")
    envs = vector.RecordVideo(
        VectorEnv(rich_frame, COUNT), str(tmp_path / "videos"), episode_trigger=lambda _: True
    )
    envs.reset(seed=1)
    for _ in range(12):
        envs.step(np.zeros(COUNT, int))
    envs.close()
    assert list(tmp_path.glob("videos/*.mp4"))


@pytest.mark.parametrize("mode", [None, "vector_entry_point", "sync", "async"])
@pytest.mark.parametrize("name", ["CartPole-v1", "Catch-v0"])
def test_make_vec_of_our_ids_takes_every_vectorization_mode(name: str, mode: Any) -> None:
    envs = gymnasium.make_vec(f"cogrs/{name}", 2, vectorization_mode=mode)
    kinds = {"sync": SyncVectorEnv, "async": AsyncVectorEnv}
    assert type(envs) is kinds.get(mode, cogrs.VectorEnv)
    assert envs.spec.id == f"cogrs/{name}"
    assert isinstance(envs.metadata["autoreset_mode"], AutoresetMode)
    envs.action_space.seed(1)
    shown, _ = envs.reset(seed=1)
    assert shown.shape[0] == 2
    ends = 0
    for _ in range(60):
        shown, _, terminated, truncated, _ = envs.step(envs.action_space.sample())
        assert envs.observation_space.contains(shown)
        ends += int((terminated | truncated).sum())
    assert ends > 1
    envs.close()


def test_make_vec_passes_our_options_and_its_wrappers_on() -> None:
    envs = gymnasium.make_vec("cogrs/CartPole-v1", 2, autoreset_mode="SameStep", seed=3)
    assert envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert str(envs) == "VectorEnv(cogrs/CartPole-v1, num_envs=2)"
    again = gymnasium.make_vec(envs.spec)
    same(envs.reset(seed=5), again.reset(seed=5))
    again.close()
    envs.close()
    envs = gymnasium.make_vec(
        "cogrs/CartPole-v1",
        2,
        vectorization_mode="sync",
        wrappers=[lambda env: TimeLimit(env, 3)],
        vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP},
    )
    envs.reset(seed=1)
    ends = [envs.step(np.array([0, 1]))[3].all() for _ in range(6)]
    assert ends == [False, False, True] * 2
    assert isinstance(envs.envs[0].unwrapped, SingleEnv)
    envs.close()


def test_single_environment_of_our_ids_passes_gymnasium_s_checker() -> None:
    from gymnasium.utils.env_checker import check_env

    check_env(gymnasium.make("cogrs/CartPole-v1").unwrapped, skip_render_check=True)
