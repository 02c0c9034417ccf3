"""Agents of PettingZoo environments that come later, go, and come back."""

from __future__ import annotations

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
from pettingzoo.utils.conversions import parallel_to_aec  # noqa: E402

TRIAL = sdk.Trial("t", (sdk.Actor("a", "p"), sdk.Actor("b", "p"), sdk.Actor("c", "p")))


class Population(pettingzoo.ParallelEnv):  # type: ignore[misc]
    """The agents of each tick are in `there`; each step pays the tick to all that are listed.

    Shows `[5 + tick]`. With `lists_all` its dicts have all agents, with zeros for absent ones.
    """

    metadata = {"name": "population"}  # noqa: RUF012
    render_mode = None
    there: tuple[str, ...] = ("a", "ab", "abc", "ac", "abc", "c", "")

    def __init__(
        self, *, possible: bool = True, lists_all: bool = False, masks: bool = False
    ) -> None:
        self.lists_all, self.masks = lists_all, masks
        self.taken: list[dict[str, int]] = []
        if possible:
            self.possible_agents = ["a", "b", "c"]

    def observation_space(self, agent: str) -> Any:
        return spaces.Box(3, 20, (1,), np.float32)

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(3)

    def infos(self, agents: Any) -> Any:
        return {
            agent: {"action_mask": np.ones(3, np.int8)} if self.masks else {} for agent in agents
        }

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.agents, self.tick = list(self.there[0]), 0
        return self.observations(self.agents), self.infos(self.agents)

    def observations(self, agents: Any) -> Any:
        return {agent: np.array([5 + self.tick], np.float32) for agent in agents}

    def step(self, actions: Any) -> Any:
        assert set(actions) == set(self.agents)
        self.taken.append({agent: int(action) for agent, action in actions.items()})
        before, self.tick = list(self.agents), self.tick + 1
        self.agents = list(self.there[self.tick])
        here = sorted({*before, *self.agents})
        paid = {agent: float(self.tick) for agent in here}
        gone = {agent: agent not in self.agents for agent in here}
        cut = dict.fromkeys(here, False)
        if self.lists_all:
            paid = {**dict.fromkeys("abc", 0.0), **paid}
            gone, cut = {**dict.fromkeys("abc", False), **gone}, dict.fromkeys("abc", False)
        return self.observations(here), paid, gone, cut, self.infos(here)


PAID = {
    "a": [(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0), (5, 5.0)],
    # Born with tick 1, gone with 3, back with 4, gone with 5.
    "b": [(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0), (5, 5.0)],
    "c": [(2, 2.0), (3, 3.0), (4, 4.0), (5, 5.0), (6, 6.0)],
}
OVER = {"a": [5], "b": [3, 5], "c": [6]}


@pytest.mark.parametrize("possible", [True, False])
@pytest.mark.parametrize("lists_all", [True, False])
@pytest.mark.parametrize("actors", [("a:p", "b:p", "c:p"), ("x:p", "y:p", "z:p")])
@on_loop
async def test_agents_are_born_go_and_return(
    possible: bool, lists_all: bool, actors: tuple[str, ...]
) -> None:
    made: list[Population] = []

    def make() -> Population:
        made.append(Population(possible=possible, lists_all=lists_all))
        return made[-1]

    heard = calls()
    build = sdk.PettingZooEnvironment.factory(make)
    async with world(build, lambda: Cyclic(heard, (0, 1, 2)), actors=actors) as net:
        trial_id = await net.play()
        assert net.reason(trial_id) == "environment: final update"
    taken = [dict.fromkeys(Population.there[tick], tick % 3) for tick in range(6)]
    assert made[-1].taken == taken
    for actor, agent in zip(actors, "abc", strict=True):
        mine = heard[trial_id, actor.removesuffix(":p")]
        assert rewards(mine) == PAID[agent]
        seen = [*named(mine, "act"), named(mine, "end")[0].observation]
        assert [each.tick for each in seen if each.terminated] == OVER[agent]
        assert not any(each.truncated for each in seen)
        for tick, agents in enumerate(Population.there):
            if agent in agents:
                assert seen[tick].value.tolist() == [5 + tick]
    # What is nearest to zero in its space, or nothing where no agent is known.
    first = named(heard[trial_id, actors[2].removesuffix(":p")], "act")[0].value
    assert first.tolist() == ([3] if possible else [])


