"""Listeners that hold their games, and batches that wait for them."""

from __future__ import annotations

import pytest

from tests.collector.build import LIMIT, actor, balance, run, running, wrapper


def test_listener_that_blocks_holds_its_games() -> None:
    listener = ({"seq": "", "_batchsize": 2, "_block": "1"}, None)
    descriptions = {"actor": actor(2), "optimizer": listener}
    with running(descriptions, 2) as games:
        games.reg_callback("actor", balance)
        games.reg_callback("optimizer", lambda *_: None)
        order = []
        for _ in range(12):
            run(games)
            order.append(games.infos.name)
        assert order == ["actor", "optimizer"] * 6
        held = games.GC.WaitGroup("actor")
        games.GC.Steps(held)
        held = games.GC.WaitGroup("optimizer")
        assert games.RunGroup("actor", 0.05) is None
        assert games.infos.gid == -1
        games.GC.Steps(held)
        games.RunGroup("actor", LIMIT)
        assert games.infos.gid == 0


@pytest.mark.parametrize("batchsize", [1, 2, 3, 5])
def test_listeners_that_block_never_stop_a_run(batchsize: int) -> None:
    listener = ({"seq": "", "_batchsize": batchsize, "_T": 3, "_block": 1}, None)
    with running({"actor": actor(2), "optimizer": listener}, 4) as games:
        games.reg_callback("actor", balance)
        counts = {"actor": 0, "optimizer": 0}
        games.reg_callback("optimizer", lambda *_: None)
        while min(counts.values()) < 20:
            run(games)
            counts[games.infos.name] += 1


def test_block_other_than_0_and_1_is_named() -> None:
    for value in ("2", "yes", -1):
        with pytest.raises(ValueError, match="'optimizer': _block"):
            wrapper({"optimizer": ({"seq": "", "_batchsize": 1, "_block": value}, None)})
