"""Environments of PettingZoo as games, beside loops that play them one after the other."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pettingzoo")
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

import cogrs
from cogrs.collector import GameError
from tests.collector.agent_environments import (
    AGENTS,
    PLANS,
    Changing,
    Countdown,
    Wandering,
    exiting,
    is_cut,
    raising,
    reward_of,
)
from tests.collector.agent_streams import OUTCOME, State, Streams, collected, compare
from tests.collector.build import run

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    rps_v2 = pytest.importorskip("pettingzoo.classic.rps_v2")
    tictactoe_v3 = pytest.importorskip("pettingzoo.classic.tictactoe_v3")


def action_of(seq: int) -> int:
    return seq % 3 + 1


def play_changing(plans: Any, episodes: int) -> Streams:
    """Play `Changing` by its plans alone."""
    streams = Streams(AGENTS)
    for episode in range(episodes):
        plan = [*plans[episode % len(plans)], set()]
        actions: dict[str, int] = {}
        for step, present in enumerate(plan):
            before = plan[step - 1] if step else set()
            for agent in AGENTS:
                if agent not in present | before:
                    continue
                gone = agent not in present
                reward = reward_of(step, agent) + actions[agent] if agent in before else 0.0
                cut = is_cut(step, agent)
                shown = {"s": [episode, step, AGENTS.index(agent)]}
                ends = gone and not cut, gone and cut
                action = action_of(streams.seqs.get(agent, 0))
                streams.add(agent, shown, reward, *ends, action)
                if not gone:
                    actions[agent] = action
    return streams


def play_by_turns(env: Any, act: Any, parts: tuple[str, ...], episodes: int) -> Streams:
    """Play an AEC environment by the loop of PettingZoo's documentation."""
    streams = Streams(list(env.possible_agents))
    for _ in range(episodes):
        env.reset(seed=1)
        streams.seqs.clear()
        for agent in env.agent_iter():
            add_removed(streams, env, act)
            shown, reward, terminated, truncated, _ = env.last()
            over = terminated or truncated
            parted = {part: shown[part] for part in parts} if parts else {"s": shown}
            kept = {part: np.array(value) for part, value in parted.items()}
            action = act({key: value[None] for key, value in kept.items()})[0]
            streams.add(agent, kept, reward, terminated, truncated, int(action))
            env.step(None if over else int(action))
        add_removed(streams, env, act)
    return streams


def add_removed(streams: Streams, env: Any, act: Any) -> None:
    """Add the last states of agents that left before a turn that showed their end."""
    for agent in AGENTS:
        if agent in streams.seqs and agent not in env.agents:
            ended = env.terminations.get(agent, False)
            cut = env.truncations.get(agent, False) or not ended
            shown = env.observe(agent)
            action = int(act({"s": shown[None]})[0])
            reward = env._cumulative_rewards.get(agent, 0.0)
            streams.add(agent, {"s": shown}, reward, ended, cut, action)


def count_up(batch: Any) -> Any:
    return batch["seq"] % 3 + 1


@pytest.mark.parametrize(
    ("options", "together", "steps"),
    [
        ({}, False, 2),
        ({}, True, 4),
        ({"num_threads": 2}, False, 4),
        ({"num_threads": 2}, True, 2),
        ({"processes": 2}, False, 4),
    ],
)
def test_parallel_environment_whose_agents_come_and_go_equals_a_loop(
    options: dict[str, int], together: bool, steps: int
) -> None:
    found = collected(
        Changing, AGENTS, count_up, ("s",), 20, games=3, steps=steps, together=together, **options
    )
    compare(found, play_changing(PLANS, 30), ("s",))


PRESENT = st.sets(st.sampled_from(AGENTS))


@settings(max_examples=15)
@given(st.lists(st.lists(PRESENT, min_size=1, max_size=5), min_size=1, max_size=3))
def test_parallel_environment_of_any_population_equals_a_loop(plans: list[list[set[str]]]) -> None:
    # At least one agent at each step, and all agents in some episode.
    plans = [[present or {"green"} for present in plan] for plan in plans]
    plans.append([set(AGENTS), set(AGENTS)])
    found = collected(lambda: Changing(plans), AGENTS, count_up, ("s",), 8)
    compare(found, play_changing(plans, 60), ("s",))


