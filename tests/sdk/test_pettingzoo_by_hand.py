"""PettingZoo's own environments in trials pay and end as when they are stepped by hand."""

from __future__ import annotations

import importlib
import random
import warnings
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from cogrs import sdk
from tests.orchestrator.net import on_loop
from tests.sdk.net import world

pytest.importorskip("gymnasium")
pytest.importorskip("pettingzoo")

_EXAMPLES = "test.example_envs.generated_agents_"
TURNS: dict[str, dict[str, Any]] = {
    "classic.tictactoe_v3": {},
    "classic.connect_four_v3": {},
    "classic.rps_v2": {},
    "classic.go_v5": {"board_size": 5},
    "classic.chess_v6": {},
    "classic.hanabi_v5": {},
    "classic.leduc_holdem_v4": {},
    "classic.texas_holdem_v4": {},
    "classic.texas_holdem_no_limit_v6": {},
    "butterfly.cooperative_pong_v6": {"max_cycles": 8, "render_mode": "rgb_array"},
    "butterfly.knights_archers_zombies_v11": {"max_cycles": 60},
    "butterfly.pistonball_v6": {"max_cycles": 4},
    "sisl.multiwalker_v9": {"max_cycles": 15},
    "sisl.pursuit_v5": {"max_cycles": 10},
}
BORN: dict[str, dict[str, Any]] = {
    f"{_EXAMPLES}env_v0": {"max_cycles": 3},
    f"{_EXAMPLES}env_action_mask_info_v0": {"max_cycles": 3},
    f"{_EXAMPLES}env_action_mask_obs_v0": {"max_cycles": 3},
    f"{_EXAMPLES}env_cust_agentid_v0": {"max_cycles": 3},
    f"{_EXAMPLES}parallel_v0": {},
    f"{_EXAMPLES}parallel_cust_agentid_v0": {},
}
AT_ONCE = [name for name in TURNS if name.split(".")[0] != "classic" or "rps" in name]
MORE = 12
"""Actors that wait for agents to be born."""


