"""Environments of Gymnasium as games: what is shown, delivered and repeated."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cogrs
from tests.collector.build import run

gymnasium = pytest.importorskip("gymnasium")
from gymnasium import spaces  # noqa: E402

from cogrs.collector.games.gymnasium import ContextOptions, GameContext, GameOptions  # noqa: E402
from tests.collector import sample_environments  # noqa: E402
from tests.collector.python_games import (  # noqa: E402
    check,
    collected,
    count_up,
    described,
    played,
)


@settings(max_examples=25)
@given(st.data())
def test_histories_put_together_are_each_game_s_run(data: st.DataObject) -> None:
    num_games = data.draw(st.integers(1, 6))
    batchsize = data.draw(st.integers(1, num_games))
    listener, steps = data.draw(st.integers(1, 6)), data.draw(st.integers(2, 9))
    length, cut = data.draw(st.integers(2, 6)), data.draw(st.booleans())
    threads = data.draw(st.integers(1, 3))
    descriptions = described(batchsize, listener, steps)
    env = sample_environments.Counting
    make = {"length": length, "cut": cut}
    with played(env, descriptions, num_games, num_threads=threads, make=make) as games:
        check(collected(games, count_up, "optimizer", 40), length, cut)


@pytest.mark.parametrize("processes", [0, 2])
def test_four_games_with_small_and_large_batches_run_on(processes: int) -> None:
    descriptions = described(2, 4, 3)
    env = "tests.collector.sample_environments:Counting"
    with played(env, descriptions, processes=processes) as games:
        check(collected(games, count_up, "optimizer", 60), 5, False)


@pytest.mark.parametrize("processes", [0, 2])
def test_cartpole_equals_cartpole_of_gymnasium(processes: int) -> None:
    """Every history is what the environment itself does when it is given the same actions."""
    histories: dict[int, list[tuple[int, Any, float, int]]] = {game: [] for game in range(5)}
    keys = {**dict.fromkeys(("id", "seq", "s", "last_r"), ""), "_batchsize": 5}

    def act(batch: Any, _gpu: Any, reply: Any) -> None:
        action = batch[0]["s"][:, 2] > 0
        reply[0]["a"][:] = action
        for row, game in enumerate(batch[0]["id"].tolist()):
            seq, shown = int(batch[0]["seq"][row]), batch[0]["s"][row].copy()
            paid = float(batch[0]["last_r"][row])
            histories[game].append((seq, shown, paid, int(action[row])))

    with played("CartPole-v1", {"actor": (keys, {"a": ""})}, 5, processes=processes) as games:
        games.reg_callback("actor", act)
        for _ in range(60):
            run(games)
    env = gymnasium.make("CartPole-v1").unwrapped
    firsts = set()
    for history in histories.values():
        env.reset(seed=0)
        for (seq, shown, _, action), after in pairwise(history):
            if seq == 0:
                firsts.add(shown.tobytes())
                env.state = shown.astype(float)
                env.steps_beyond_terminated = None
            if after[0] > 0:
                expected, reward, *_ = env.step(action)
                np.testing.assert_allclose(after[1], expected, rtol=1e-4, atol=1e-5)
                assert after[2] == reward
    assert len(firsts) >= 10, "each episode starts elsewhere"


def test_frozen_lake_and_pendulum() -> None:
    keys = dict.fromkeys(("s", "a", "last_r", "last_terminal", "last_truncated"), "")
    lake = {"actor": ({**keys, "_batchsize": 4}, {"a": ""})}
    with played("FrozenLake-v1", lake, make={"is_slippery": False}) as games:
        assert games.params["num_action"] == 4
        seen, ends = set(), 0

        def act(batch: Any, _gpu: Any, reply: Any) -> None:
            nonlocal ends
            assert batch[0]["s"].dtype == np.int64
            assert batch[0]["s"].shape == (4,)
            ends += batch[0]["last_terminal"].sum()
            seen.update(batch[0]["s"].tolist())
            reply[0]["a"][:] = np.where(batch[0]["s"] % 4 < 1, 1, 2)

        games.reg_callback("actor", act)
        for _ in range(60):
            run(games)
    assert seen == {0, 4, 8, 12}, "down the left side, into the hole"
    assert ends > 20
    pendulum = {"actor": ({**keys, "_batchsize": 4}, {"a": "1"})}
    with played("Pendulum-v1", pendulum, make={"max_episode_steps": 7}) as games:
        truncated = []

        def push(batch: Any, _gpu: Any, reply: Any) -> None:
            assert reply[0]["a"].dtype == np.float32
            assert reply[0]["a"].shape == (4, 1)
            assert batch[0]["s"].shape == (4, 3)
            truncated.append(int(batch[0]["last_truncated"].sum()))
            assert not batch[0]["last_terminal"].any()
            reply[0]["a"][:] = 0.5

        games.reg_callback("actor", push)
        for _ in range(32):
            run(games)
    assert [index for index, count in enumerate(truncated) if count] == [8, 16, 24]
    assert set(truncated) == {0, 4}


@pytest.mark.parametrize("processes", [0, 1])
def test_parts_of_dicts_are_keys_and_masks_are_passed_on(processes: int) -> None:
    names = ("image", "lives", "inner.0", "inner.1", "action_mask", "seq")
    asked = {**dict.fromkeys(names, ""), "image": "2", "_batchsize": 2}
    descriptions = {"actor": (asked, {"a": ""})}
    env = "tests.collector.sample_environments:Dicts"
    with played(env, descriptions, 2, processes=processes) as games:
        assert games.params["state_shape"]["image"] == (3, 4, 2)
        assert games.params["state_dtype"]["image"] == "uint8"

        def act(batch: Any, _gpu: Any, _reply: Any) -> None:
            shown, seq = batch[0], batch[0]["seq"]
            assert shown["image"].dtype == np.uint8
            assert shown["image"].shape == (2, 2, 3, 4, 2)
            assert (shown["image"][:, 1] == seq[:, None, None, None]).all()
            assert (shown["lives"] == seq).all()
            assert shown["inner.0"].dtype == np.int8
            assert (shown["inner.0"] == [1, 0, 1]).all()
            assert (shown["inner.1"] == np.stack([seq, [1, 1]], 1)).all()
            expected = np.where(seq[:, None] == 0, 1, np.arange(5) == seq[:, None])
            assert (shown["action_mask"] == expected).all()

        games.reg_callback("actor", act)
        for _ in range(20):
            run(games)
    with pytest.raises(ValueError, match=r"unknown key 's'.*image"):
        played(sample_environments.Dicts, {"actor": ({"s": "", "_batchsize": 1}, {"a": ""})})


def test_several_numbered_actions_at_once() -> None:
    made = []

    def make() -> Any:
        made.append(sample_environments.Many())
        return made[-1]

    asked = {"seq": "", "action_mask": "", "_batchsize": 3}
    with played(make, {"actor": (asked, {"a": "2", "pi": ""})}, 3) as games:

        def act(batch: Any, _gpu: Any, reply: Any) -> None:
            assert reply[0]["a"].shape == (3, 2)
            assert reply[0]["pi"].shape == (3, 7)
            assert batch[0]["action_mask"].shape == (3, 7)
            reply[0]["a"][:] = np.stack([batch[0]["seq"] % 3, batch[0]["seq"] % 4], 1)

        games.reg_callback("actor", act)
        for _ in range(12):
            run(games)
    assert len(made) == 3
    assert [action.tolist() for action in made[0].taken[:5]] == [
        [0, 0],
        [1, 1],
        [2, 2],
        [0, 3],
        [0, 0],
    ]
    assert all(env.closed for env in made)


@pytest.mark.parametrize(
    ("name", "processes"),
    [*((name, 0) for name in sample_environments.MASKS), ("floats", 1), ("nested", 1), ("bits", 1)],
)
def test_masks_of_every_form_are_flat_in_batches(name: str, processes: int) -> None:
    space, _, expected = sample_environments.MASKS[name]
    silent = [2] * 4 if name == "bits" else [1] * len(expected)
    asked = {"seq": "", "action_mask": "", "_batchsize": 2}
    env = "tests.collector.sample_environments:Masked"
    make = {"name": name}
    space.seed(0)
    with played(env, {"actor": (asked, {"a": ""})}, 2, processes=processes, make=make) as games:
        seen = []

        def act(batch: Any, _gpu: Any, reply: Any) -> None:
            assert batch[0]["action_mask"].dtype == np.int8
            for seq, mask in zip(batch[0]["seq"], batch[0]["action_mask"], strict=True):
                assert mask.tolist() == (expected if seq else silent)
            seen.append(batch[0]["seq"].max())
            reply[0]["a"][:] = [space.sample() for _ in range(2)]

        # Counting expects an action of its space, for any mask.
        games.reg_callback("actor", act)
        for _ in range(10):
            run(games)
    assert max(seen) == 4


@pytest.mark.parametrize(
    ("space", "mask", "said"),
    [
        (
            spaces.Discrete(3, start=1),
            [1, 0],
            r"expected 3 entries for Discrete\(3, start=1\), got 2",
        ),
        (spaces.Discrete(2), [1.0, np.nan], "action_mask: expected finite entries, got nan"),
        (spaces.MultiDiscrete([2, 3]), ([1, 1], [1]), r"action_mask\[1\]: expected 3 entries"),
        (spaces.MultiBinary(2), [1, 5], "expected entries 0, 1 or 2 for .*, got 5"),
    ],
)
def test_wrong_mask_is_the_games_failure(space: Any, mask: Any, said: str) -> None:
    class Wrong(sample_environments.Counting):
        action_space = space

        def reset(self, **options: Any) -> Any:
            return super().reset(**options)[0], {"action_mask": mask}

    asked = {"action_mask": "", "_batchsize": 1}
    with played(Wrong, {"actor": (asked, {"a": ""})}, 1) as games:
        games.reg_callback("actor", lambda *_: None)
        with pytest.raises(cogrs.collector.GameError, match=said):
            run(games)


BOX = spaces.Box(-1, 1, (1,))


@pytest.mark.parametrize(
    ("space", "first", "second", "key"),
    [
        (spaces.Dict({"a": spaces.Dict({"b": BOX}), "a.b": BOX}), "['a']['b']", "['a.b']", "a.b"),
        (spaces.Dict({"x": spaces.Tuple([BOX]), "x.0": BOX}), "['x'][0]", "['x.0']", "x.0"),
        (spaces.Dict([(1, BOX), ("1", BOX)]), "[1]", "['1']", "1"),
        (spaces.Dict({"": BOX, "s": BOX}), "['']", "['s']", "s"),
        (
            spaces.Dict({"x": spaces.Dict({"0": BOX, "y": BOX}), "x.0": BOX}),
            "['x']['0']",
            "['x.0']",
            "x.0",
        ),
    ],
)
def test_parts_with_the_same_key_are_refused_with_both_names(
    space: Any, first: str, second: str, key: str
) -> None:
    class Colliding(sample_environments.Counting):
        observation_space = space

    co = ContextOptions()
    with pytest.raises(ValueError, match="different keys") as failed:
        cogrs.GCWrapper(GameContext(co, Colliding), co, {"actor": ({"_batchsize": 1}, {"a": ""})})
    assert f"got {first} and {second}, which are both {key!r} in a batch" in str(failed.value)


def states(threads: int, seed: int) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {game: [] for game in range(8)}
    asked = {"id": "", "s": "", "_batchsize": 3}
    env = sample_environments.Counting
    with played(env, {"actor": (asked, {"a": ""})}, 8, num_threads=threads, seed=seed) as games:

        def act(batch: Any, _gpu: Any, _reply: Any) -> None:
            for game, shown in zip(batch[0]["id"].tolist(), batch[0]["s"].tolist(), strict=True):
                found[game].append(shown)

        games.reg_callback("actor", act)
        while min(map(len, found.values())) < 23:
            run(games)
    return {game: shown[:23] for game, shown in found.items()}


def test_seed_determines_each_game_for_any_number_of_threads() -> None:
    one = states(1, 5)
    assert one == states(8, 5)
    assert one != states(1, 6)
    seeds = [tuple(row[0] for row in shown[::5]) for shown in one.values()]
    assert len({seed for row in seeds for seed in row}) == 8 * 5


def test_each_environment_is_made_once() -> None:
    made = []

    def make() -> Any:
        made.append(sample_environments.Counting())
        return made[-1]

    context = GameContext(make)
    assert len(made) == 1
    co = ContextOptions(num_games=6, num_threads=2)
    with cogrs.GCWrapper(context, co, described(6, 6, 2)) as games:
        games.Start()
        collected(games, count_up, "optimizer", 30)
    assert len(made) == 6
    assert all(env.closed for env in made)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((), TypeError, "env: expected one"),
        (("CartPole-v1", "Pendulum-v1"), TypeError, "env: expected one"),
        ((sample_environments.Counting(),), TypeError, "each game needs its own"),
        ((5,), TypeError, "env: expected an id.*int"),
        ((lambda: 5,), TypeError, "env: expected an environment.*int"),
        (("NoSuchGame-v7",), gymnasium.error.Error, "NoSuchGame"),
        (("no_such_module:make",), ModuleNotFoundError, "no_such_module"),
        (("CartPole-v1", GameOptions(processes=-1)), ValueError, "processes"),
        (("CartPole-v1", GameOptions(stop_timeout=-1)), ValueError, "stop_timeout"),
    ],
)
def test_wrong_environment_or_option_is_refused(arguments: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        GameContext(*arguments)


def test_spaces_of_other_values_than_arrays_are_refused() -> None:
    class Talking(sample_environments.Counting):
        observation_space = gymnasium.spaces.Sequence(gymnasium.spaces.Discrete(2))  # type: ignore[assignment]

    class Clashing(sample_environments.Counting):
        observation_space = gymnasium.spaces.Dict(r=gymnasium.spaces.Discrete(2))  # type: ignore[assignment]

    class Acting(sample_environments.Counting):
        action_space = gymnasium.spaces.Text(5)  # type: ignore[assignment]

    with pytest.raises(TypeError, match=r"observation_space: expected Box.*; a wrapper can"):
        GameContext(Talking)
    with pytest.raises(ValueError, match="'r' has another meaning"):
        GameContext(Clashing)
    with pytest.raises(TypeError, match="action_space: expected Discrete"):
        GameContext(Acting)


def test_game_context_by_name_takes_environments_and_names_unknown_games() -> None:
    context = cogrs.GameContext("gymnasium", "CartPole-v1", max_episode_steps=3)
    assert context.GetParams()["state_shape"] == (4,)
    context.Stop()