def lowest_legal(batch: Any) -> Any:
    return batch["action_mask"].argmax(axis=1)


@pytest.mark.parametrize(
    ("options", "together"), [({}, False), ({}, True), ({"processes": 1}, False)]
)
def test_game_with_turns_equals_the_loop_of_pettingzoo(
    options: dict[str, int], together: bool
) -> None:
    parts = ("observation", "action_mask")
    found = collected(
        tictactoe_v3.env,
        ["player_1", "player_2"],
        lowest_legal,
        parts,
        12,
        games=2,
        together=together,
        **options,
    )
    compare(found, play_by_turns(tictactoe_v3.env(), lowest_legal, parts, 8), parts)
    rewards = {float(each["last_r"]) for stream in found.values() for each in stream[0]}
    assert rewards == {-1.0, 0.0, 1.0}


def by_turn(batch: Any) -> Any:
    return batch["observation"].sum(axis=1) % 3


@pytest.mark.parametrize("lives", [(3, 1, 2), (1, 1, 1), (2, 5, 1)])
def test_agents_with_turns_that_die_and_return_equal_the_loop_of_pettingzoo(
    lives: tuple[int, ...],
) -> None:
    parts = ("observation", "action_mask")
    found = collected(lambda: Countdown(lives), AGENTS, by_turn, parts, 12, steps=3)
    compare(found, play_by_turns(Countdown(lives), by_turn, parts, 20), parts)


def by_sum(batch: Any) -> Any:
    return batch["s"].sum(axis=1).astype(np.int64) % 3


