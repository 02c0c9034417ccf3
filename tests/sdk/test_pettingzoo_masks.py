"""Masks of PettingZoo environments in trials: what actors see of them, and who judges actions."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from cogrs import sdk
from tests.orchestrator.net import on_loop
from tests.sdk.episodes import Cyclic
from tests.sdk.net import calls, named, rewards, world

gymnasium = pytest.importorskip("gymnasium")
pettingzoo = pytest.importorskip("pettingzoo")
from gymnasium import spaces  # noqa: E402

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    connect_four_v3 = pytest.importorskip("pettingzoo.classic.connect_four_v3")
    tictactoe_v3 = pytest.importorskip("pettingzoo.classic.tictactoe_v3")
    from pettingzoo.test.example_envs import generated_agents_env_action_mask_info_v0 as in_infos
    from pettingzoo.utils.conversions import parallel_to_aec


class Choice(pettingzoo.ParallelEnv):  # type: ignore[misc]
    """One agent, `a`, which chooses once; a legal choice pays 1, an illegal one -1."""

    metadata = {"name": "choice"}  # noqa: RUF012
    possible_agents = ["a"]  # noqa: RUF012
    render_mode = None

    def __init__(self, space: Any, mask: Any, legal: Any, *, in_observation: bool) -> None:
        self.space, self.mask, self.legal = space, mask, legal
        self.in_observation = in_observation

    def observation_space(self, agent: str) -> Any:
        return spaces.Discrete(10)

    def action_space(self, agent: str) -> Any:
        return self.space

    def shown(self) -> tuple[Any, Any]:
        if self.in_observation:
            return {"a": {"observation": 0, "action_mask": self.mask}}, {"a": {}}
        return {"a": 0}, {"a": {"action_mask": self.mask}}

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.agents = ["a"]
        return self.shown()

    def step(self, actions: Any) -> Any:
        assert actions["a"] in self.space
        self.agents = []
        observations, infos = self.shown()
        paid = 1.0 if _same(actions["a"], self.legal) else -1.0
        return observations, {"a": paid}, {"a": True}, {"a": False}, infos


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, tuple):
        return all(map(_same, one, other))
    return np.array_equal(one, other)


def eight(*entries: int) -> Any:
    return np.array(entries, np.int8)


NESTED = spaces.MultiDiscrete([[2, 1], [1, 3]], start=[[4, 0], [0, -1]])
FREE = spaces.Tuple((spaces.Discrete(2), spaces.MultiBinary(2)))
CASES: dict[str, tuple[Any, Any, list[int], Any, Any]] = {
    # The space, a mask, its flat form, a legal action and an illegal one.
    "start": (spaces.Discrete(3, start=1), eight(1, 0, 0), [1, 0, 0], 1, 2),
    "start, another": (spaces.Discrete(3, start=1), eight(0, 1, 0), [0, 1, 0], 2, 1),
    "start below zero": (spaces.Discrete(3, start=-2), eight(0, 0, 1), [0, 0, 1], 0, -1),
    "floats": (spaces.Discrete(3), np.array([0.2, 0, 0.8]), [1, 0, 1], 2, 1),
    "booleans": (spaces.Discrete(3), np.array([True, False, True]), [1, 0, 1], 0, 1),
    "wide": (spaces.Discrete(2), np.array([256, 0]), [1, 0], 0, 1),
    "tuple": (
        spaces.MultiDiscrete([2, 3]),
        (eight(0, 1), eight(1, 0, 1)),
        [0, 1, 1, 0, 1],
        np.array([1, 2]),
        np.array([1, 1]),
    ),
    "nested tuple": (
        NESTED,
        ((eight(0, 1), eight(1)), (eight(1), eight(1, 1, 0))),
        [0, 1, 1, 1, 1, 1, 0],
        np.array([[5, 0], [0, 0]]),
        np.array([[5, 0], [0, 1]]),
    ),
    "bits": (spaces.MultiBinary(3), eight(0, 1, 2), [0, 1, 2], eight(0, 1, 1), eight(1, 1, 1)),
    "parts": (
        FREE,
        (eight(1, 0), None),
        [1, 0, 2, 2],
        {"0": 0, "1": eight(1, 0)},
        {"0": 1, "1": eight(1, 0)},
    ),
    "none legal": (spaces.Discrete(2, start=3), eight(0, 0), [0, 0], 3, 4),
}


def of_space(space: Any, action: Any) -> Any:
    return (action["0"], action["1"]) if space is FREE else action


async def choose(case: str, action: Any, *, turns: bool, in_observation: bool, **options: Any):  # type: ignore[no-untyped-def]
    """Return the reason of the end, the mask that was seen, and rewards."""
    space, mask, _, legal, _ = CASES[case]

    def make() -> Any:
        game = Choice(space, mask, of_space(space, legal), in_observation=in_observation)
        return parallel_to_aec(game) if turns else game

    heard = calls()
    build = sdk.PettingZooEnvironment.factory(make, **options)
    async with world(build, lambda: Cyclic(heard, (action,)), actors=("a:p",)) as net:
        trial_id = await net.play()
        reason = net.reason(trial_id)
    seen = named(heard[trial_id, "a"], "act")[0].value
    return reason, seen["action_mask"], rewards(heard[trial_id, "a"])


WAYS = pytest.mark.parametrize(("turns", "in_observation"), [(False, True), (True, False)])


@WAYS
@pytest.mark.parametrize("case", CASES)
@on_loop
async def test_legal_action_is_taken_with_every_form_of_mask(
    case: str, turns: bool, in_observation: bool
) -> None:
    _, mask, flat, legal, _ = CASES[case]
    for options in ({}, {"on_illegal": "raise"}):
        reason, seen, paid = await choose(
            case, legal, turns=turns, in_observation=in_observation, **options
        )
        assert (reason, paid) == ("environment: final update", [(1, 1.0)])
        if in_observation and isinstance(mask, np.ndarray):
            assert seen.dtype == mask.dtype
            np.testing.assert_array_equal(seen, mask)
        else:
            assert (seen.dtype, seen.tolist()) == (np.int8, flat)


@WAYS
@pytest.mark.parametrize("case", CASES)
@on_loop
async def test_illegal_action_reaches_the_environment_unless_set_to_raise(
    case: str, turns: bool, in_observation: bool
) -> None:
    illegal = CASES[case][4]
    how = {"turns": turns, "in_observation": in_observation}
    reason, _, paid = await choose(case, illegal, **how)
    assert (reason, paid) == ("environment: final update", [(1, -1.0)])
    reason, _, paid = await choose(case, illegal, **how, on_illegal="raise")
    assert "action of 'a': expected a legal one of [" in reason
    assert paid == []


@pytest.mark.parametrize("turns", [False, True])
@pytest.mark.parametrize(
    ("space", "mask", "said"),
    [
        (spaces.Discrete(3, start=1), [1, 0], "expected 3 entries for Discrete(3, start=1), got 2"),
        (spaces.Discrete(2), [1, np.nan], "mask of 'a': action_mask: expected finite entries"),
        (NESTED, ((eight(1), eight(1)),) * 2, "action_mask[0][0]: expected 2 entries for MultiD"),
    ],
)
@on_loop
async def test_wrong_mask_in_infos_is_named_with_agent_and_space(
    space: Any, mask: Any, said: str, turns: bool
) -> None:
    def make() -> Any:
        game = Choice(space, mask, None, in_observation=False)
        return parallel_to_aec(game) if turns else game

    async with world(
        sdk.PettingZooEnvironment.factory(make), lambda: Cyclic(calls()), actors=("a:p",)
    ) as net:
        assert said in net.reason(await net.play())


@pytest.mark.parametrize("in_observation", [False, True])
@on_loop
async def test_mask_of_a_box_is_passed_on_uninterpreted(
    in_observation: bool,
) -> None:
    box, mask = spaces.Box(-1, 1, (2,), np.float32), np.array([0.5, -3.0])
    heard = calls()
    make = sdk.PettingZooEnvironment.factory(
        lambda: Choice(box, mask, np.ones(2, np.float32), in_observation=in_observation)
    )
    actions = (np.ones(2, np.float32),)
    async with world(make, lambda: Cyclic(heard, actions), actors=("a:p",)) as net:  # type: ignore[arg-type]
        trial_id = await net.play()
        assert net.reason(trial_id) == "environment: final update"
    seen = named(heard[trial_id, "a"], "act")[0].value["action_mask"]
    np.testing.assert_array_equal(seen, mask)
    assert rewards(heard[trial_id, "a"]) == [(1, 1.0)]


@pytest.mark.parametrize(
    ("make", "action"),
    [
        (tictactoe_v3.env, 4),
        (tictactoe_v3.env, 0),
        (connect_four_v3.env, 3),
        (lambda: in_infos.env(), 0),
    ],
)
@on_loop
async def test_illegal_moves_have_the_rewards_and_ends_of_a_hand_written_loop(
    make: Any, action: int
) -> None:
    env = make()
    env.reset(seed=1)
    agents = list(env.agents)
    paid: dict[str, list[tuple[int, float]]] = {agent: [] for agent in agents}
    flags: dict[str, Any] = {}
    tick = 0
    while env.agents:
        # The actor of whose turn it is, and all others.
        env.step(action)
        tick += 1
        for agent in env.agents:
            paid[agent].append((tick, float(env.rewards[agent])))
            flags[agent] = bool(env.terminations[agent]), bool(env.truncations[agent])
        while env.agents and env.last(observe=False)[2]:
            env.step(None)

    heard = calls()
    build = sdk.PettingZooEnvironment.factory(make, seed=1)
    actors = [f"{agent}:p" for agent in agents]
    async with world(build, lambda: Cyclic(heard, (action,)), actors=actors) as net:
        trial_id = await net.play()
        assert net.reason(trial_id) == "environment: final update"
    for agent in agents:
        assert rewards(heard[trial_id, agent]) == paid[agent]
        final = named(heard[trial_id, agent], "end")[0].observation
        assert (final.terminated, final.truncated) == flags[agent]
    assert sum(reward for each in paid.values() for _, reward in each) == -1


def test_on_illegal_that_is_not_an_option_is_refused() -> None:
    for make in (sdk.PettingZooEnvironment, sdk.PettingZooEnvironment.factory):
        with pytest.raises(ValueError, match="on_illegal: expected 'environment' or 'raise', got"):
            make(tictactoe_v3.env, on_illegal="ignore")  # type: ignore[operator]


class Own(Choice):
    """Its observation has parts of its own."""

    def __init__(self, parts: dict[Any, Any], space: Any = None) -> None:
        super().__init__(space or spaces.Discrete(2), eight(1, 0), 0, in_observation=False)
        self.parts = parts

    def shown(self) -> tuple[Any, Any]:
        return {"a": self.parts}, {"a": {"action_mask": self.mask}}


@on_loop
async def test_observation_key_named_turn_is_kept() -> None:
    heard = calls()
    make = sdk.PettingZooEnvironment.factory(lambda: parallel_to_aec(Own({"turn": 7, "x": 1})))
    async with world(make, lambda: Cyclic(heard, (0,)), actors=("a:p",)) as net:
        trial_id = await net.play()
    seen = named(heard[trial_id, "a"], "act")[0].value
    assert set(seen) == {"observation", "action_mask", "turn"}
    assert seen["turn"].dtype == np.bool_
    assert (seen["turn"], seen["observation"]["turn"], seen["observation"]["x"]) == (True, 7, 1)
    assert seen["action_mask"].tolist() == [1, 0]


@pytest.mark.parametrize("turns", [False, True])
@pytest.mark.parametrize(
    ("game", "said"),
    [
        (Own({1: 0, "1": 1}), "observation of 'a': expected different names, got 1 and '1'"),
        (
            Own({"x": 0}, spaces.Dict([(1, spaces.Discrete(2)), ("1", spaces.Discrete(2))])),
            "action_space of 'a': expected different names, got 1 and '1'",
        ),
    ],
)
@on_loop
async def test_parts_with_one_name_are_refused_with_both(game: Own, said: str, turns: bool) -> None:
    game.mask = None
    make = sdk.PettingZooEnvironment.factory(lambda: parallel_to_aec(game) if turns else game)
    async with world(make, lambda: Cyclic(calls(), (0,)), actors=("a:p",)) as net:
        assert said in net.reason(await net.play())
