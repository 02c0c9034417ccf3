"""Infos of environments as parts of the observations of trials."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")
from gymnasium import spaces  # noqa: E402

from cogrs import sdk  # noqa: E402
from tests.orchestrator.net import on_loop  # noqa: E402
from tests.sdk.episodes import Cyclic, Telling, info_of  # noqa: E402
from tests.sdk.net import calls, named, world  # noqa: E402

KEYS = {"is_success": np.bool_, "pose": (np.float32, (2,)), "episode.r": np.float64}


def check(seen: list[Any]) -> None:
    assert [each["is_success"].tolist() for each in seen] == [False, False, False, True]
    assert [each["pose"].tolist() for each in seen] == [[0, 0], [0.5, 1], [0, 0], [0, 0]]
    assert [each["episode.r"].tolist() for each in seen] == [0, 0, 0, 7.5]
    for each in seen:
        assert (each["is_success"].dtype, each["is_success"].shape) == (np.bool_, ())
        assert (each["pose"].dtype, each["episode.r"].dtype) == (np.float32, np.float64)


@pytest.mark.parametrize("action_mask", [False, True])
@on_loop
async def test_infos_of_a_gymnasium_environment_are_observed_with_zeros_elsewhere(
    action_mask: bool,
) -> None:
    heard = calls()
    make = sdk.GymnasiumEnvironment.factory(Telling, info_keys=KEYS, action_mask=action_mask)
    async with world(make, lambda: Cyclic(heard, (0,))) as net:
        trial_id = await net.play()
        assert net.reason(trial_id) == "environment: final update"
    mine = heard[trial_id, "a0"]
    seen = [each.value for each in named(mine, "act")]
    seen.append(named(mine, "end")[0].observation.value)
    check(seen)
    assert [each["observation"].tolist() for each in seen] == [0, 1, 2, 3]
    assert all(("action_mask" in each) is action_mask for each in seen)


class Told:
    """A parallel environment of PettingZoo with `Telling` for `a`; `b` has no infos."""

    metadata = {"name": "told"}  # noqa: RUF012
    possible_agents = ["a", "b"]  # noqa: RUF012
    render_mode = None

    def __init__(self, parts: bool) -> None:
        self.parts = parts

    def observation_space(self, agent: str) -> Any:
        return spaces.Discrete(10)

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(2)

    def shown(self) -> Any:
        shown = {"level": self.steps} if self.parts else self.steps
        return dict.fromkeys(self.possible_agents, shown), {"a": info_of(self.steps)}

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.agents, self.steps = ["a", "b"], 0
        return self.shown()

    def step(self, actions: Any) -> Any:
        self.steps += 1
        over = dict.fromkeys(self.agents, self.steps == 3)
        shown, infos = self.shown()
        rewards = dict.fromkeys(self.agents, 1.0)
        if self.steps == 3:
            self.agents = []
        return shown, rewards, over, dict.fromkeys(over, False), infos

    def close(self) -> None:
        pass


@pytest.mark.parametrize("parts", [False, True])
@on_loop
async def test_infos_of_each_agent_of_pettingzoo_are_observed(parts: bool) -> None:
    heard = calls()
    make = sdk.PettingZooEnvironment.factory(lambda: Told(parts), info_keys=KEYS)
    async with world(make, lambda: Cyclic(heard, (0,)), actors=("a:p", "b:p")) as net:
        trial_id = await net.play()
        assert net.reason(trial_id) == "environment: final update"
    for name in ("a", "b"):
        mine = heard[trial_id, name]
        seen = [each.value for each in named(mine, "act")]
        seen.append(named(mine, "end")[0].observation.value)
        key = "level" if parts else "observation"
        assert [int(each[key]) for each in seen] == [0, 1, 2, 3]
        if name == "a":
            check(seen)
        else:
            assert not any(each["is_success"] for each in seen)


@on_loop
async def test_info_with_the_name_of_a_part_of_the_observation_ends_the_trial() -> None:
    heard = calls()
    make = sdk.PettingZooEnvironment.factory(lambda: Told(True), info_keys={"level": np.int8})
    async with world(make, lambda: Cyclic(heard, (0,)), actors=("a:p", "b:p")) as net:
        trial_id = await net.play()
        assert "info_keys: 'level' is a part of the observation of 'a'" in net.reason(trial_id)


@on_loop
async def test_info_that_does_not_fit_its_key_ends_the_trial() -> None:
    heard = calls()
    make = sdk.GymnasiumEnvironment.factory(lambda: Telling({"pose": [1, 2, 3]}), info_keys=KEYS)
    async with world(make, lambda: Cyclic(heard, (0,))) as net:
        trial_id = await net.play()
        assert "pose: expected float32 (2,), got int64 (3,)" in net.reason(trial_id)


@pytest.mark.parametrize("kind", [sdk.GymnasiumEnvironment, sdk.PettingZooEnvironment])
@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        (3, TypeError, "info_keys: expected a mapping"),
        ({"x": "many"}, TypeError, "info_keys: expected a dtype, or a pair"),
        ({"x": object}, ValueError, "info_keys: expected a dtype of numbers or bool"),
        ({"observation": bool}, ValueError, "'observation' has another meaning in an observation"),
        ({"action_mask": bool}, ValueError, "'action_mask' has another meaning in an observation"),
        ({"turn": bool}, ValueError, "info_keys: 'turn' has another meaning in an observation"),
    ],
)
def test_wrong_info_keys_of_trials_are_refused(
    kind: Any, given: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        kind(Telling, info_keys=given)
