"""PettingZoo environments in trials are what they are outside of them."""

from __future__ import annotations

import random
import warnings
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from cogrs import sdk
from tests.orchestrator.net import on_loop
from tests.sdk.episodes import Cyclic
from tests.sdk.net import calls, named, rewards, world

gymnasium = pytest.importorskip("gymnasium")
pettingzoo = pytest.importorskip("pettingzoo")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    rps_v2 = pytest.importorskip("pettingzoo.classic.rps_v2")
    tictactoe_v3 = pytest.importorskip("pettingzoo.classic.tictactoe_v3")

from tests.sdk.leaves import Leaves  # noqa: E402  (it needs pettingzoo)

PLAYERS = ("player_1:p", "player_2:p")


def legal(seed: int, heard: Any = None) -> Any:
    """Plays a legal action when it is its turn, and nonsense otherwise."""

    async def play(session: sdk.ActorSession) -> None:
        rng = random.Random(f"{seed} {session.trial.name}")
        async for event in session:
            if heard is not None:
                heard[session.trial.id, session.trial.name].append(event)
            if isinstance(event, sdk.Observation):
                seen = event.value
                action = 99
                if seen["turn"]:
                    action = rng.choice(np.flatnonzero(seen["action_mask"]).tolist())
                await session.act(action)

    return play


def alone(seed: int) -> tuple[list[Any], dict[str, float]]:
    """Boards and returns of the same game without a trial."""
    env = tictactoe_v3.env()
    env.reset(seed=seed)
    players = {agent: random.Random(f"{seed} {agent}") for agent in env.possible_agents}
    boards = [env.observe("player_1")["observation"]]
    gained = dict.fromkeys(players, 0.0)
    for agent in env.agent_iter():
        observation, _, terminated, truncated, _ = env.last()
        if terminated or truncated:
            env.step(None)
            continue
        mask = np.flatnonzero(observation["action_mask"]).tolist()
        env.step(players[agent].choice(mask))
        boards.append(env.observe("player_1")["observation"])
        for each, reward in env.rewards.items():
            gained[each] += reward
    return boards, gained


@pytest.mark.parametrize("seed", range(6))
@on_loop
async def test_turns_masks_and_rewards_equal_the_game(seed: int) -> None:
    heard: defaultdict[Any, list[Any]] = defaultdict(list)
    make = sdk.PettingZooEnvironment.factory(tictactoe_v3.env, seed=seed)
    async with world(make, {"agent": legal(seed, heard)}, actors=PLAYERS) as net:
        trial_id = await net.play()
        assert net.reason(trial_id) == "environment: final update"
    boards, gained = alone(seed)
    first, second = (heard[trial_id, name] for name in ("player_1", "player_2"))
    for events in (first, second):
        *_, final = events
        assert final.observation.terminated
        assert not final.observation.truncated
        seen = [each for each in events if isinstance(each, sdk.Observation)]
        seen.append(final.observation)
        assert [each.tick for each in seen] == list(range(len(boards)))
    seen = [each.value for each in first if isinstance(each, sdk.Observation)]
    for ours, theirs in zip([*seen, first[-1].observation.value], boards, strict=True):
        np.testing.assert_array_equal(ours["observation"], theirs)
    assert [bool(each["turn"]) for each in seen] == [k % 2 == 0 for k in range(len(seen))]
    for name, events in (("player_1", first), ("player_2", second)):
        all_rewards = [each for each in events if isinstance(each, sdk.ReceivedReward)]
        all_rewards += events[-1].rewards
        assert sum(each.value for each in all_rewards) == gained[name]


@on_loop
async def test_illegal_move_ends_the_trial_by_name_when_set_to_raise() -> None:
    async def always_first(session: sdk.ActorSession) -> None:
        async for event in session:
            if isinstance(event, sdk.Observation):
                await session.act(0)

    make = sdk.PettingZooEnvironment.factory(tictactoe_v3.env, on_illegal="raise")
    async with world(make, {"agent": always_first}, actors=PLAYERS) as net:
        trial_id = await net.play()
        said = "action of 'player_2': expected a legal one of [1, 2, 3, 4, 5, 6, 7, 8], got 0"
        assert said in net.reason(trial_id)


