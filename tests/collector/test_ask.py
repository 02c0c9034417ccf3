"""`RequestBatcher.ask`: rows, answers, and what is refused."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from cogrs.collector import RequestBatcher
from tests.collector.batchers import INPUTS, REPLIES, batcher, policy, question, served
from tests.collector.build import LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    ("inputs", "error", "words"),
    [
        ({"s": np.zeros(3)}, ValueError, "inputs: expected .*s.*id.*got"),
        ({**question(1), "x": 1}, ValueError, "inputs: expected"),
        ({"s": np.zeros(4), "id": 1}, ValueError, r"s: expected float32 \(3,\).*\(4,\)"),
        ({"s": np.zeros((1, 3)), "id": 1}, ValueError, r"s: expected float32 \(3,\).*\(1, 3\)"),
        ({"s": ["a", "b", "c"], "id": 1}, TypeError, "s: cannot convert"),
        ({"s": np.zeros(3), "id": 1.5}, ValueError, "id: 1.5 does not fit int64"),
        ({"s": np.zeros(3), "id": 2**80}, (ValueError, TypeError), "id"),
        ({"s": np.zeros(3), "id": np.float32(1)}, TypeError, "id: cannot convert float32"),
        ({"s": np.zeros(3), "id": float("nan")}, ValueError, "id: nan does not fit"),
        ({"s": [1e300, 0, 0], "id": 1}, ValueError, "s: expected values that fit float32"),
        ({"s": np.ma.masked_equal([1, 2, 3], 2), "id": 1}, TypeError, "s: .*without a mask"),
        (
            {"s": np.ma.masked_equal(np.array([1, 2, 3], np.float32), 2), "id": 1},
            TypeError,
            "s: .*without a mask",
        ),
        ({"s": [[1], [2, 3]], "id": 1}, ValueError, "s: expected float32"),
        ({1: 2}, ValueError, "inputs: expected"),
        ("s", TypeError, "inputs: expected a mapping, got str"),
        (None, TypeError, "inputs: expected a mapping, got NoneType"),
    ],
)
def test_wrong_rows_are_refused_by_name(inputs: Any, error: Any, words: str) -> None:
    with batcher(1) as asked:
        with pytest.raises(error, match=words):
            asked.ask(inputs, timeout=0)
        assert asked.run(policy, timeout=0) == 0, "nothing was put"


def test_values_are_converted_and_left_alone() -> None:
    asked = batcher(1)
    seen = []

    def note(inputs: Any, _replies: Any) -> None:
        seen.append((inputs["s"][0].tolist(), inputs["id"][0]))

    given = np.arange(6.0)[::2]
    given.flags.writeable = False

    class Own(np.ndarray):
        """Of the dtype and shape of the rows, and of a class of its own."""

    row = np.array([0, 2, 4], np.float32)
    others = [given, [0, 2, 4], (0.0, 2.0, 4.0), row.astype(np.int16), row.view(Own)]
    with served(asked, note):
        for s in (*others, np.ma.masked_equal(row, 3)):
            asked.ask({"s": s, "id": np.int32(7)}, LIMIT)
        asked.ask({"s": given, "id": True}, LIMIT)
    assert seen == [([0, 2, 4], 7)] * 6 + [([0, 2, 4], 1)]


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        ([2**40], "int32"),
        ([2**70], "int64"),
        (np.array([2**40]), "int32"),
        ([-1], "uint8"),
        ([256], "uint8"),
        (np.array([2**63], np.uint64), "uint32"),
        ([1e39], "float32"),
        ([b"long"], "S2"),
    ],
)
def test_values_that_a_dtype_does_not_hold_are_refused(value: Any, dtype: str) -> None:
    with RequestBatcher({"x": (dtype, (1,))}, {}, 1) as asked:
        with pytest.raises(ValueError, match=r"x: expected .*fit"):
            asked.ask({"x": value}, timeout=0)
        assert asked.run(policy, timeout=0) == 0, "nothing was put"


def test_values_that_a_dtype_holds_are_taken() -> None:
    asked = RequestBatcher({"x": ("uint8", (2,)), "y": ("float32", ())}, {}, 1)
    seen = []
    with served(asked, lambda inputs, _: seen.append((inputs["x"].tolist(), *inputs["y"]))):
        asked.ask({"x": [1, 255], "y": float("inf")}, LIMIT)
        asked.ask({"x": [True, False], "y": np.float64(0.5)}, LIMIT)
    assert seen == [([[1, 255]], np.inf), ([[1, 0]], 0.5)]


@pytest.mark.parametrize("timeout", [-1, float("nan"), "1", [1]])
def test_wrong_timeout_is_named_and_nothing_is_put(timeout: Any) -> None:
    with batcher(1) as asked:
        with pytest.raises((TypeError, ValueError), match="timeout: expected"):
            asked.ask(question(1), timeout)
        assert asked.run(policy, timeout=0) == 0, "nothing was put"


def test_reply_keeps_no_batch_alive() -> None:
    asked = batcher(2)
    answers = []
    asker = threading.Thread(target=lambda: answers.append(asked.ask(question(1), LIMIT)))
    asker.start()

    async def main() -> None:
        task = asyncio.create_task(asked.ask_async(question(2)))
        await asyncio.sleep(0)
        await asyncio.get_running_loop().run_in_executor(None, asked.run, policy, LIMIT)
        answers.append(await task)

    asyncio.run(main())
    asker.join(LIMIT)
    arrays = [array for answer in answers for array in answer.values()]
    assert [array.base for array in arrays] == [None] * 4


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"batch_size": 0}, ValueError),
        ({"batch_size": 1.5}, TypeError),
        ({"num_buffers": 0}, ValueError),
        ({"timeout": -1}, ValueError),
        ({"timeout": 0}, ValueError),
        ({"timeout": True}, TypeError),
        ({"inputs": {"s": (object, ())}}, TypeError),
        ({"inputs": {"s": ("float32", (2**40, 2**40))}}, ValueError),
        ({"inputs": {"s": ("float32", (2**40,))}, "batch_size": 2**30}, MemoryError),
        ({"inputs": {"s": ("float32", (-1,))}}, ValueError),
        ({"inputs": {"s": ("float32", (2**70,))}}, ValueError),
        ({"inputs": {"s": ("float32", (1,) * 80)}}, ValueError),
        ({"inputs": {"s": ("float32", 1.5)}}, TypeError),
        ({"inputs": {"s": ("U", ())}}, TypeError),
        ({"inputs": {"s": (np.dtype(("f4", (3,))), ())}}, TypeError),
        ({"inputs": {"s": "float32"}}, TypeError),
        ({"inputs": {1: ("float32", ())}}, TypeError),
        ({"inputs": None}, TypeError),
        ({"replies": ["a"]}, TypeError),
        ({"batch_size": 2**70}, ValueError),
        ({"num_buffers": 2**70}, ValueError),
    ],
)
def test_wrong_argument_of_request_batcher_is_refused(change: dict[str, Any], error: Any) -> None:
    options = {"inputs": INPUTS, "replies": REPLIES, "batch_size": 2, **change}
    name = next(iter(change))
    if isinstance(change[name], dict) and isinstance(next(iter(change[name])), str):
        name = "s"
    with pytest.raises(error, match=rf"{name}|bytes"):
        RequestBatcher(**options)


@pytest.mark.parametrize("timeout", [-1, float("nan")])
def test_negative_or_nan_timeout_is_refused(timeout: float) -> None:
    with batcher(1) as asked:
        with pytest.raises(ValueError, match="timeout"):
            asked.run(policy, timeout)
        with pytest.raises(ValueError, match="timeout"):
            asked.ask(question(1), timeout)


@pytest.mark.parametrize(
    "write",
    [
        lambda replies: replies.update(a=7),
        lambda replies: replies.update({"a": [7]}),
        lambda replies: replies.update([("a", 7)]),
        lambda replies: replies.__ior__({"a": 7}),
        lambda replies: replies.setdefault("a", 7),
    ],
)
def test_every_way_to_write_a_reply_writes_into_its_array(write: Callable[[Any], Any]) -> None:
    asked = batcher(1)
    with served(asked, lambda _, replies: write(replies)):
        assert asked.ask(question(1), LIMIT)["a"] == 7


def test_changes_of_an_array_s_shape_do_not_stay() -> None:
    asked = batcher(1)

    def reshape(inputs: Any, replies: Any) -> None:
        assert inputs["s"].shape == (1, 3)
        inputs["s"].shape = (3, 1)
        assert replies["pi"].shape == (1, 2)
        replies["pi"].shape = (2,)

    with served(asked, reshape):
        for number in range(6):
            asked.ask(question(number), LIMIT)


def test_setting_a_key_of_the_replies_writes_into_its_array() -> None:
    asked = batcher(1)

    def assign(_inputs: Any, replies: Any) -> None:
        replies["a"] = 7
        with pytest.raises(KeyError):
            replies["V"] = 1

    with served(asked, assign):
        assert asked.ask(question(1), LIMIT)["a"] == 7


def test_batcher_made_outside_a_loop_serves_one_loop_after_another() -> None:
    asked = batcher(1)
    answers: list[int] = []

    def ask(number: int) -> None:
        async def work() -> None:
            async with asyncio.timeout(LIMIT):
                answers.append(int((await asked.ask_async(question(number)))["a"]))

        asyncio.run(work())

    def serve() -> None:
        for _ in range(3):
            asked.run(policy, timeout=LIMIT)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    for number in range(3):
        ask(number)
    thread.join(LIMIT)
    asked.close()
    assert answers == [0, 2, 4]
