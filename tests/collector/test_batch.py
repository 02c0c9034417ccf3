"""Batches of callbacks, and the ways to write replies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.collector.build import actor, balance, run, running

BOTH = {"actor": actor(2), "optimizer": ({"id": "", "s": "", "_batchsize": 3}, None)}


def test_replies_are_zero_before_each_callback() -> None:
    seen = []
    with running({"actor": ({"_batchsize": 4, "a": ""}, {"a": "", "pi": "3"})}) as games:

        def act(batch: Any, _gpu: Any, reply: Any) -> None:
            assert not reply[0]["a"].any()
            assert not reply[0]["pi"].any()
            seen.append(batch[0]["a"].tolist())
            reply[0]["pi"] = np.full((4, 3), 0.5)
            reply[0]["a"] = 1

        games.reg_callback("actor", act)
        for _ in range(6):
            run(games)
    assert seen == [[0] * 4] * 6, "what others answer now is not there yet"


def test_setting_a_key_writes_into_its_array_and_misfits_raise() -> None:
    with running({"actor": actor(4)}) as games:
        replies = []

        def act(_batch: Any, _gpu: Any, reply: Any) -> None:
            array = reply[0]["a"]
            reply[0]["a"] = [1, 0, 1, 0]
            assert array.tolist() == [1, 0, 1, 0]
            with pytest.raises(ValueError, match="broadcast"):
                reply[0]["a"] = [1, 0]
            with pytest.raises(ValueError, match="broadcast"):
                reply[0]["a"][:] = [1, 0]
            with pytest.raises(ValueError, match=r"a: expected whole numbers for int64, got 0\.5"):
                reply[0]["a"] = 0.5
            with pytest.raises(TypeError, match="a: expected values without a mask"):
                reply[0]["a"] = np.ma.masked_equal([0, 1, 0, 1], 1)
            reply[0]["a"] = np.ones(4, np.float32)
            with pytest.raises(KeyError):
                reply[0]["V"] = 1
            replies.append(array)

        games.reg_callback("actor", act)
        run(games)
    assert len(replies) == 1


@pytest.mark.parametrize(
    "write",
    [
        "reply[0].update(a=1)",
        "reply[0].update({'a': 1})",
        "reply[0].update([('a', 1)])",
        "reply[0] |= {'a': 1}",
        "reply[-1] |= [('a', [1, 1, 1, 1])]",
        "reply[0].setdefault('a', 1)",
        "reply[0].setdefault('a').fill(1)",
        "reply[0]['a'] += 1",
    ],
)
def test_every_way_to_write_a_reply_reaches_listeners(write: str) -> None:
    listener = ({"a": "", "_batchsize": 4}, None)
    seen = []
    with running({"actor": actor(4), "optimizer": listener}) as games:
        games.reg_callback("actor", lambda _batch, _gpu, reply: exec(write, {"reply": reply}))
        games.reg_callback("optimizer", lambda batch, *_: seen.append(batch[0]["a"].tolist()))
        while not seen:
            run(games)
    assert seen[0] == [1] * 4


@pytest.mark.parametrize(
    "change",
    [
        lambda reply: reply[0].pop("a"),
        lambda reply: reply[0].popitem(),
        lambda reply: reply[0].clear(),
        lambda reply: reply[0].__delitem__("a"),
        lambda reply: reply.__setitem__(0, {"a": 1}),
        lambda reply: reply.__delitem__(0),
        lambda reply: reply.__iadd__([{"a": 1}]),
        lambda reply: reply.append({"a": 1}),
        lambda reply: reply.insert(0, {"a": 1}),
        lambda reply: reply.extend([{"a": 1}]),
        lambda reply: reply.pop(),
        lambda reply: reply.clear(),
    ],
)
def test_replacing_or_removing_reply_arrays_is_refused(change: Any) -> None:
    with running({"actor": actor(4)}) as games:

        def act(_batch: Any, _gpu: Any, reply: Any) -> str:
            with pytest.raises(TypeError, match="in place"):
                change(reply)
            assert (len(reply), list(reply[0])) == (1, ["a"])
            kept = reply.copy()
            change(kept)
            return "refused"

        games.reg_callback("actor", act)
        assert run(games) == "refused"


def test_changes_of_an_array_s_shape_do_not_stay() -> None:
    with running({"actor": actor(4)}) as games:

        def act(batch: Any, _gpu: Any, reply: Any) -> None:
            assert (batch[0]["s"].shape, reply[0]["a"].dtype) == ((4, 4), np.int64)
            assert batch[0]["id"].flags.writeable
            batch[0]["s"].shape = (16,)
            batch[0]["id"].flags.writeable = False
            reply[0]["a"].shape = (2, 2)

        games.reg_callback("actor", act)
        for _ in range(6):
            run(games)
        games.inputs[0][0][0]["s"].shape = (16,)
        assert games.inputs[0][0][0]["s"].shape == (4, 4)


def test_batch_is_the_caller_s_after_copy() -> None:
    kept = []
    with running({"actor": actor(4)}) as games:

        def act(batch: Any, _gpu: Any, reply: Any) -> None:
            kept.append((batch.copy(), batch[0]["s"].tolist()))
            balance(batch, None, reply)

        games.reg_callback("actor", act)
        for _ in range(10):
            run(games)
    for batch, values in kept:
        assert batch[0]["s"].tolist() == values
        assert batch[0]["s"].base is None


def test_arrays_of_a_batch_outlive_the_games() -> None:
    with running({"actor": actor(4)}) as games:
        held = []
        games.reg_callback("actor", lambda batch, *_: held.append(batch[0]["s"]))
        run(games)
    del games
    assert held[0].shape == (4, 4)
    held[0][:] = 3
    assert (held[0] == 3).all()
