"""Gymnasium environments in trials are what they are outside of them."""

from __future__ import annotations

import itertools
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from cogrs import sdk
from cogrs.sdk.space import fitting, in_form
from tests.orchestrator.net import on_loop
from tests.sdk.episodes import Cyclic, alone
from tests.sdk.net import calls, named, rewards, world

TRIAL = sdk.Trial("t", (sdk.Actor("a0", "player"),))


CASES = {
    "falls": ("CartPole-v1", (0, 1, 1, 0, 1), {}),
    "cut short": ("CartPole-v1", (0, 1), {"max_episode_steps": 7}),
    "finds the goal": ("FrozenLake-v1", (2, 2, 1, 1, 1, 2), {"is_slippery": False}),
    "slips": ("FrozenLake-v1", (2, 1), {}),
}


@pytest.mark.parametrize("case", CASES)
@on_loop
async def test_gymnasium_episode_runs_as_a_trial(case: str) -> None:
    name, actions, options = CASES[case]
    heard = calls()
    async with world(
        lambda: sdk.GymnasiumEnvironment(lambda: gymnasium.make(name, **options), seed=3),
        lambda: Cyclic(heard, actions),
    ) as net:
        trial_id = await net.play()
        assert net.reason(trial_id) == "environment: final update"
    observations, gained, terminated, truncated = alone(name, actions, 3, **options)
    mine = heard[trial_id, "a0"]
    (final,) = named(mine, "end")
    seen = [*named(mine, "act"), final.observation]
    assert [each.tick for each in seen] == list(range(len(observations)))
    for ours, theirs in zip(seen, observations, strict=True):
        assert ours.value.dtype == np.asarray(theirs).dtype
        np.testing.assert_array_equal(ours.value, theirs)
    assert rewards(mine) == list(enumerate(gained, 1))
    assert not any(each.terminated or each.truncated for each in seen[:-1])
    assert (seen[-1].terminated, seen[-1].truncated) == (terminated, truncated)
    assert truncated is (case == "cut short")


@on_loop
async def test_max_steps_cuts_an_episode_short_after_its_last_action() -> None:
    heard = calls()
    async with world(
        lambda: sdk.GymnasiumEnvironment(lambda: gymnasium.make("CartPole-v1"), seed=1),
        lambda: Cyclic(heard),
        max_steps=4,
    ) as net:
        trial_id = await net.play()
    observations, gained, _, _ = alone("CartPole-v1", (0, 1, 1, 0, 1), 1, steps=5)
    mine = heard[trial_id, "a0"]
    (final,) = named(mine, "end")
    np.testing.assert_array_equal(final.observation.value, observations[5])
    assert (final.observation.terminated, final.observation.truncated) == (False, True)
    assert rewards(mine) == list(enumerate(gained, 1))


@on_loop
async def test_seeds_that_count_make_different_episodes() -> None:
    heard = calls()
    seeds = itertools.count()
    async with world(
        lambda: sdk.GymnasiumEnvironment(lambda: gymnasium.make("CartPole-v1"), seed=next(seeds)),
        lambda: Cyclic(heard),
    ) as net:
        trials = [await net.play() for _ in range(3)]
    for seed, trial_id in enumerate(trials):
        first = named(heard[trial_id, "a0"], "act")[0].value
        np.testing.assert_array_equal(first, alone("CartPole-v1", (0,), seed, steps=0)[0][0])


@on_loop
async def test_trial_of_two_players_is_refused_by_gymnasium() -> None:
    def make() -> sdk.GymnasiumEnvironment:
        return sdk.GymnasiumEnvironment(lambda: gymnasium.make("CartPole-v1"))

    async with world(make, lambda: Cyclic(calls()), actors=("a0", "a1")) as net:
        reason = net.reason(await net.play())
    assert "start failed: ValueError: actors: expected one player, got a0, a1" in reason


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("NoSuchGame-v0", "NoSuchGame"),
        ("CartPole-v1", "action of 'a0': expected one of Discrete(2), got int64 (): 7"),
    ],
)
@on_loop
async def test_id_or_action_that_does_not_fit_is_named(name: str, said: str) -> None:
    def make() -> sdk.GymnasiumEnvironment:
        return sdk.GymnasiumEnvironment(lambda: gymnasium.make(name))

    async with world(make, lambda: Cyclic(calls(), (7,))) as net:
        assert said in net.reason(await net.play())


