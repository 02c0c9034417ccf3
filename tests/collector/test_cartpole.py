"""The cart and its pole against Gymnasium's."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from tests.collector.build import actor, balance, rows, run, running, wrapper

# The first state is known in float32 only, and small differences grow.
FOLLOWED = 20


def test_run_follows_gymnasium_from_each_first_state() -> None:
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


def test_params_of_a_discrete_game_describe_state_and_action() -> None:
    games = wrapper({"actor": actor(4)})
    assert games.params == {
        "num_action": 2,
        "action_shape": (),
        "action_dtype": "int64",
        "state_shape": (4,),
        "state_dtype": "float32",
        "players": ["player"],
    }
    assert len(games.GC) == 4
