"""`ReplayBuffer` beside the buffers of Stable-Baselines3."""

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from stable_baselines3.common import buffers
from stable_baselines3.common.type_aliases import DictReplayBufferSamples, ReplayBufferSamples

from cogrs import ReplayMemory
from cogrs.sb3 import ReplayBuffer, replay_buffer
from tests.sb3.rollout import BOX, DISCRETE, Step, rollout, rows_of, stacked_frames, steps_of

DICT = spaces.Dict(
    {
        "image": spaces.Box(0, 255, (3, 2, 2), np.uint8),
        "place": spaces.Discrete(5),
        "speed": spaces.Box(-1, 1, (2,), np.float64),
    }
)
SPACES = {
    "box": BOX,
    "discrete": spaces.Discrete(9),
    "multi-discrete": spaces.MultiDiscrete([3, 5]),
    "multi-binary": spaces.MultiBinary(4),
    "double": spaces.Box(-1, 1, (2, 2), np.float64),
    "dict": DICT,
}
ACTIONS = {
    "discrete": DISCRETE,
    "box": spaces.Box(-1, 1, (2,), np.float32),
    "double": spaces.Box(-1, 1, (2,), np.float64),
    "multi-discrete": spaces.MultiDiscrete([3, 5]),
}
FIELDS = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")
NESTED = spaces.Dict(outer=spaces.Dict(inner=BOX))


def made(
    size: int, num_envs: int = 1, space: Any = BOX, actions: Any = DISCRETE, **more: Any
) -> Any:
    more = {"seed": 0, **more}
    return ReplayBuffer(size, space, actions, "cpu", num_envs, **more)


def theirs(size: int, num_envs: int = 1, space: Any = BOX, actions: Any = DISCRETE) -> Any:
    is_dict = isinstance(space, spaces.Dict)
    kind = buffers.DictReplayBuffer if is_dict else buffers.ReplayBuffer
    return kind(size, space, actions, "cpu", num_envs)


def equal(one: Any, other: Any) -> None:
    if isinstance(one, dict):
        assert list(one) == list(other)
        for key in one:
            equal(one[key], other[key])
        return
    assert one.dtype == other.dtype
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("actions", ACTIONS)
def test_buffer_holds_the_steps_of_the_buffer_of_stable_baselines3_field_by_field(
    space: str, actions: str, num_envs: int
) -> None:
    kinds = SPACES[space], ACTIONS[actions]
    ours, other = made(150, num_envs, *kinds), theirs(150, num_envs, *kinds)
    for step in rollout(40, num_envs, gap=0.05, space=kinds[0], action_space=kinds[1]):
        ours.add(*step)
        other.add(*step)
    for field in FIELDS:
        equal(getattr(ours, field), getattr(other, field))
    assert (ours.pos, ours.full, ours.size()) == (other.pos, other.full, other.size())
    drawn = ours.sample(2000)
    kind = DictReplayBufferSamples if space == "dict" else ReplayBufferSamples
    assert type(drawn) is kind
    assert rows_of(drawn) == steps_of(other, 40)
    expected = other.sample(7)
    for part, like in zip(ours.sample(7)[:5], expected[:5], strict=True):
        for key in part if isinstance(part, dict) else [...]:
            assert part[key].dtype == like[key].dtype
            assert part[key].shape == like[key].shape


def test_step_is_drawn_as_soon_as_added() -> None:
    buffer = made(100)
    for added, step in enumerate(rollout(30, end=0.0), 1):
        buffer.add(*step)
        drawn = buffer.sample(1000)
        assert len(rows_of(drawn)) == added
        newest = torch.from_numpy(step.next_obs[0])
        assert (drawn.next_observations == newest).all(dim=1).any()


def test_next_observation_that_nothing_follows_stays_the_last_of_its_episode() -> None:
    # As CleanRL adds: `next_obs` has the last observation of an episode that was truncated, and
    # `done` is False there.
    buffer = made(100, handle_timeout_termination=False, n_step=2, gamma=0.5)
    one = np.ones((1, 3), np.float32)
    infos: dict[str, Any] = {}
    buffer.add(0 * one, 1 * one, np.array([1]), np.array([1.0]), np.array([False]), infos)
    buffer.add(1 * one, 2 * one, np.array([1]), np.array([2.0]), np.array([False]), infos)
    buffer.add(7 * one, 8 * one, np.array([1]), np.array([4.0]), np.array([True]), infos)
    drawn = buffer.sample(300)
    rows = {
        tuple(float(part[row].flatten()[0]) for part in drawn if part is not None)
        for row in range(300)
    }
    # Observation, action, next one, whether it terminated, reward, discount.
    assert rows == {
        (0.0, 1.0, 2.0, 0.0, 2.0, 0.25),
        (1.0, 1.0, 2.0, 0.0, 2.0, 0.5),
        (7.0, 1.0, 8.0, 1.0, 4.0, 0.5),
    }


