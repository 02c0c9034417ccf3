"""Rewards and flags of environments as games: of one element, or refused by field."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("gymnasium")
from cogrs.collector import GameError
from tests.collector import sample_environments
from tests.collector.build import LIMIT, forever
from tests.collector.python_games import collected, described, played

WHERE = "tests.collector.sample_environments:Returning"


@pytest.mark.parametrize("processes", [0, 1])
@pytest.mark.parametrize("shape", ["()", "() 1", "() 1 1"])
def test_one_element_arrays_are_read_as_scalars(shape: str, processes: int) -> None:
    make = {"shape": shape}
    with played(WHERE, described(4, 4, 3), processes=processes, make=make) as games:
        histories = collected(games, lambda *_: None, "optimizer", 40)
    ends = 0
    for history in histories:
        steps = history["s"][:, 1]
        assert (history["last_r"] == steps).all()
        assert (history["terminal"][:-1] == (steps[:-1] == 3)).all()
        assert not history["truncated"].any()
        ends += int(history["terminal"].sum())
    assert ends > 5


@pytest.mark.parametrize("processes", [0, 1])
@pytest.mark.parametrize("field", ["reward", "terminated", "truncated"])
@pytest.mark.parametrize("value", sample_environments.VALUES)
def test_reward_or_flag_of_several_values_names_game_and_field(
    value: str, field: str, processes: int
) -> None:
    if processes and value not in ("zeros", "none"):
        pytest.skip("one of each kind is enough for a process")
    make = {"field": field, "value": value}
    with played(WHERE, described(2, 2, 1), 2, processes=processes, make=make) as games:
        games.reg_callback("actor", lambda *_: None)
        games.reg_callback("optimizer", lambda *_: None)
        with pytest.raises(
            GameError, match=rf"game [01]: \w+: {field}: expected (one|values)"
        ) as info:
            forever(lambda: games.Run(LIMIT))
    assert info.value.game in (0, 1)


def test_tensors_and_infinite_rewards_are_passed_on() -> None:
    torch = pytest.importorskip("torch")

    class Tensors(sample_environments.Counting):
        def step(self, action: Any) -> Any:
            shown, _, terminated, truncated, info = super().step(action)
            reward = torch.tensor([float("nan")], requires_grad=True)
            return shown, reward, torch.tensor(terminated), np.bool_(truncated), info

    with played(Tensors, described(2, 2, 2), 2) as games:
        histories = collected(games, lambda *_: None, "optimizer", 20)
    assert all(np.isnan(history["r"][0]) == (history["s"][0, 1] < 4) for history in histories)