@on_loop
async def test_action_out_of_bounds_is_refused_by_the_environment_or_where_that_is_to_raise() -> (
    None
):
    own = "environment: step failed: AssertionError: action is not in action space"
    ours = "action of 'player_1': expected one of Discrete(9), got int64 (): 9"
    for options, said in (({}, own), ({"on_illegal": "raise"}, ours)):
        make = sdk.PettingZooEnvironment.factory(tictactoe_v3.env, **options)
        agents = {"agent": sdk.FunctionAgent(lambda _: 9)}
        async with world(make, agents, actors=PLAYERS) as net:
            trial_id = await net.play()
            assert said in net.reason(trial_id)
            assert trial_id in net.reason(trial_id)


@pytest.mark.parametrize("action", [1.5, [1], {"a": 1}])
@on_loop
async def test_action_of_another_form_than_its_space_is_named_with_the_space(action: Any) -> None:
    make = sdk.PettingZooEnvironment.factory(tictactoe_v3.env)
    agents = {"agent": sdk.FunctionAgent(lambda _: action)}
    async with world(make, agents, actors=PLAYERS) as net:
        reason = net.reason(await net.play())
        assert "action of 'player_1': expected one of Discrete(9), got" in reason


def legal_sign(heard: Any) -> Any:
    """Plays signs of its own, and writes down which."""

    async def play(session: sdk.ActorSession) -> None:
        name = session.trial.name
        rng = random.Random(name)
        mine = heard[session.trial.id, name]
        async for event in session:
            kind = {sdk.ReceivedReward: "reward", sdk.Final: "end"}.get(type(event), "act")
            mine.append((kind, event))
            if isinstance(event, sdk.Observation):
                action = rng.randrange(3)
                mine.append(("acted", action))
                await session.act(action)

    return play


@pytest.mark.parametrize("names", [("player_0:p", "player_1:p"), ("ada:p", "bob:p")])
@on_loop
async def test_parallel_game_asks_all_players_in_each_tick(names: tuple[str, str]) -> None:
    heard = calls()
    make = sdk.PettingZooEnvironment.factory(lambda: rps_v2.parallel_env(max_cycles=6), seed=4)
    agents = {"agent": legal_sign(heard)}
    async with world(make, agents, actors=names) as net:
        trial_id = await net.play()
    ours = [name.removesuffix(":p") for name in names]
    env = rps_v2.parallel_env(max_cycles=6)
    env.reset(seed=4)
    played = {
        agent: named(heard[trial_id, actor], "acted")
        for agent, actor in zip(env.possible_agents, ours, strict=True)
    }
    gained: dict[str, list[tuple[int, float]]] = {agent: [] for agent in played}
    for tick in range(6):
        found = env.step({agent: actions[tick] for agent, actions in played.items()})
        for agent, reward in found[1].items():
            gained[agent].append((tick + 1, float(reward)))
    for agent, actor in zip(env.possible_agents, ours, strict=True):
        assert rewards(heard[trial_id, actor]) == gained[agent]
        final = named(heard[trial_id, actor], "end")[0].observation
        assert (final.terminated, final.truncated) == (False, True)


@pytest.mark.parametrize("names", [("player_1:p",), ("player_1:p", "somebody:p")])
@on_loop
async def test_actors_without_an_agent_are_refused(names: tuple[str, ...]) -> None:
    make = sdk.PettingZooEnvironment.factory(tictactoe_v3.env)
    async with world(make, {"agent": legal(0)}, actors=names) as net:
        said = "actors: expected one for each of player_1, player_2"
        assert said in net.reason(await net.play())


