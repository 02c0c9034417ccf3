"""Trials of very many actors, and many trials: no call keeps the others waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cogrs.orchestrator.engine.errors import InvalidError
from cogrs.orchestrator.engine.params import MOST_ACTORS, actors_in_trial
from cogrs.orchestrator.engine.state import State
from tests.orchestrator.world import World, action

if TYPE_CHECKING:
    from cogrs.api.common_pb2 import TrialActor, TrialParams


def test_trial_of_many_clients_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def counted(params: TrialParams) -> list[TrialActor]:
        made.append(len(params.actors))
        return actors_in_trial(params)

    monkeypatch.setattr("cogrs.orchestrator.engine.trial.actors_in_trial", counted)
    world = World(agents=0, clients=MOST_ACTORS)
    clients = [world.client(f"c{index}") for index in range(MOST_ACTORS)]
    world.run()
    for client in clients:
        assert len(client.read()) == 1
        client.act()
    world.step(1, final_update=True)
    for client in clients:
        assert client.read()[-1].final_data
    assert world.trial.state is State.ENDED
    # One list for each of them would keep all trials waiting for half a minute.
    assert made == [MOST_ACTORS]


def test_trial_of_too_many_actors_is_refused() -> None:
    with pytest.raises(InvalidError, match=f"actors: expected at most {MOST_ACTORS}, got"):
        World(agents=0, clients=MOST_ACTORS + 1)


def test_actors_map_that_is_far_too_long_ends_its_trial_alone() -> None:
    world = World(agents=2).run()
    other, first = world.start(), world.trial
    world.run()
    world.act()
    made = world.observations(1, actors_map=[0] * 1_000_000)
    world.step(1, observation_set=made)
    assert "actors_map: expected 2 entries, got 1000000" in world.trial.end_reason
    assert first is other
    world.drain()
    assert world.trial.state is State.ENDED


@pytest.mark.parametrize("tick", [-(2**31), -2, 2**31 - 1])
def test_extreme_tick_ids_of_the_environment_are_corrected(tick: int) -> None:
    world = World(agents=1).run()
    made = world.observations(1, tick_id=tick % 2**64, timestamp=2**64 - 1)
    rewards = [{"receiver_name": "a0", "tick_id": tick, "sources": [{"value": 1, "confidence": 1}]}]
    messages = [{"receiver_name": "a0", "tick_id": tick}]
    world.agent("a0").events.acted(action())
    world.step(1, observation_set=made, rewards=rewards, messages=messages)
    world.agent("a0").events.acted(action())
    world.step(2, final_update=True)
    period = world.agent("a0").of("deliver")[1]
    assert [each.tick_id for each in period.observations] == [1]
    (final,) = world.agent("a0").of("end")
    told = [(each.tick_id, each.value) for each in final.rewards]
    assert told == ([(2**31 - 1, 1.0)] if tick > 0 else [])
    world.drain()
    assert world.trial.state is State.ENDED