def test_draws_are_uniform_over_steps_of_open_and_closed_episodes() -> None:
    buffer = made(100, 2)
    for step in rollout(20, 2, end=0.2):
        buffer.add(*step)
    drawn = buffer.sample(40_000).rewards.numpy().ravel()
    _, counts = np.unique(drawn, return_counts=True)
    assert len(counts) == 40
    # Chi-square with 39 degrees of freedom: 80.1 is exceeded once in 10,000 times.
    assert ((counts - 1000) ** 2 / 1000).sum() < 80.1


@pytest.mark.parametrize("num_envs", [1, 2])
@pytest.mark.parametrize("n_step", [2, 5])
def test_n_step_rows_equal_the_rows_of_the_buffer_of_stable_baselines3(
    n_step: int, num_envs: int
) -> None:
    # Without gaps, which that buffer does not see; and more steps than a piece of an episode has.
    ours = made(600 * num_envs, num_envs, n_step=n_step, gamma=0.9)
    other = buffers.NStepReplayBuffer(
        600 * num_envs, BOX, DISCRETE, "cpu", num_envs, n_steps=n_step, gamma=0.9
    )
    for step in rollout(500, num_envs, end=0.01):
        ours.add(*step)
        other.add(*step)
    drawn = [part.numpy() for part in ours.sample(20_000)]
    found = {state.tobytes(): row for row, state in enumerate(drawn[0])}
    assert len(found) == 500 * num_envs
    expected = [part.numpy() for part in other._get_samples(np.arange(500).repeat(8))]
    rows = [found[state.tobytes()] for state in expected[0]]
    for part, like in zip(drawn, expected, strict=True):
        np.testing.assert_allclose(part[rows], like, rtol=1e-5, atol=1e-6)