class Watched(gymnasium.Env[Any, Any]):
    """An environment that knows how often it was closed."""

    observation_space = spaces.Discrete(3)
    action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        self.closed = 0

    def reset(self, **_: Any) -> tuple[int, dict[str, Any]]:
        return 0, {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        return 1, 0.0, action == 1, False, {}

    def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("how", ["terminal", "end", "last action", "lost"])
def test_gymnasium_environment_is_closed_once(how: str) -> None:
    env = Watched()
    game = sdk.GymnasiumEnvironment(lambda: env)
    assert game.start(TRIAL).observations == {"a0": 0}
    if how == "terminal":
        update = game.step({"a0": np.array(1)})
        assert (update.final, update.terminated, update.truncated) == (True, True, False)
    elif how == "end":
        update = game.end({})
        assert (update.observations, update.truncated, update.rewards) == ({"a0": 0}, True, ())
    elif how == "last action":
        update = game.end({"a0": np.array(1)})
        assert (update.terminated, update.truncated) == (True, False)
    game.lost()
    game.lost()
    assert env.closed == 1
    with pytest.raises(RuntimeError, match="not started, or is over"):
        game.step({"a0": 0})


@pytest.mark.parametrize(
    ("space", "action", "expected"),
    [
        (spaces.Discrete(3), np.array(2), 2),
        (spaces.Discrete(3), np.array(2, np.int8), 2),
        (spaces.Box(-1, 1, (2,), np.float32), np.array([0.5, 1.0]), [0.5, 1.0]),
        (spaces.MultiDiscrete([2, 3]), np.array([1, 2], np.int32), [1, 2]),
        (spaces.MultiBinary(2), np.array([0, 1]), [0, 1]),
    ],
)
def test_actions_fit_their_spaces(space: Any, action: Any, expected: Any) -> None:
    found = fitting(space, action, "action of 'a0'")
    assert found in space
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("space", "action"),
    [
        (spaces.Discrete(3), np.array(3)),
        (spaces.Discrete(3), np.array(-1)),
        (spaces.Discrete(3), np.array(1.0)),
        (spaces.Discrete(3), np.array([1])),
        (spaces.Box(-1, 1, (2,), np.float32), np.array([0.5, 1.5])),
        (spaces.Box(-1, 1, (2,), np.float32), np.array([0.5, np.nan])),
        (spaces.Box(-1, 1, (2,), np.float32), np.array([0.5])),
        (spaces.MultiBinary(2), np.array([0, 2])),
        (spaces.MultiBinary(2), np.array([256, 1])),
        (spaces.Discrete(3), np.array(2**64 - 1, np.uint64)),
        (spaces.Box(0, 255, (1,), np.uint8), np.array([256], np.uint16)),
        (spaces.MultiDiscrete([2, 3], dtype=np.int8), np.array([257, 2])),
        (spaces.Discrete(3), b"1"),
    ],
)
def test_actions_that_do_not_fit(space: Any, action: Any) -> None:
    with pytest.raises(ValueError, match="action of 'a0': expected one of"):
        fitting(space, action, "action of 'a0'")


BOX = spaces.Box(-1, 1, (2,), np.float32)


@pytest.mark.parametrize(
    ("space", "action"),
    [
        (spaces.Discrete(3), np.array(7)),
        (BOX, np.array([0.5, 1.5])),
        (spaces.MultiBinary(2), np.array([256, 1])),
        (spaces.MultiDiscrete([2, 3]), np.array([-1, 9])),
        (spaces.Dict({"a": BOX}), {"a": np.array([7.0, 8.0])}),
        (spaces.Tuple([spaces.Discrete(2)]), {"0": np.array(3)}),
    ],
)
def test_in_form_passes_numbers_out_of_bounds_on(space: Any, action: Any) -> None:
    found = in_form(space, action, "action of 'a0'")
    given = next(iter(action.values())) if isinstance(action, dict) else action
    while isinstance(found, dict | tuple):
        found = found["a"] if isinstance(found, dict) else found[0]
    np.testing.assert_array_equal(found, given)


@pytest.mark.parametrize(
    ("space", "action"),
    [
        (spaces.Discrete(3), np.array(1.0)),
        (spaces.Discrete(3), np.array([1])),
        (BOX, np.array([0.5])),
        (spaces.Discrete(3), b"1"),
        (spaces.Dict({"a": BOX}), {"b": np.array([7.0, 8.0])}),
        (spaces.Tuple([BOX]), (np.zeros(2), np.zeros(2))),
    ],
)
def test_in_form_refuses_another_form(space: Any, action: Any) -> None:
    with pytest.raises(ValueError, match="action of 'a0': expected one of"):
        in_form(space, action, "action of 'a0'")
