"""Infos of environments in trials as keys of the batches of replay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("gymnasium")

from cogrs import sdk
from cogrs.workers import STEP_INFO, ActorWorker, Decision
from tests.orchestrator.net import on_loop
from tests.replay import network
from tests.sdk.episodes import Telling
from tests.sdk.net import world

RECORD = np.dtype([("observation", np.int64), ("is_success", np.bool_)])


@on_loop
async def test_infos_of_trials_are_keys_of_sampled_batches() -> None:
    seen: list[Any] = []

    def decide(states: Any) -> Decision:
        seen.extend(states["is_success"].tolist())
        count = len(states)
        actions = np.zeros(count, np.int64)
        return Decision(actions, np.ones(count, np.float32), np.zeros(count, np.float32))

    templates = {"s": np.zeros((), RECORD), "i": np.zeros((), STEP_INFO), "a": np.int64(0)}
    make = sdk.GymnasiumEnvironment.factory(Telling, info_keys={"is_success": np.bool_})
    with (
        network.started(2, **templates) as server,
        network.connected(server, 100, timeout=10) as client,
        ActorWorker(client, decide) as worker,
    ):
        async with world(make, {"agent": worker.agent}) as net:
            trial_id = await net.play()
            assert net.reason(trial_id) == "environment: final update"
        episode = worker.memory.episode(0)
    assert seen == [False, False, False]
    assert episode.has_final_state
    assert episode.entries.s["is_success"].tolist() == [False, False, False, True]
    assert episode.entries.s["observation"].tolist() == [0, 1, 2, 3]
