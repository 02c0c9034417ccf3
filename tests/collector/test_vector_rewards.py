"""Rewards that are vectors, in batches of a collector and in `VectorEnv`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")
from gymnasium import spaces  # noqa: E402
from gymnasium.vector import AutoresetMode  # noqa: E402

import cogrs  # noqa: E402
from cogrs.collector import GameError, VectorEnv  # noqa: E402
from tests.collector.build import rows, run  # noqa: E402
from tests.collector.vector_environments import Paying, Square, long, summed  # noqa: E402

PLACES = pytest.mark.parametrize("place", [{}, {"num_threads": 2}, {"processes": 2}])


def histories(make: Any, steps: int, count: int, processes: int = 0) -> list[dict[str, Any]]:
    """Return the first histories of a listener to two games."""
    co = cogrs.ContextOptions(num_games=2, seed=1)
    context = cogrs.GameContext("gymnasium", co, make, processes=processes)
    keys = dict.fromkeys(("id", "seq", "r", "last_r", "terminal"), "")
    found: list[dict[str, Any]] = []
    with cogrs.GCWrapper(
        context,
        co,
        {
            "actor": ({"seq": "", "last_r": "", "_batchsize": 2}, {"a": ""}),
            "listener": ({**keys, "_batchsize": 1, "_T": steps}, None),
        },
    ) as games:
        shape = context.spec.reward_shape

        def act(batch: Any, *_: Any) -> None:
            assert batch[0]["last_r"].shape == (len(batch[0]["seq"]), *shape)

        games.reg_callback("actor", act)
        games.reg_callback("listener", lambda batch, *_: found.append(rows(batch)))
        games.Start()
        while len(found) < count:
            run(games)
    return [{key: array[0] for key, array in each.items()} for each in found]


@pytest.mark.parametrize("processes", [0, 2])
@pytest.mark.parametrize("steps", [1, 2, 4])
def test_rewards_of_batches_have_the_shape_of_the_reward_space(steps: int, processes: int) -> None:
    for history in histories(Paying, steps, 20, processes):
        assert history["r"].dtype == history["last_r"].dtype == np.float32
        assert history["r"].shape == history["last_r"].shape == (steps, 2)
        entering = np.outer(history["seq"], [1, -1])
        np.testing.assert_array_equal(history["last_r"], entering)
        np.testing.assert_array_equal(history["r"][:-1], entering[1:])
        assert (history["r"][-1] == 0).all()


def test_rewards_may_have_two_dimensions() -> None:
    for history in histories(Square, 2, 5):
        entering = np.multiply.outer(np.outer(history["seq"], [1, -1]), [1, 2, 3])
        np.testing.assert_array_equal(history["last_r"], entering)


def test_wrapper_that_sets_no_reward_space_has_rewards_that_are_numbers() -> None:
    assert histories(summed, 2, 2)[0]["r"].shape == (2,)
    envs = VectorEnv(summed, 2)
    envs.reset(seed=0)
    assert envs.step([0, 0])[1].tolist() == [2.0, 2.0]
    assert envs.reward_space is None
    envs.close()


@PLACES
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_vector_environment_returns_a_row_of_rewards_for_each_environment(
    mode: AutoresetMode, place: dict[str, int]
) -> None:
    envs = VectorEnv(Paying, 3, autoreset_mode=mode, **place)
    assert envs.reward_space == Paying.reward_space
    envs.reset(seed=1)
    kept, over = [], np.zeros(3, bool)
    for _ in range(4):
        _, rewards, terminated, truncated, _ = envs.step([0, 0, 0])
        assert (rewards.dtype, rewards.shape) == (np.float64, (3, 2))
        kept.append(rewards)
        over = terminated | truncated
    assert over.all()
    for step, rewards in enumerate(kept, 1):
        assert rewards.tolist() == [[step, -step]] * 3
    if mode is AutoresetMode.DISABLED:
        envs.reset(options={"reset_mask": over})
    begins = [0.0, -0.0] if mode is AutoresetMode.NEXT_STEP else [1.0, -1.0]
    assert envs.step([0, 0, 0])[1].tolist() == [begins] * 3
    envs.close()


def test_restarted_environment_pays_a_row_of_zeros() -> None:
    class Moody(Paying):
        def step(self, action: Any) -> Any:
            if action == 1:
                raise ZeroDivisionError("told to")
            return super().step(action)

    envs = VectorEnv(Moody, 2, on_error="restart", restart_backoff=0.0)
    envs.reset(seed=1)
    assert envs.step([0, 1])[1].tolist() == [[1.0, -1.0], [0.0, 0.0]]
    envs.close()


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        ("number", r"reward: expected an array of shape \(2,\), .* got a number.*reward_space"),
        ("long", r"reward: expected float64 \(2,\), got float64 \(3,\)"),
        ("text", "reward: cannot convert <U1 to float64"),
        ("none", r"reward: expected an array of shape \(2,\), .* got None"),
    ],
)
def test_reward_of_another_form_fails_the_environment(odd: str, words: str) -> None:
    envs = VectorEnv([Paying, lambda: Paying(odd)])
    envs.reset(seed=1)
    with pytest.raises(GameError, match=f"environment 1: .*{words}"):
        envs.step([0, 0])
    envs.close()
    with pytest.raises(GameError, match=words):
        histories(lambda: Paying(odd), 2, 3)


def test_reward_as_a_list_is_taken() -> None:
    envs = VectorEnv(lambda: Paying("list"))
    envs.reset(seed=1)
    assert envs.step([0])[1].tolist() == [[1.0, -1.0]]
    envs.close()


@pytest.mark.parametrize("place", [{}, {"processes": 1}])
def test_environments_with_rewards_of_other_shapes_are_refused(place: dict[str, int]) -> None:
    with pytest.raises(RuntimeError, match="reward_space: expected the shape of environment 0"):
        VectorEnv(long, 2, **place)


def test_reward_space_that_is_no_box_is_refused() -> None:
    class Odd(Paying):
        reward_space = spaces.Dict({})

    with pytest.raises(TypeError, match="reward_space: expected a Box or None, got Dict"):
        VectorEnv(Odd)
    with pytest.raises(TypeError, match="reward_space: expected a Box or None, got Dict"):
        cogrs.GameContext("gymnasium", Odd)


def test_vector_rewards_are_recorded_and_joined_into_returns() -> None:
    envs = VectorEnv(Paying, 2)
    memory = cogrs.ReplayMemory.from_env(envs, 100, gamma=[0.5, 1.0], n_step=2)
    assert memory.reward_buf.shape == memory.value_buf.shape == (2,)
    recorder = memory.recorder(envs)
    states, _ = envs.reset(seed=1)
    actions = np.zeros(2, np.int64)
    for _ in range(6):
        following, *outcome, _ = envs.step(actions)
        recorder.add(states, actions, *outcome)
        states = following
    envs.close()
    # Each episode is four steps that pay (k, -k).
    sample = memory.sample(50, nstep_return=True)
    steps = sample.prev.s[:, 0, 1]
    assert set(steps.tolist()) == {0.0, 1.0, 2.0, 3.0}
    np.testing.assert_array_equal(sample.prev.r, np.stack([steps + 1, -steps - 1], axis=1))
    following = np.where(steps < 3, steps + 2, 0)
    expected = np.stack([steps + 1 + 0.5 * following, -steps - 1 - following], axis=1)
    np.testing.assert_allclose(sample.nstep_return, expected)
    other = memory.add_episode(
        np.zeros((3, 2)),
        np.zeros(3, np.int64),
        np.ones((3, 2), np.float32),
        prob=np.ones(3),
        value=np.zeros((3, 2)),
        info=np.zeros((3, 0)),
        init_w=np.ones(3),
        terminated=True,
        final_state=np.zeros(2),
    )
    assert memory.add_reward(other, np.array([1.0, 2.0], np.float32))


def test_memory_for_rewards_of_two_dimensions_is_refused() -> None:
    with pytest.raises(ValueError, match=r"reward_space: expected shape \(\) or \(R,\)"):
        cogrs.ReplayMemory.from_env(Square(), 100)