@given(
    size=st.integers(1, 40),
    num_envs=st.sampled_from([1, 2, 3, 8]),
    n_step=st.integers(1, 4),
    # Several: of environments with short episodes beside others with long ones.
    end=st.sampled_from([(0.0,), (0.05,), (0.5,), (1.0,), (1.0, 0.0, 0.5, 0.02)]),
    gap=st.sampled_from([0.0, 0.3]),
    seed=st.integers(0, 1000),
)
@settings(max_examples=40, deadline=None)
def test_full_buffer_holds_the_newest_half_and_nothing_much_older(
    size: int, num_envs: int, n_step: int, end: tuple[float, ...], gap: float, seed: int
) -> None:
    buffer = made(size * num_envs, num_envs, n_step=n_step)
    ends = np.resize(end, num_envs)
    steps = list(rollout(4 * size + 40, num_envs, end=ends, gap=gap, seed=seed))
    for number, step in enumerate(steps):
        buffer.add(*step)
        assert buffer.size() == min(number + 1, size)
    age = {
        step.obs[env].tobytes(): len(steps) - 1 - number
        for number, step in enumerate(steps)
        for env in range(num_envs)
    }
    held = {row.tobytes() for row in buffer._writer.held().prev.s}
    ages = {age[row] for row in held}
    per_env = [
        sum(step.obs[env].tobytes() in held for step in steps[-size // 2 :])
        for env in range(num_envs)
    ]
    assert per_env == [len(steps[-size // 2 :])] * num_envs
    # A piece of an episode is dropped as a whole.
    assert max(ages) <= size + max(size // 16, 8 * (1 + n_step)) + n_step


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("num_envs", [1, 2])
def test_stacks_of_frames_are_stored_as_single_frames_and_sampled_whole(
    num_envs: int, channels: int
) -> None:
    space = spaces.Box(0, 255, (4 * channels, 6, 5), np.uint8)
    ours = made(200 * num_envs, num_envs, space, optimize_memory_usage=True)
    other = theirs(200 * num_envs, num_envs, space)
    for step in stacked_frames(150, num_envs, channels=channels):
        ours.add(*step)
        other.add(*step)
    assert ours.memory.frame_stack == 4
    assert ours.memory.state_buf.shape == (channels, 6, 5)
    for field in FIELDS:
        equal(getattr(ours, field), getattr(other, field))
    assert rows_of(ours.sample(4000)) == steps_of(other, 150)


def test_images_take_a_fifth_of_the_memory_of_the_buffer_of_stable_baselines3() -> None:
    space = spaces.Box(0, 255, (4, 84, 84), np.uint8)
    ours = made(2000, 1, space, optimize_memory_usage=True)
    other = theirs(2000, 1, space)
    step = next(stacked_frames(1))
    image = np.zeros((1, 4, 84, 84), np.uint8)
    image[0, 3] = 1
    ours.add(image, np.roll(image, -1, axis=1), *step[2:])
    parts = other.observations, other.next_observations, other.actions, other.rewards, other.dones
    assert sum(part.nbytes for part in parts) > 5 * ours.memory.nbytes


def test_stack_of_frames_seen_too_soon_is_taken_apart_again() -> None:
    # Black images are a stack of any number of frames.
    space = spaces.Box(0, 255, (6, 4, 4), np.uint8)
    ours = made(100, 2, space, optimize_memory_usage=True)
    other = theirs(100, 2, space)
    steps = list(rollout(30, 2, space=space))
    black = np.zeros((2, 6, 4, 4), np.uint8)
    for number, step in enumerate(steps[:10]):
        steps[number] = step._replace(obs=black, next_obs=black)
    for number, step in enumerate(steps):
        ours.add(*step)
        other.add(*step)
        assert ours.memory.frame_stack == (6 if number < 10 else 1)
    for field in FIELDS:
        equal(getattr(ours, field), getattr(other, field))


@pytest.mark.parametrize("optimize", [False, True])
@pytest.mark.parametrize("space", ["box", "dict"])
def test_pickled_buffer_holds_the_same_steps_and_takes_more(space: str, optimize: bool) -> None:
    steps = list(rollout(60, 2, space=SPACES[space]))
    one = made(100, 2, SPACES[space], n_step=3, optimize_memory_usage=optimize)
    for step in steps[:30]:
        one.add(*step)
    other = pickle.loads(pickle.dumps(one))
    assert (other.pos, other.size(), other.n_step) == (one.pos, one.size(), 3)
    for field in FIELDS:
        equal(getattr(one, field), getattr(other, field))
    assert rows_of(one.sample(3000)) == rows_of(other.sample(3000))
    for step in steps[30:]:
        one.add(*step)
        other.add(*step)
    for field in FIELDS:
        equal(getattr(one, field), getattr(other, field))


def test_pickle_of_an_empty_buffer_can_be_filled() -> None:
    buffer = pickle.loads(pickle.dumps(made(10, optimize_memory_usage=True)))
    for step in rollout(5):
        buffer.add(*step)
    assert len(rows_of(buffer.sample(100))) == 5


def test_same_seed_draws_the_same_rows_and_leaves_the_generator_of_numpy_alone() -> None:
    drawn = []
    for _ in range(2):
        np.random.seed(5)
        buffer = made(50, seed=None)
        assert np.random.rand() == np.random.RandomState(5).rand()
        for step in rollout(20):
            buffer.add(*step)
        drawn.append(buffer.sample(100).rewards)
    assert torch.equal(*drawn)


def test_reset_drops_all_steps() -> None:
    buffer = made(50)
    for step in rollout(20):
        buffer.add(*step)
    buffer.reset()
    assert buffer.size() == 0
    with pytest.raises(ValueError, match="an empty one"):
        buffer.sample(1)
    for step in rollout(3, seed=1):
        buffer.add(*step)
    assert len(rows_of(buffer.sample(100))) == 3


def test_prioritized_draws_follow_the_errors_sent_back() -> None:
    buffer = made(50, sampler="prioritized", alpha=1.0, priority_epsilon=0.0)
    for step in rollout(20):
        buffer.add(*step)
    drawn = buffer.sample(500)
    assert len(np.unique(drawn.ids)) == 20
    assert torch.equal(drawn.weights, torch.ones(500, 1))
    ids = np.unique(drawn.ids)
    errors = np.zeros(20)
    errors[3], errors[7] = -1.0, 3.0
    buffer.update_priorities(ids, errors)
    drawn = buffer.sample(8000)
    found, counts = np.unique(drawn.ids, return_counts=True)
    assert set(found) == {ids[3], ids[7]}
    # Binomial, 8000 draws with probability 1/4: 4 standard deviations.
    assert abs(counts[list(found).index(ids[3])] - 2000) < 155
    # (N * P) ** -beta, of 2 steps with weight.
    rare = drawn.weights[torch.from_numpy(drawn.ids == ids[3])]
    often = drawn.weights[torch.from_numpy(drawn.ids == ids[7])]
    assert torch.equal(rare, torch.ones_like(rare))
    torch.testing.assert_close(often, torch.full_like(often, 3**-0.4))


def test_new_step_gets_the_largest_priority() -> None:
    buffer = made(50, sampler="prioritized", alpha=1.0)
    steps = list(rollout(20))
    for step in steps[:-1]:
        buffer.add(*step)
    ids = np.unique(buffer.sample(1000).ids)
    buffer.update_priorities(ids, np.full(len(ids), 1e-3))
    buffer.update_priorities(ids[:1], [100.0])
    buffer.add(*steps[-1])
    drawn = buffer.sample(10_000).rewards
    share = (drawn == float(steps[-1].reward[0])).float().mean()
    assert abs(share - 0.5) < 0.03


def test_samples_are_normalized_by_the_environment() -> None:
    from stable_baselines3.common.vec_env import VecNormalize

    from cogrs import VectorEnv
    from cogrs.sb3 import VecEnv

    space = spaces.Box(-1, 1, (4,), np.float32)
    env = VecNormalize(VecEnv(VectorEnv("cartpole", num_envs=1, seed=0)))
    env.reset()
    for _ in range(50):
        env.step(np.array([1]))
    ours, other = made(60, 1, space), theirs(60, 1, space)
    for step in rollout(40, space=space):
        ours.add(*step)
        other.add(*step)
    expected = other._get_samples(np.arange(40), env)
    assert rows_of(ours.sample(2000, env)) == rows_of(expected)
    env.close()


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"n_step": 0}, ValueError, "n_step: expected an integer >= 1, got 0"),
        ({"gamma": -1}, ValueError, "gamma: expected a number >= 0, got -1"),
        ({"alpha": -1}, ValueError, "alpha: expected a number >= 0"),
        (
            {"sampler": "best"},
            ValueError,
            "sampler: expected 'uniform' or 'prioritized', got 'best'",
        ),
        ({"optimize_memory_usage": 3}, TypeError, "optimize_memory_usage: expected True or False"),
        ({"size": 0}, ValueError, "buffer_size: expected an integer >= 1, got 0"),
        ({"space": NESTED}, NotImplementedError, "Nested observation spaces are not supported"),
        ({"space": spaces.Text(3)}, NotImplementedError, "observation space is not supported"),
        ({"actions": spaces.Dict(a=BOX)}, NotImplementedError, "action space is not supported"),
        # Of HerReplayBuffer, whose place it does not take.
        ({"n_sampled_goal": 4}, TypeError, "unexpected keyword argument 'n_sampled_goal'"),
    ],
)
def test_wrong_argument_is_refused_by_name(
    changes: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        made(**{"size": 10, **changes})


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"obs": np.zeros((2, 3), np.float32)}, ValueError, "obs: expected"),
        ({"next_obs": np.zeros((1, 4), np.float32)}, ValueError, "next_obs: expected"),
        ({"action": np.array([0.5])}, TypeError, "action: expected"),
        ({"reward": np.array([np.nan])}, ValueError, "reward: expected finite numbers, got NaN"),
        ({"done": np.array([True, False])}, ValueError, "done: expected"),
        (
            {"done": np.array([True]), "infos": [{}, {}]},
            ValueError,
            "infos: expected 1 dicts, got 2",
        ),
        ({"done": np.array([True]), "infos": 3}, TypeError, "infos: expected a list of dicts"),
    ],
)
def test_wrong_step_is_refused_by_name_and_nothing_is_stored(
    changes: dict[str, Any], error: type[Exception], text: str
) -> None:
    buffer = made(10)
    step: Step = next(rollout(1, end=0.0))
    with pytest.raises(error, match=text):
        buffer.add(*step._replace(**changes))
    assert buffer.size() == 0
    assert buffer.memory.num_entry == 0
    buffer.add(*step)
    assert len(rows_of(buffer.sample(10))) == 1