@on_loop
async def test_object_that_is_not_a_pettingzoo_environment_is_refused() -> None:
    make = sdk.PettingZooEnvironment.factory(object)
    async with world(make, {"agent": legal(0)}, actors=PLAYERS) as net:
        said = "TypeError: make: expected an environment of PettingZoo, got object"
        assert said in net.reason(await net.play())


@on_loop
async def test_finished_agent_gets_its_last_reward_once_and_is_not_asked_again() -> None:
    heard = calls()
    make = sdk.PettingZooEnvironment.factory(Leaves, frames_to=["a"])
    async with world(make, lambda: Cyclic(heard, (0, 1)), actors=("a:p", "b:p")) as net:
        trial_id = await net.play()
        assert net.reason(trial_id) == "environment: final update"
    first, second = heard[trial_id, "a"], heard[trial_id, "b"]
    assert rewards(first) == [(1, 1.0), (2, 1.0), (3, 1.0)]
    assert rewards(second) == [(1, 1.0)]
    over = [(each.tick, each.terminated) for each in named(second, "act")]
    assert over == [(0, False), (1, True), (2, False)]
    assert named(first, "end")[0].observation.terminated
    # The picture of each tick, that of the start too.
    frames = [*named(first, "message"), *named(first, "end")[0].messages]
    pictures = [(each.tick, sdk.read_array_message(each.payload)) for each in frames]
    assert [tick for tick, _ in pictures] == [0, 1, 2, 3]
    for tick, picture in pictures:
        np.testing.assert_array_equal(picture, np.full((2, 2, 3), tick, np.uint8))
    assert named(second, "message") == []


class Masks(Leaves):
    """The infos of `a` say that 1 is not legal."""

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        observations, infos = super().reset(seed, options)
        return observations, {**infos, "a": {"action_mask": np.array([1, 0], np.int8)}}


@on_loop
async def test_masks_may_come_with_the_infos() -> None:
    heard = calls()
    make = sdk.PettingZooEnvironment.factory(Masks, on_illegal="raise")
    async with world(make, lambda: Cyclic(heard, (1, 0)), actors=("a:p", "b:p")) as net:
        trial_id = await net.play()
        said = "action of 'a': expected a legal one of [0], got 1"
        assert said in net.reason(trial_id)
    (masked,) = named(heard[trial_id, "a"], "act")
    np.testing.assert_array_equal(masked.value["action_mask"], [1, 0])
    assert masked.value["observation"] == 0
    (plain,) = named(heard[trial_id, "b"], "act")
    assert plain.value == 0


@pytest.mark.parametrize("max_steps", [1, 2])
@on_loop
async def test_requested_end_cuts_a_pettingzoo_game_short(max_steps: int) -> None:
    heard: defaultdict[Any, list[Any]] = defaultdict(list)
    make = sdk.PettingZooEnvironment.factory(tictactoe_v3.env)
    agents = {"agent": legal(0, heard)}
    async with world(make, agents, actors=PLAYERS, max_steps=max_steps) as net:
        trial_id = await net.play()
    for name in ("player_1", "player_2"):
        final = heard[trial_id, name][-1]
        assert (final.observation.terminated, final.observation.truncated) == (False, True)
        # The actions that followed the last step are taken too.
        assert np.count_nonzero(final.observation.value["observation"]) == max_steps + 1


def test_game_is_closed_once_after_every_kind_of_end() -> None:
    closed = []

    class Closes(Leaves):
        def close(self) -> None:
            closed.append(self)

    game = sdk.PettingZooEnvironment(Closes)
    trial = sdk.Trial("t", (sdk.Actor("a", "p"), sdk.Actor("b", "p")))
    game.start(trial)
    game.step({"a": np.array(0), "b": np.array(1)})
    game.end({})
    game.lost()
    assert len(closed) == 1
    with pytest.raises(RuntimeError, match="not started, or is over"):
        game.step({})
