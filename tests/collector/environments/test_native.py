"""Environments that are native code of other packages, as games."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gymnasium")
from tests.collector import sample_environments
from tests.collector.build import run
from tests.collector.python_games import played

GAMES = 3


@pytest.mark.parametrize("processes", [0, 2])
@pytest.mark.parametrize(
    ("name", "package", "states"),
    [("ale_py:ALE/Pong-v5", "ale_py", 30), ("InvertedPendulum-v5", "mujoco", 120)],
)
def test_every_history_equals_the_environment_s_own_run(
    name: str, package: str, states: int, processes: int
) -> None:
    pytest.importorskip(package)
    alone = sample_environments.seeded(name)
    space = alone.action_space
    space.seed(1)
    histories: dict[int, list[dict[str, Any]]] = {game: [] for game in range(GAMES)}
    keys = ("id", "seq", "shown", "seed", "last_r", "last_terminal", "last_truncated")
    description = {"actor": ({**dict.fromkeys(keys, ""), "_batchsize": GAMES}, {"a": ""})}

    def act(batch: Any, _gpu: Any, reply: Any) -> None:
        for row, game in enumerate(batch[0]["id"].tolist()):
            action = space.sample()
            reply[0]["a"][row] = action
            state = {key: batch[0][key][row].copy() for key in keys}
            histories[game].append({**state, "a": action})

    more = {"processes": processes, "make": {"name": name}}
    with played(sample_environments.seeded, description, GAMES, **more) as games:
        games.reg_callback("actor", act)
        for _ in range(states):
            run(games)
    for history in histories.values():
        assert len(history) == states
        assert history[0]["seq"] == 0
        for before, after in pairwise([{"a": None}, *history]):
            if after["seq"] == 0:
                seen, _ = alone.reset(seed=int(after["seed"]))
            else:
                seen, reward, _, _, _ = alone.step(before["a"])
                assert after["last_r"] == np.float32(reward)
            np.testing.assert_array_equal(after["shown"], seen["shown"])
    alone.close()