def test_steps_do_not_change_with_the_arrays_that_were_added() -> None:
    buffer = made(10)
    step = next(rollout(1))
    kept = step.obs.copy()
    buffer.add(*step)
    step.obs[...] = 0
    assert torch.equal(buffer.sample(1).observations, torch.from_numpy(kept))


def test_memory_that_is_more_than_available_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def memory(*arguments: Any, allow_overcommit: bool = False, **options: Any) -> ReplayMemory:
        if not allow_overcommit:
            raise MemoryError("more than is available")
        return ReplayMemory(*arguments, allow_overcommit=True, **options)

    monkeypatch.setattr(replay_buffer, "ReplayMemory", memory)
    with pytest.warns(UserWarning, match="may not have enough memory"):
        buffer = made(10)
    buffer.add(*next(rollout(1)))
    assert buffer.size() == 1


def test_n_steps_is_another_name_of_n_step() -> None:
    # Stable-Baselines3 asks for these arguments by a warning, where an algorithm has n_steps.
    assert made(100, n_steps=3, gamma=0.98).n_step == 3
    assert made(100, n_step=3, n_steps=3).n_step == 3
    with pytest.raises(ValueError, match="n_steps: expected the same as n_step, 2, got 3"):
        made(100, n_step=2, n_steps=3)
    with pytest.raises(ValueError, match="n_steps: expected an integer >= 1, got 0"):
        made(100, n_steps=0)
