"""Spaces of several parts, masks, pictures, physics: Gymnasium in trials beyond plain boxes."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from cogrs import sdk
from tests.orchestrator.net import on_loop
from tests.sdk.episodes import Cyclic, alone
from tests.sdk.net import calls, named, world

PARTS = spaces.Dict(
    {
        "pair": spaces.Tuple((spaces.Discrete(3), spaces.Box(-1, 1, (2,), np.float32))),
        "flags": spaces.MultiBinary(3),
    }
)


@pytest.mark.parametrize("seed", range(10))
def test_values_of_a_space_of_parts_come_back(seed: int) -> None:
    PARTS.seed(seed)
    value = PARTS.sample()
    codec = sdk.SpaceCodec(PARTS)
    found, terminated, truncated = codec.decode(codec.encode(value, truncated=True))
    assert found in PARTS
    assert (terminated, truncated) == (False, True)
    assert found["pair"][0] == value["pair"][0]
    np.testing.assert_array_equal(found["pair"][1], value["pair"][1])
    np.testing.assert_array_equal(found["flags"], value["flags"])


def test_value_outside_of_the_space_is_refused_with_the_space() -> None:
    codec = sdk.SpaceCodec(spaces.Discrete(3))
    with pytest.raises(TypeError, match=r"expected one of Discrete\(3\), got 3"):
        codec.encode(3)
    with pytest.raises(ValueError, match=r"expected one of Discrete\(3\)"):
        codec.decode(sdk.ArrayCodec().encode(3))


class Parts(gymnasium.Env[Any, Any]):
    """Shows and takes values of several parts; over after three steps."""

    observation_space = action_space = PARTS

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.taken: list[Any] = []
        return {"pair": (0, np.zeros(2, np.float32)), "flags": np.zeros(3, np.int8)}, {}

    def step(self, action: Any) -> Any:
        assert action in PARTS
        self.taken.append(action)
        return action, 1.0, len(self.taken) == 3, False, {}


@on_loop
async def test_environment_with_nested_spaces_runs_as_a_trial() -> None:
    def act(seen: sdk.Observation) -> Any:
        assert set(seen.value) == {"pair", "flags"}
        place = int(seen.value["pair"]["0"])
        return {
            "pair": {"0": np.array(place + 1), "1": np.full(2, 0.5, np.float32)},
            "flags": np.ones(3, np.int8),
        }

    agents = {"agent": sdk.FunctionAgent(act)}
    async with world(sdk.GymnasiumEnvironment.factory(Parts), agents) as net:
        # The third action is 3, which is not in Discrete(3).
        reason = net.reason(await net.play())
    assert "action of 'a0': expected one of Dict" in reason


@on_loop
async def test_masks_come_from_the_environments_info() -> None:
    heard = calls()
    make = sdk.GymnasiumEnvironment.factory("Taxi-v4", seed=3, action_mask=True)
    async with world(make, lambda: Cyclic(heard, (0, 1)), max_steps=2) as net:
        trial_id = await net.play()
    env = gymnasium.make("Taxi-v4")
    observation, info = env.reset(seed=3)
    first = named(heard[trial_id, "a0"], "act")[0].value
    assert first["observation"] == observation
    np.testing.assert_array_equal(first["action_mask"], info["action_mask"])


class Chooses(gymnasium.Env[Any, Any]):
    """Has a mask in its infos; over after a step, which pays for action 2."""

    observation_space = spaces.Discrete(2)

    def __init__(self, space: Any, mask: Any) -> None:
        self.action_space, self.mask = space, mask

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return 0, {"action_mask": self.mask}

    def step(self, action: Any) -> Any:
        return 1, float(np.all(action == 2)), True, False, {"action_mask": self.mask}


@pytest.mark.parametrize(
    ("space", "mask", "flat"),
    [
        (spaces.Discrete(3, start=1), np.array([0.0, 0.2, 0.0]), [0, 1, 0]),
        (spaces.Discrete(3), [False, False, True], [0, 0, 1]),
        (spaces.Discrete(3), None, [1, 1, 1]),
        (
            spaces.MultiDiscrete([[1, 2], [2, 1]], start=[[2, 1], [2, 2]]),
            (([1], [0, 1]), ([1, 0], [1])),
            [1, 0, 1, 1, 0, 1],
        ),
        (
            spaces.Tuple((spaces.Discrete(3), spaces.MultiBinary(1))),
            ([0, 0, 1], None),
            [0, 0, 1, 2],
        ),
    ],
)
@on_loop
async def test_masks_of_every_form_are_flat_in_observations(
    space: Any, mask: Any, flat: list[int]
) -> None:
    heard = calls()
    make = sdk.GymnasiumEnvironment.factory(lambda: Chooses(space, mask), action_mask=True)
    if isinstance(space, spaces.Tuple):
        action: Any = {"0": 2, "1": np.ones(1, np.int8)}
    else:
        action = np.full(space.shape, 2)
    async with world(make, lambda: Cyclic(heard, (action,))) as net:
        trial_id = await net.play()
        assert net.reason(trial_id) == "environment: final update"
    seen = named(heard[trial_id, "a0"], "act")[0].value
    assert seen["action_mask"].dtype == np.int8
    assert seen["action_mask"].tolist() == flat


@on_loop
async def test_no_mask_of_a_space_without_masks_is_left_out() -> None:
    heard = calls()
    box = spaces.Box(0, 9, (2,), np.float32)
    make = sdk.GymnasiumEnvironment.factory(lambda: Chooses(box, None), action_mask=True)
    async with world(make, lambda: Cyclic(heard, (np.full(2, 2, np.float32),))) as net:
        trial_id = await net.play()
        assert net.reason(trial_id) == "environment: final update"
    assert named(heard[trial_id, "a0"], "act")[0].value == {"observation": 0}


@pytest.mark.parametrize(
    ("space", "mask", "said"),
    [
        (spaces.Discrete(3), [1, 1], "action_mask: expected 3 entries for Discrete(3), got 2"),
        (spaces.Discrete(1), [np.nan], "action_mask: expected finite entries, got nan"),
        (spaces.MultiDiscrete([1, 2]), ([1], [1]), "action_mask[1]: expected 2 entries"),
    ],
)
@on_loop
async def test_wrong_mask_is_named_with_the_space(space: Any, mask: Any, said: str) -> None:
    make = sdk.GymnasiumEnvironment.factory(lambda: Chooses(space, mask), action_mask=True)
    async with world(make, lambda: Cyclic(calls())) as net:
        assert said in net.reason(await net.play())


BOTH = spaces.Dict([(1, spaces.Discrete(2)), ("1", spaces.Discrete(3))])
NUMBERED = spaces.Dict({1: spaces.Discrete(2), 2: spaces.Tuple([spaces.Discrete(3)])})


def test_keys_that_are_the_same_as_text_are_refused_with_both() -> None:
    said = r"expected different names, got 1 and '1', which are both '1' in messages"
    for space in (BOTH, spaces.Tuple([BOTH]), spaces.Dict({"x": BOTH})):
        with pytest.raises(ValueError, match=f"space: {said}"):
            sdk.SpaceCodec(space)
    for name in ("observation_space", "action_space"):
        env = Chooses(spaces.Discrete(2), None)
        setattr(env, name, BOTH)
        game = sdk.GymnasiumEnvironment(lambda env=env: env)  # type: ignore[misc]
        with pytest.raises(ValueError, match=f"{name}: {said}"):
            game.start(sdk.Trial("t", (sdk.Actor("a0", "player"),)))


@pytest.mark.parametrize("seed", range(3))
def test_keys_that_are_numbers_come_back(seed: int) -> None:
    NUMBERED.seed(seed)
    value = NUMBERED.sample()
    codec = sdk.SpaceCodec(NUMBERED)
    assert codec.decode(codec.encode(value)).value == value


@on_loop
async def test_missing_action_mask_fails_the_trial() -> None:
    make = sdk.GymnasiumEnvironment.factory("CartPole-v1", action_mask=True)
    async with world(make, lambda: Cyclic(calls())) as net:
        said = "action_mask: expected it in the environment's info, got nothing"
        assert said in net.reason(await net.play())


@on_loop
async def test_environment_in_a_trial_steps_as_without_a_trial() -> None:
    pytest.importorskip("Box2D")
    heard = calls()
    make = sdk.GymnasiumEnvironment.factory("LunarLander-v3", seed=3)
    async with world(make, lambda: Cyclic(heard, (0, 2, 1)), max_steps=20) as net:
        trial_id = await net.play()
    observations, *_ = alone("LunarLander-v3", (0, 2, 1), 3, steps=20)
    seen = [each.value for each in named(heard[trial_id, "a0"], "act")]
    for ours, theirs in zip(seen, observations, strict=False):
        np.testing.assert_array_equal(ours, theirs)


def test_options_without_an_id_are_refused() -> None:
    with pytest.raises(TypeError, match="options: expected those of GymnasiumEnvironment"):
        sdk.GymnasiumEnvironment.factory(Parts, max_episode_steps=3)