@pytest.mark.parametrize("silent", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_turns_in_any_order_of_any_population_equal_the_loop_of_pettingzoo(
    seed: int, silent: bool
) -> None:
    found = collected(
        lambda: Wandering(seed, silent), AGENTS, by_sum, ("s",), 30, steps=3, together=seed == 1
    )
    compare(found, play_by_turns(Wandering(seed, silent), by_sum, (), 120), ("s",))


def test_first_turn_that_is_the_last_shows_end_and_reward() -> None:
    # An illegal first move ends the game, and the other agent has a final state alone.
    taken: list[State] = []
    co = cogrs.ContextOptions(num_games=1)
    keys = dict.fromkeys((*OUTCOME, "player"), "")
    description = {
        "player_1": ({**keys, "_name": "player_1", "_batchsize": 1}, {"a": ""}),
        "player_2": ({**keys, "_name": "player_2", "_batchsize": 1}, {"a": ""}),
    }

    def note(batch: Any, _gpu: Any, reply: Any) -> None:
        taken.append({key: int(array[0]) for key, array in batch[0].items()})
        reply[0]["a"][:] = 4

    with cogrs.GCWrapper(
        cogrs.GameContext("pettingzoo", co, tictactoe_v3.env), co, description
    ) as games:
        games.reg_callback("player_1", note)
        games.reg_callback("player_2", note)
        games.Start()
        while len(taken) < 10:
            run(games)
    # Both take the same cell: the second move is illegal.
    first, second, *_ = taken
    assert (first["player"], second["player"]) == (0, 1)
    losses = [state for state in taken if state["last_r"] == -1]
    assert losses
    assert all(state["ended"] and state["player"] == 1 for state in losses)
    after = [state for state in taken[4:] if state["seq"] == 0]
    assert all(state["last_terminal"] == 1 for state in after)


@pytest.mark.parametrize("make", [rps_v2.parallel_env, rps_v2.env])
def test_both_interfaces_of_one_game_show_the_same_to_each_agent(make: Any) -> None:
    agents = ["player_0", "player_1"]

    def act(batch: Any) -> Any:
        return (batch["seq"] + batch["player"]) % 3

    found = collected(make, agents, act, ("s",), 20)
    for agent, reward in zip(agents, (-1, 1), strict=True):
        stream = found[agent][0]
        assert stream[0]["s"] == 3
        assert [state["last_r"] for state in stream[:4]] == [0, reward, reward, reward]
        assert [int(state["seq"]) for state in stream[14:18]] == [14, 15, 0, 1]
        assert [int(state["cut"]) for state in stream[14:18]] == [0, 1, 0, 0]
        assert [int(state["last_truncated"]) for state in stream[14:18]] == [0, 0, 1, 0]


def test_masks_and_infos_of_agents_are_keys() -> None:
    co = cogrs.ContextOptions(num_games=1)
    keys = dict.fromkeys(("s", "player", "action_mask", "level", "last_r"), "")
    found: list[State] = []

    def note(batch: Any, _gpu: Any, reply: Any) -> None:
        found.append({key: array[0].copy() for key, array in batch[0].items()})
        reply[0]["a"][:] = 1

    context = cogrs.GameContext("pettingzoo", co, Changing, info_keys={"level": np.int16})
    assert context.GetParams()["players"] == AGENTS
    assert context.GetParams()["num_action"] == 4
    with cogrs.GCWrapper(context, co, {"actor": ({**keys, "_batchsize": 1}, {"a": ""})}) as games:
        games.reg_callback("actor", note)
        games.Start()
        while len(found) < 20:
            games.Run()  # without a timeout this thread moves the games
    for state in found:
        step = int(state["s"][1])
        assert state["player"] == state["s"][2]
        assert state["level"] == step
        expected = np.arange(4) >= step % 4 if step else np.ones(4)
        np.testing.assert_array_equal(state["action_mask"], expected)
    assert {int(state["s"][0]) for state in found} >= {0, 1}


def test_stacked_frames_begin_with_the_life_of_an_agent() -> None:
    co = cogrs.ContextOptions(num_games=1)
    found: list[Any] = []

    def note(batch: Any, _gpu: Any, reply: Any) -> None:
        found.append((int(batch[0]["seq"][0]), batch[0]["s"][0, :, 1].tolist()))
        reply[0]["a"][:] = 1

    def ignore(_batch: Any, _gpu: Any, reply: Any) -> None:
        reply[0]["a"][:] = 1

    description = {
        "red": ({"s": "3", "seq": "", "_name": "red", "_batchsize": 1}, {"a": ""}),
        "green": ({"_name": "green", "_batchsize": 1}, {"a": ""}),
        "blue": ({"_name": "blue", "_batchsize": 1}, {"a": ""}),
    }
    with cogrs.GCWrapper(cogrs.GameContext("pettingzoo", co, Changing), co, description) as games:
        games.reg_callback("red", note)
        games.reg_callback("green", ignore)
        games.reg_callback("blue", ignore)
        games.Start()
        while len(found) < 7:
            run(games)
    # Red dies at step 1 and returns at step 3 of the first episode.
    assert found[:7] == [
        (0, [0, 0, 0]),
        (1, [0, 0, 1]),
        (0, [0, 0, 3]),
        (1, [0, 3, 4]),
        (2, [3, 4, 5]),
        (0, [0, 0, 0]),
        (1, [0, 0, 1]),
    ]


def play(make: Any, count: int, **options: Any) -> list[Any]:
    """Return `(id, episode, step)` of the first states, with on_error as `options` say."""
    processes = options.pop("processes", 0)
    co = cogrs.ContextOptions(num_games=2, restart_backoff=0.0, **options)
    context = cogrs.GameContext("pettingzoo", co, make, processes=processes)
    found: list[Any] = []

    def note(batch: Any, _gpu: Any, reply: Any) -> None:
        for game, shown in zip(batch[0]["id"], batch[0]["s"], strict=True):
            found.append((int(game), *map(int, shown[:2])))
        reply[0]["a"][:] = 1

    keys = {"s": "", "id": "", "_batchsize": 2}
    with cogrs.GCWrapper(context, co, {"actor": (keys, {"a": ""})}) as games:
        games.reg_callback("actor", note)
        games.Start()
        while len(found) < count:
            run(games)
    return found


@pytest.mark.parametrize(("make", "processes"), [(raising, 0), (raising, 2), (exiting, 2)])
def test_failing_environment_is_an_error_or_restarts(make: Any, processes: int) -> None:
    with pytest.raises(GameError):
        play(make, 100, processes=processes)
    found = play(make, 8, processes=processes, on_error="restart", max_restarts=100)
    # A new environment each time begins with its first episode.
    assert {episode for _, episode, _ in found} == {0}
    assert {step for *_, step in found} == {0, 1}


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        ("stranger", "agents: expected one of possible_agents .*, got 'violet'"),
        ("unseen", "observations: expected one of agent 'red', got"),
        ("raises", "told to"),
    ],
)
def test_environment_that_breaks_its_contract_fails_its_game(odd: str, words: str) -> None:
    with pytest.raises(GameError, match=words):
        play(lambda: Changing(odd=odd), 100)