def made(name: str, interface: str, options: dict[str, Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            module = importlib.import_module(f"pettingzoo.{name}")
            # That of the examples takes no options.
            raw = name in BORN and interface == "env"
            return getattr(module, "raw_env" if raw else interface)(**options)
        except ImportError as error:  # it needs what is not installed here
            pytest.skip(str(error))


class Script(sdk.Agent):
    """Plays legal actions at random, and writes down everything by tick."""

    def __init__(self, told: defaultdict[str, list[Any]], spaces: dict[str, Any]) -> None:
        self.all_told = told
        self.spaces = spaces

    def start(self, trial: sdk.Trial) -> None:
        self.told = self.all_told[trial.name]
        self.rng = random.Random(trial.name)
        self.space = self.spaces[trial.name]

    def act(self, observation: sdk.Observation) -> Any:
        self.told.append(("act", observation.tick, observation))
        action = self.decide(observation.value)
        self.told.append(("action", observation.tick, action))
        return action

    def decide(self, seen: Any) -> Any:
        mask = seen.get("action_mask") if isinstance(seen, dict) else None
        if mask is not None and mask.any():
            return self.rng.choice(np.flatnonzero(mask).tolist())
        if self.space is None:  # of an agent to be born: 0 is an action of every space here
            return 0
        return self.space.sample()

    def reward(self, reward: sdk.ReceivedReward) -> None:
        self.told.append(("reward", reward.tick, reward.value))

    def end(self, final: sdk.Final) -> None:
        for reward in final.rewards:
            self.reward(reward)
        self.told.append(("end", final.observation.tick, final.observation))


class Played:
    """What actors were told in a trial, by tick."""

    def __init__(self, told: dict[str, list[Any]]) -> None:
        self._told: defaultdict[tuple[str, str], dict[int, Any]] = defaultdict(dict)
        for actor, events in told.items():
            for kind, tick, what in events:
                self._told[actor, kind][tick] = what

    def action(self, actor: str, tick: int) -> Any:
        return self._told[actor, "action"][tick]

    def rewards(self, actor: str) -> dict[int, float]:
        return self._told[actor, "reward"]

    def seen(self, actor: str) -> dict[int, sdk.Observation]:
        return {**self._told[actor, "act"], **self._told[actor, "end"]}

    def ends(self, actor: str) -> list[tuple[int, bool, bool]]:
        return [
            (tick, each.terminated, each.truncated)
            for tick, each in self.seen(actor).items()
            if each.terminated or each.truncated
        ]


class ByHand:
    """What an environment returns when it is stepped by hand, by agent and tick."""

    def __init__(self, actors: list[str], agents: list[Any]) -> None:
        self.actors = actors
        self.first = len(agents)
        self.plays = dict(zip(agents, actors, strict=False))
        self.paid: defaultdict[Any, dict[int, float]] = defaultdict(dict)
        self.ends: defaultdict[Any, list[tuple[int, bool, bool]]] = defaultdict(list)

    def note(
        self, tick: int, agents: list[Any], rewards: Any, terminated: Any, truncated: Any
    ) -> None:
        """Take down a step; agents that are born are played by the next actors."""
        for agent in agents:
            if agent not in self.plays:
                self.plays[agent] = self.actors[len(self.plays)]
        for agent, reward in rewards.items():
            self.paid[agent][tick] = float(reward)
            flags = bool(terminated[agent]), bool(truncated[agent])
            if any(flags) and not self.ends[agent]:
                self.ends[agent].append((tick, *flags))

    def compare(self, played: Played, *, born: bool) -> None:
        assert (len(self.plays) > self.first) is born
        for agent, actor in self.plays.items():
            ours, theirs = played.rewards(actor), self.paid[agent]
            for tick in {*ours, *theirs}:
                # Zeros for agents that are not there need not be told.
                assert ours.get(tick, 0) == pytest.approx(theirs.get(tick, 0), rel=1e-6), tick
            assert played.ends(actor) == self.ends[agent]


def equal(ours: Any, theirs: Any) -> None:
    for key in theirs if isinstance(theirs, dict) else ():
        np.testing.assert_array_equal(ours[key], theirs[key])
    if not isinstance(theirs, dict):
        np.testing.assert_array_equal(ours, theirs)


async def play(
    name: str,
    interface: str,
    options: dict[str, Any],
    actors: list[str],
    agents: list[Any],
    max_steps: int = 0,
) -> Played:
    told: defaultdict[str, list[Any]] = defaultdict(list)
    spaces: dict[str, Any] = dict.fromkeys(actors)
    env = made(name, interface, options)
    env.reset(seed=5)
    if name not in BORN:
        for actor, agent in zip(actors, agents, strict=True):
            spaces[actor] = env.action_space(agent)
            spaces[actor].seed(7)
    make = sdk.PettingZooEnvironment.factory(lambda: made(name, interface, options), seed=5)
    script = {"agent": lambda: Script(told, spaces)}
    async with world(make, script, actors=actors, max_steps=max_steps) as net:
        trial_id = await net.play()
        assert net.reason(trial_id).startswith("max_steps" if max_steps else "environment: final")
    return Played(told)


def first_agents(name: str, interface: str, options: dict[str, Any]) -> list[Any]:
    env = made(name, interface, options)
    env.reset(seed=5)
    return list(env.agents)


@pytest.mark.parametrize("name", [*TURNS, *(each for each in BORN if "env_" in each)])
@on_loop
async def test_turns_pay_and_end_as_by_hand(name: str) -> None:
    options = {**TURNS, **BORN}[name]
    agents = first_agents(name, "env", options)
    actors = [f"actor{k}" for k in range(len(agents) + MORE * (name in BORN))]
    played = await play(name, "env", options, actors, agents)
    seen = {actor: played.seen(actor) for actor in actors}

    env = made(name, "env", options)
    env.reset(seed=5)
    hand = ByHand(actors, env.agents)
    last: defaultdict[Any, float] = defaultdict(float)
    tick = 0
    for agent in env.agent_iter():
        observation, reward, terminated, truncated, _ = env.last()
        last[agent] += float(reward)
        if terminated or truncated:
            env.step(None)
            continue
        actor = hand.plays[agent]
        shown = seen[actor][tick].value
        assert shown["turn"]
        if name not in BORN:  # those draw what they show
            equal(shown if isinstance(observation, dict) else shown["observation"], observation)
        env.step(played.action(actor, tick))
        tick += 1
        hand.note(tick, env.agents, env.rewards, env.terminations, env.truncations)
    hand.compare(played, born=name in BORN)
    for agent, actor in hand.plays.items():
        assert sum(played.rewards(actor).values()) == pytest.approx(last[agent], rel=1e-5)


@pytest.mark.parametrize("name", [*AT_ONCE, *(each for each in BORN if "parallel" in each)])
@on_loop
async def test_parallel_environments_pay_and_end_as_by_hand(name: str) -> None:
    options = {**TURNS, **BORN}[name]
    agents = first_agents(name, "parallel_env", options)
    actors = [f"actor{k}" for k in range(len(agents) + MORE * (name in BORN))]
    # Those of which agents are born have no end of their own.
    steps = 25 * (name in BORN)
    played = await play(name, "parallel_env", options, actors, agents, steps)
    seen = {actor: played.seen(actor) for actor in actors}

    env = made(name, "parallel_env", options)
    observations, _ = env.reset(seed=5)
    hand = ByHand(actors, env.agents)
    tick = 0
    while env.agents and (not steps or tick <= steps):
        plays = {agent: hand.plays[agent] for agent in env.agents}
        if name not in BORN:
            for agent, actor in plays.items():
                equal(seen[actor][tick].value, observations[agent])
        actions = {agent: played.action(actor, tick) for agent, actor in plays.items()}
        observations, *outcome, _ = env.step(actions)
        tick += 1
        hand.note(tick, env.agents, *outcome)
    for agent in env.agents:
        hand.ends[agent].append((tick, False, True))
    hand.compare(played, born=name in BORN)