@on_loop
async def test_turns_of_agents_that_are_born() -> None:
    heard = calls()
    build = sdk.PettingZooEnvironment.factory(lambda: parallel_to_aec(Population(masks=True)))
    actors = ("a:p", "b:p", "c:p")
    async with world(build, lambda: Cyclic(heard, (0, 1, 2)), actors=actors) as net:
        trial_id = await net.play()
        assert net.reason(trial_id) == "environment: final update"
    for actor, agent in zip(actors, "abc", strict=True):
        mine = heard[trial_id, actor.removesuffix(":p")]
        assert sum(value for _, value in rewards(mine)) == sum(v for _, v in PAID[agent])
        seen = named(mine, "act")
        assert all(set(each.value) == {"observation", "action_mask", "turn"} for each in seen)
        turns = sum(bool(each.value["turn"]) for each in seen)
        assert turns == sum(agent in agents for agents in Population.there)
    absent = named(heard[trial_id, "c"], "act")[0].value
    assert absent["observation"].tolist() == [3]
    assert absent["action_mask"].tolist() == [0, 0, 0]
    assert not absent["turn"]


def test_nonzero_rewards_of_absent_agents_are_passed_on() -> None:
    class Pays(Population):
        def step(self, actions: Any) -> Any:
            observations, paid, *others = super().step(actions)
            return observations, {**paid, "c": 0.25 if self.tick == 1 else 0.0}, *others

    game = sdk.PettingZooEnvironment(Pays)
    game.start(TRIAL)
    actions = dict.fromkeys("abc", np.array(0))
    assert game.step(actions).rewards == {"a": 1.0, "b": 1.0, "c": 0.25}
    # It is there now.
    assert game.step(actions).rewards == {"a": 2.0, "b": 2.0, "c": 0.0}


def test_requested_end_truncates_agents_that_are_not_finished() -> None:
    game = sdk.PettingZooEnvironment(Population)
    game.start(TRIAL)
    actions = dict.fromkeys("abc", np.array(0))
    for _ in range(3):
        update = game.step(actions)
    assert update.terminated == {"b": True}
    update = game.end({})
    assert update is not None
    assert update.truncated == {"a": True, "b": False, "c": True}
    assert {name: value.tolist() for name, value in update.observations.items()} == {
        "a": [8],
        "b": [8],
        "c": [8],
    }


def test_requested_end_with_some_answers_has_no_last_observation() -> None:
    game = sdk.PettingZooEnvironment(Population)
    game.start(TRIAL)
    game.step(dict.fromkeys("abc", np.array(0)))
    assert game.end({"a": np.array(0), "c": np.array(0)}) is None


@pytest.mark.parametrize("possible", [["a"], None])
@on_loop
async def test_game_agent_without_an_actor_is_named_in_the_error(possible: Any) -> None:
    class Stranger(Population):
        there = ("a", "ad")

        def __init__(self) -> None:
            super().__init__(possible=False)
            if possible:
                self.possible_agents = possible

    build = sdk.PettingZooEnvironment.factory(Stranger)
    async with world(build, lambda: Cyclic(calls(), (0,)), actors=("a:p",)) as net:
        said = "agents: expected one actor per agent, got no actor for 'd'; the actors play a"
        assert said in net.reason(await net.play())


@on_loop
async def test_game_episode_without_agents_is_refused() -> None:
    class Empty(Population):
        there = ("",)

    build = sdk.PettingZooEnvironment.factory(Empty)
    async with world(build, lambda: Cyclic(calls(), (0,)), actors=("a", "b", "c")) as net:
        said = "agents: expected at least one after the reset"
        assert said in net.reason(await net.play())


def test_finished_agent_still_listed_by_the_environment_is_not_asked_again() -> None:
    class Lists(Population):
        there = ("abc", "ab", "ab", "a")
        dead: frozenset[str] = frozenset()

        def step(self, actions: Any) -> Any:
            self.agents = sorted({*self.agents} - self.dead)
            observations, paid, gone, cut, infos = super().step(actions)
            self.dead |= {agent for agent in gone if gone[agent]}
            self.agents = sorted({*self.agents} | self.dead)
            gone = {agent: agent in self.dead for agent in "abc"}
            return observations, {**dict.fromkeys("abc", 0.0), **paid}, gone, cut, infos

    game = sdk.PettingZooEnvironment(Lists)
    game.start(TRIAL)
    actions = dict.fromkeys("abc", np.array(0))
    update = game.step(actions)
    assert (update.terminated, update.rewards) == ({"c": True}, {"a": 1.0, "b": 1.0, "c": 1.0})
    update = game.step(actions)
    assert (update.terminated, update.rewards) == ({}, {"a": 2.0, "b": 2.0})
    assert game.step(actions).terminated == {"b": True}
