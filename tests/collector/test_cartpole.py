"""The cart and its pole against Gymnasium's."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

import cogrs
from cogrs import _core
from cogrs.collector.games.cartpole import ContextOptions, GameContext, GameOptions
from tests.collector.build import actor, balance, rows, run, running, wrapper

# The first state is known in float32 only, and small differences grow.
FOLLOWED = 20
LOW = np.array([-3.0, -3.0, -0.3, -3.0])


def test_single_steps_equal_gymnasium() -> None:
    theirs: Any = gymnasium.make("CartPole-v1").unwrapped
    rng = np.random.default_rng(0)
    ended = 0
    for state in rng.uniform(LOW, -LOW, (1_000, 4)):
        action = int(rng.integers(2))
        theirs.reset()
        theirs.state = state
        _, reward, terminated, _, _ = theirs.step(action)
        ours, over = _core.cartpole_step(list(state), action)
        np.testing.assert_allclose(ours, theirs.state, rtol=0, atol=1e-9)
        assert over == terminated
        assert reward == 1
        ended += over
    assert 300 < ended < 900


@pytest.mark.parametrize("action", [-1, 2])
def test_actions_that_are_none_are_refused(action: int) -> None:
    with pytest.raises(ValueError, match=r"action: expected 0 \(left\) or 1"):
        _core.cartpole_step([0, 0, 0, 0], action)


def test_a_run_follows_gymnasium_from_each_first_state() -> None:
    """Two games against environments that take the same actions."""
    envs: list[Any] = [gymnasium.make("CartPole-v1").unwrapped for _ in range(2)]
    lengths = [0, 0]
    checked = 0

    def act(batch: Any, _gpu: Any, reply: Any) -> None:
        nonlocal checked
        balance(batch, None, reply)
        for row, game in enumerate(batch[0]["id"]):
            state, seq = batch[0]["s"][row], int(batch[0]["seq"][row])
            if seq == 0:
                envs[game].reset()
                envs[game].state = state.astype(np.float64)
                assert (abs(state) <= 0.05).all()
                assert batch[0]["last_r"][row] == 0
                if lengths[game]:
                    ended = batch[0]["last_terminal"][row], batch[0]["last_truncated"][row]
                    assert ended == ((0, 1) if lengths[game] == 500 else (1, 0))
            else:
                assert batch[0]["last_r"][row] == 1
                if seq <= FOLLOWED:
                    np.testing.assert_allclose(state, envs[game].state, atol=1e-4)
                    checked += 1
            lengths[game] = seq
            if seq < FOLLOWED:
                envs[game].step(int(reply[0]["a"][row]))

    with running({"actor": actor(2)}, 2) as games:
        games.reg_callback("actor", act)
        for _ in range(1_500):
            run(games)
    assert checked > 50


def test_the_step_limit_truncates_exactly_there() -> None:
    co = ContextOptions(num_games=3, seed=0)
    context = GameContext(co, GameOptions(max_episode_steps=7))
    with cogrs.GCWrapper(context, co, {"actor": actor(3)}) as games:
        ends = []

        def act(batch: Any, _gpu: Any, reply: Any) -> None:
            balance(batch, None, reply)
            first = batch[0]["seq"] == 0
            ends.extend(batch[0]["last_truncated"][first].tolist())
            assert (batch[0]["seq"] <= 7).all()

        games.reg_callback("actor", act)
        games.Start()
        for _ in range(8 * 50):
            run(games)
    assert ends == [0] * 3 + [1] * 3 * 49


def test_a_wrong_action_ends_the_run_and_names_the_game() -> None:
    with running({"actor": actor(3)}, 3) as games:

        def act(batch: Any, _gpu: Any, reply: Any) -> None:
            reply[0]["a"][batch[0]["id"] == 1] = 42

        games.reg_callback("actor", act)
        run(games)
        for _ in range(2):
            with pytest.raises(RuntimeError, match=r"game 1: a: expected 0 \(left\).*got 42"):
                games.Run(20)


def test_same_seed_same_trajectories_whatever_the_threads() -> None:
    def trajectories(seed: int, threads: int) -> dict[int, list[Any]]:
        seen: dict[int, list[Any]] = {game: [] for game in range(6)}

        def act(batch: Any, _gpu: Any, reply: Any) -> None:
            balance(batch, None, reply)
            for game, state in zip(batch[0]["id"], batch[0]["s"], strict=True):
                seen[int(game)].append(state.tolist())

        with running({"actor": actor(2)}, 6, seed=seed, num_threads=threads) as games:
            games.reg_callback("actor", act)
            while min(map(len, seen.values())) < 80:
                run(games)
        return {game: states[:80] for game, states in seen.items()}

    one = trajectories(5, 1)
    assert one == trajectories(5, 4)
    assert one != trajectories(6, 1)
    assert len({str(states[0]) for states in one.values()}) == 6


def test_deterministic_runs_repeat_batch_for_batch() -> None:
    def batches(threads: int) -> list[Any]:
        seen: list[Any] = []
        listener = {"id": "", "s": "", "r": "", "_batchsize": 8, "_T": 3}
        both = {"actor": actor(8), "optimizer": (listener, None)}
        with running(both, 8, deterministic=True, num_threads=threads) as games:

            def act(batch: Any, _gpu: Any, reply: Any) -> None:
                balance(batch, None, reply)
                seen.append(("actor", batch[0]["s"].tolist()))
                assert batch[0]["id"].tolist() == list(range(8))

            def learn(batch: Any, _gpu: Any, _reply: Any) -> None:
                seen.append(("optimizer", rows(batch)["s"].tolist()))

            games.reg_callback("actor", act)
            games.reg_callback("optimizer", learn)
            for _ in range(150):
                run(games)
        return seen

    assert batches(1) == batches(3)


def test_params_say_what_a_model_has_to_know() -> None:
    games = wrapper({"actor": actor(4)})
    assert games.params == {
        "num_action": 2,
        "state_shape": (4,),
        "state_dtype": "float32",
        "players": ["player"],
    }
    assert len(games.GC) == 4