def test_agent_that_leaves_without_a_flag_was_truncated() -> None:
    found = collected(lambda: Changing(PLANS[1:2], odd="silent"), AGENTS, count_up, ("s",), 4)
    for agent in AGENTS:
        assert [int(state["cut"]) for state in found[agent][0][:4]] == [0, 1, 0, 1]
        assert not any(state["ended"] for state in found[agent][0])


def test_action_outside_of_an_agents_space_fails_its_game() -> None:
    words = r"a of agent 'red': expected an integer in \[1, 5\), got 0"
    with pytest.raises(GameError, match=words):
        collected(Changing, AGENTS, lambda batch: batch["seq"] * 0, ("s",), 4)


class Unequal(Changing):
    def observation_space(self, agent: str) -> Any:
        return spaces.Box(0, 1, (2 if agent == "blue" else 3,), np.float32)


class MoreActions(Changing):
    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(3 if agent == "blue" else 4)


class Nameless(Changing):
    def __init__(self) -> None:
        super().__init__()
        self.possible_agents = []


class Playing(Changing):
    def observation_space(self, agent: str) -> Any:
        return spaces.Dict({"player": spaces.Discrete(3)})


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (Unequal, ValueError, r"observation_space: expected arrays as of agent 'red'.*'blue'"),
        (MoreActions, ValueError, r"action_space: expected arrays as of agent 'red'.*'blue'"),
        (Nameless, ValueError, "possible_agents: expected all agents"),
        (Playing, ValueError, "agent 'red': observation_space: 'player' has another meaning"),
        (lambda: 3, TypeError, "env: expected an environment of PettingZoo, got int"),
        ("classic/rps-v2", ValueError, "env: expected a function, .* id='classic/rps-v2'"),
    ],
)
def test_environment_that_cannot_be_a_game_is_refused(
    make: Any, kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        cogrs.GameContext("pettingzoo", make)


@pytest.mark.parametrize("key", [{"r": ""}, {"terminal": ""}, {"s": "2"}])
def test_next_states_of_all_agents_together_are_refused(key: dict[str, str]) -> None:
    co = cogrs.ContextOptions(num_games=1)
    description = {"all": ({**key, "_batchsize": 1, "_T": 2}, None)}
    with pytest.raises(ValueError, match=f"'all': {next(iter(key))}: expected _name, one of"):
        cogrs.GCWrapper(cogrs.GameContext("pettingzoo", co, Changing), co, description)


def test_queries_of_searches_are_refused() -> None:
    co = cogrs.ContextOptions(num_games=1, max_num_threads=1)
    with pytest.raises(
        ValueError, match="max_num_threads: expected 0 for environments of PettingZoo"
    ):
        cogrs.GCWrapper(
            cogrs.GameContext("pettingzoo", co, Changing),
            co,
            {"actor": ({"_batchsize": 1}, {"a": ""})},
        )


def test_environment_by_the_name_of_its_function_with_options() -> None:
    co = cogrs.ContextOptions(num_games=1)
    context = cogrs.GameContext(
        "pettingzoo", co, "pettingzoo.classic.rps.rps:parallel_env", max_cycles=2
    )
    assert context.GetParams()["players"] == ["player_0", "player_1"]
    context.Stop()
