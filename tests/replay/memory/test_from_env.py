"""The shortest program: a memory made from environments, a recorder, corrected samples."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from cogrs import ReplayMemory
from cogrs.collector import VectorEnv

NUM_ENVS = 16
LENGTH = 6


class Corridor(gymnasium.Env[Any, Any]):
    """A corridor: 1 steps right, 0 left; the right end pays 1."""

    action_space = spaces.Discrete(2)

    def __init__(self, observation: str = "place") -> None:
        place = spaces.Discrete(LENGTH, start=-2)
        time = spaces.Box(0, 100, (2,), np.float32)
        self._form = observation
        self.observation_space: Any = {
            "place": place,
            "dict": spaces.Dict({"place": place, "more": spaces.Tuple((time, place))}),
            "tuple": spaces.Tuple((place, spaces.Dict({"time": time}))),
        }[observation]
        if observation == "tuple":
            self.action_space = spaces.Tuple((spaces.Discrete(2), spaces.Box(0, 1, (2,))))
        self._place = self._time = 0

    def _observed(self) -> Any:
        place, time = np.int64(self._place - 2), np.full(2, self._time, np.float32)
        return {
            "place": place,
            "dict": {"place": place, "more": (time, place)},
            "tuple": (place, {"time": time}),
        }[self._form]

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._place = self._time = 0
        return self._observed(), {}

    def step(self, action: Any) -> Any:
        action = action[0] if isinstance(action, tuple) else action
        self._place = max(self._place + (1 if action else -1), 0)
        self._time += 1
        end = self._place == LENGTH - 1
        return self._observed(), float(end), end, self._time >= 20, {}


def corridors(form: str, mode: AutoresetMode = AutoresetMode.NEXT_STEP) -> SyncVectorEnv:
    return SyncVectorEnv([lambda: Corridor(form)] * NUM_ENVS, autoreset_mode=mode)


def test_prioritized_nstep_q_learner_of_sixteen_environments_learns_the_way() -> None:
    envs = corridors("place")
    memory = ReplayMemory.from_env(envs, capacity=10_000, gamma=0.9, n_step=3, alpha=0.6, seed=0)
    recorder = memory.recorder(NUM_ENVS)
    q, rng = np.zeros((LENGTH, 2)), np.random.default_rng(0)
    obs, _ = envs.reset(seed=0)
    for _ in range(400):
        explores = rng.random(NUM_ENVS) < 0.3
        greedy = (q[obs + 2] + 1e-6 * rng.random((NUM_ENVS, 2))).argmax(1)
        action = np.where(explores, rng.integers(2, size=NUM_ENVS), greedy)
        next_obs, reward, terminated, truncated, _ = envs.step(action)
        recorder.add(obs, action, reward, terminated, truncated, next_obs)
        obs = next_obs
        if memory.num_sampleable > 0:
            batch = memory.sample(32, nstep_return=True, beta=0.4)
            state, best = batch.prev.s[:, 0] + 2, q[batch.next.s[:, 0] + 2].max(1)
            error = batch.nstep_return + batch.nstep_discount * best - q[state, batch.prev.a]
            np.add.at(q, (state, batch.prev.a), 0.05 * batch.importance_weight * error)
            memory.update_priority(batch.id, np.abs(error))
    assert q.argmax(1)[:-1].tolist() == [1] * (LENGTH - 1)
    # One step before the end the return is 1, and each step further off 0.9 of that.
    np.testing.assert_allclose(q[:-1, 1], 0.9 ** np.arange(LENGTH - 2, -1, -1), atol=0.1)


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("form", ["place", "dict", "tuple"])
def test_recorded_transitions_equal_the_steps_of_the_environments(
    form: str, mode: AutoresetMode
) -> None:
    envs = corridors(form, mode)
    memory = ReplayMemory.from_env(envs, 5_000, seed=0)
    recorder = memory.recorder(NUM_ENVS, autoreset_mode=mode)
    bootstrapped: list[Any] = []

    def value_of(states: Any) -> Any:
        bootstrapped.append(states)
        return np.ones(len(place_of(states)))

    def place_of(states: Any) -> Any:
        return {
            "place": lambda: states,
            "dict": lambda: states["place"],
            "tuple": lambda: states[0],
        }[form]()

    obs, _ = envs.reset(seed=0)
    envs.action_space.seed(0)
    for _ in range(120):
        action = envs.action_space.sample()
        next_obs, reward, terminated, truncated, infos = envs.step(action)
        recorder.add(
            obs,
            action,
            reward,
            terminated,
            truncated,
            next_obs if mode == AutoresetMode.NEXT_STEP else None,
            infos=infos,
            bootstrap_value=value_of,
        )
        obs = next_obs
    assert memory.num_episode() > NUM_ENVS
    assert bootstrapped
    batch = memory.sample(500, beta=1.0)
    place, after = place_of(batch.prev.s)[:, 0] + 2, place_of(batch.next.s)[:, 0] + 2
    action = batch.prev.a[0] if form == "tuple" else batch.prev.a
    assert after.tolist() == np.maximum(place + 2 * action - 1, 0).tolist()
    assert batch.next_terminated.tolist() == (after == LENGTH - 1).tolist()
    assert batch.prev.r.tolist() == (after == LENGTH - 1).tolist()
    if form == "dict":
        assert batch.prev.s["more"][1].tolist() == batch.prev.s["place"].tolist()
        assert (batch.next.s["more"][0] == batch.prev.s["more"][0] + 1).all()


def test_single_environment_and_its_vector_have_the_same_memory() -> None:
    one = ReplayMemory.from_env(Corridor("dict"), 10)
    many = ReplayMemory.from_env(corridors("dict"), 10)
    assert one.state_buf.dtype == many.state_buf.dtype
    assert (one.action_buf.dtype, one.action_buf.shape) == (many.action_buf.dtype, ())


def test_single_environment_stored_step_by_step() -> None:
    env = Corridor("dict")
    memory = ReplayMemory.from_env(env, 100)
    for end in (0, 1):
        obs, _ = env.reset()
        memory.new_episode()
        terminated = truncated = False
        while not (terminated or truncated):
            next_obs, reward, terminated, truncated, _ = env.step(end)
            memory.add_entry(
                state=obs, action=end, reward=reward, prob=1, value=0, info=np.zeros(0), weight=1
            )
            obs = next_obs
        memory.close_episode(terminated=terminated, truncated=truncated, final_state=obs)
    assert [memory.episode(k).truncated for k in (0, 1)] == [True, False]
    assert memory.num_sampleable == 20 + LENGTH - 1


def test_from_env_takes_built_in_games() -> None:
    envs = VectorEnv("cartpole", num_envs=4)
    memory = ReplayMemory.from_env(envs, 100)
    assert (memory.state_buf.shape, memory.state_buf.dtype) == ((4,), np.float32)
    assert memory.action_buf.shape == ()
    envs.close()


@pytest.mark.parametrize("env", [None, "CartPole-v1", spaces.Discrete(2)])
def test_invalid_environment_is_refused(env: Any) -> None:
    with pytest.raises(TypeError, match=r"^env: expected an environment of Gymnasium, got"):
        ReplayMemory.from_env(env, 10)


def test_settings_equal_the_settings_of_from_spaces() -> None:
    memory = ReplayMemory.from_env(Corridor(), 10, gamma=0.5, n_step=2, frame_stack=3, cache_size=4)
    assert (memory.discount_factor, memory.multi_step) == ([0.5], 2)
    assert (memory.frame_stack, memory.cache_size) == (3, 4)
    with pytest.raises(ValueError, match=r"^n_step: expected"):
        ReplayMemory.from_env(Corridor(), 10, n_step=0)
