"""`Group`: many askers, one policy."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from cogrs.collector import Group
from tests.collector.build import LIMIT, forever

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

INPUTS = {"s": ("float32", (3,)), "id": ("int64", ())}
REPLIES = {"a": ("int64", ()), "pi": ("float32", (2,))}


def group(batch_size: int = 4, **options: Any) -> Group:
    return Group(INPUTS, REPLIES, batch_size, **options)


def question(number: int) -> dict[str, Any]:
    return {"s": np.full(3, number, np.float32), "id": number}


def policy(inputs: Any, replies: Any) -> None:
    assert not replies["a"].any()
    replies["a"][:] = inputs["id"] * 2
    replies["pi"][:] = inputs["s"][:, :2] + 0.5


def check(number: int, answer: Any) -> None:
    assert (answer["a"].shape, answer["a"].dtype, int(answer["a"])) == ((), np.int64, 2 * number)
    assert answer["pi"].tolist() == [number + 0.5] * 2


@contextmanager
def served(asked: Group, callback: Callable[[Any, Any], None] = policy) -> Iterator[list[int]]:
    """The sizes of the batches that a thread answers meanwhile."""
    sizes: list[int] = []

    def serve() -> None:
        with pytest.raises(RuntimeError, match="closed"):
            forever(lambda: sizes.append(asked.run(callback)))

    server = threading.Thread(target=serve)
    server.start()
    try:
        yield sizes
    finally:
        asked.close()
        server.join(LIMIT)
        assert not server.is_alive()


def in_threads(count: int, work: Callable[[int], None]) -> None:
    errors: list[BaseException] = []
    start = threading.Barrier(count)

    def run(number: int) -> None:
        try:
            start.wait()
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * LIMIT)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


def test_every_thread_gets_its_own_answers() -> None:
    asked = group(8, timeout_usec=1_000)

    def ask(asker: int) -> None:
        for round_ in range(100):
            number = asker * 1_000 + round_
            check(number, asked.ask(question(number), LIMIT))

    with served(asked) as sizes:
        in_threads(16, ask)
    assert sum(sizes) == 1_600
    assert max(sizes) <= 8


def test_every_task_gets_its_own_answers() -> None:
    asked = group(32, timeout_usec=2_000)

    async def ask(asker: int) -> None:
        for round_ in range(20):
            number = asker * 1_000 + round_
            check(number, await asked.ask_async(question(number)))

    async def main() -> None:
        await asyncio.wait_for(asyncio.gather(*map(ask, range(100))), LIMIT)

    with served(asked) as sizes:
        asyncio.run(main())
    assert sum(sizes) == 2_000


def test_tasks_of_several_loops_and_threads_share_batches() -> None:
    asked = group(6, timeout_usec=2_000)

    def ask(asker: int) -> None:
        async def main() -> None:
            for round_ in range(30):
                number = asker * 1_000 + round_
                answers = (asked.ask_async(question(number + extra)) for extra in (100, 200))
                for extra, answer in zip((100, 200), await asyncio.gather(*answers), strict=True):
                    check(number + extra, answer)

        if asker % 2:
            asyncio.run(asyncio.wait_for(main(), LIMIT))
        else:
            for round_ in range(30):
                check(round_, asked.ask(question(round_), LIMIT))

    with served(asked):
        in_threads(6, ask)


def test_a_full_batch_goes_out_at_once_and_a_short_one_after_its_time() -> None:
    asked = group(3, timeout_usec=20_000)

    async def main() -> None:
        await asyncio.gather(*(asked.ask_async(question(number)) for number in range(7)))

    with served(asked) as sizes:
        asyncio.run(main())
    assert sizes == [3, 3, 1]


def test_without_a_timeout_a_short_batch_waits() -> None:
    with group(2) as asked:
        with pytest.raises(TimeoutError, match=r"0\.05"):
            asked.ask(question(1), timeout=0.05)
        assert asked.run(policy, timeout=0) == 0


def test_who_gives_up_disturbs_nobody() -> None:
    with group(3) as asked:
        with pytest.raises(TimeoutError):
            asked.ask(question(1), timeout=0)
        answers: dict[int, Any] = {}

        async def main() -> None:
            impatient = asyncio.create_task(asked.ask_async(question(2)))
            patient = asyncio.create_task(asked.ask_async(question(3)))
            await asyncio.sleep(0)
            impatient.cancel()
            loop = asyncio.get_running_loop()
            assert await loop.run_in_executor(None, asked.run, policy, LIMIT) == 3
            answers[3] = await patient
            with pytest.raises(asyncio.CancelledError):
                await impatient

        asyncio.run(main())
        check(3, answers[3])


def test_an_exception_comes_out_and_its_batch_comes_again() -> None:
    with group(2) as asked:
        seen = []
        fails = [True, True, False]

        def policy_that_fails(inputs: Any, replies: Any) -> None:
            seen.append(inputs["id"].tolist())
            policy(inputs, replies)
            if fails.pop(0):
                raise KeyError("from the policy")

        def ask(number: int) -> None:
            check(number, asked.ask(question(number), LIMIT))

        askers = [threading.Thread(target=ask, args=(number,)) for number in range(2)]
        for asker in askers:
            asker.start()
        for _ in range(2):
            with pytest.raises(KeyError, match="from the policy"):
                asked.run(policy_that_fails, LIMIT)
        assert asked.run(policy_that_fails, LIMIT) == 2
        for asker in askers:
            asker.join(LIMIT)
            assert not asker.is_alive()
    assert len({str(batch) for batch in seen}) == 1


def test_closing_wakes_everybody() -> None:
    asked = group(8)
    errors: list[str] = []

    def noting(call: Callable[[], object]) -> threading.Thread:
        def run() -> None:
            with pytest.raises(RuntimeError) as error:
                call()
            errors.append(str(error.value))

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    async def ask() -> None:
        await asyncio.gather(asked.ask_async(question(1)), asked.ask_async(question(2)))

    threads = [noting(lambda: asked.ask(question(0))), noting(lambda: asyncio.run(ask()))]
    threads.append(noting(lambda: asked.run(policy)))
    time.sleep(0.05)
    asked.close()
    for thread in threads:
        thread.join(LIMIT)
        assert not thread.is_alive()
    assert errors == ["this group is closed"] * 3
    with pytest.raises(RuntimeError, match="closed"):
        asked.ask(question(0))
    with pytest.raises(RuntimeError, match="closed"):
        asked.run(policy)
    asked.close()


def test_closing_while_the_policy_runs() -> None:
    asked = group(1)

    def ask() -> None:
        with pytest.raises(RuntimeError, match="closed"):
            asked.ask(question(1))

    asker = threading.Thread(target=ask)
    asker.start()
    assert asked.run(lambda *_: asked.close(), LIMIT) == 1
    asker.join(LIMIT)
    assert not asker.is_alive()


def test_answers_are_the_asker_s_own() -> None:
    asked = group(1)
    with served(asked):
        answers = [asked.ask(question(number), LIMIT) for number in range(20)]
    for number, answer in enumerate(answers):
        check(number, answer)


def test_a_loop_that_is_gone_disturbs_nobody() -> None:
    with group(2) as asked:

        async def leave() -> None:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asked.ask_async(question(1)), 0.01)

        asyncio.run(leave())
        asker = threading.Thread(target=lambda: check(2, asked.ask(question(2), LIMIT)))
        asker.start()
        assert asked.run(policy, LIMIT) == 2
        asker.join(LIMIT)
        assert not asker.is_alive()


def test_rows_that_find_no_room_wait_their_turn() -> None:
    asked = group(2, num_buffers=1)

    async def main() -> list[Any]:
        asks = [asyncio.create_task(asked.ask_async(question(number))) for number in range(10)]
        await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        order = []

        def noting(inputs: Any, replies: Any) -> None:
            order.extend(inputs["id"].tolist())
            policy(inputs, replies)

        for _ in range(5):
            await loop.run_in_executor(None, asked.run, noting, LIMIT)
        for number, answer in enumerate(await asyncio.gather(*asks)):
            check(number, answer)
        return order

    with asked:
        assert asyncio.run(main()) == list(range(10))


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
        ({"s": [[1], [2, 3]], "id": 1}, ValueError, "s: expected float32"),
        ({1: 2}, ValueError, "inputs: expected"),
        ("s", TypeError, "inputs: expected a mapping, got str"),
        (None, TypeError, "inputs: expected a mapping, got NoneType"),
    ],
)
def test_wrong_rows_are_refused_by_name(inputs: Any, error: Any, words: str) -> None:
    with group(1) as asked:
        with pytest.raises(error, match=words):
            asked.ask(inputs, timeout=0)
        assert asked.run(policy, timeout=0) == 0, "nothing was put"


def test_values_are_converted_and_left_alone() -> None:
    asked = group(1)
    seen = []

    def note(inputs: Any, _replies: Any) -> None:
        seen.append((inputs["s"][0].tolist(), inputs["id"][0]))

    given = np.arange(6.0)[::2]
    given.flags.writeable = False
    with served(asked, note):
        for s in (given, [0, 2, 4], (0.0, 2.0, 4.0), np.array([0, 2, 4], np.int16)):
            asked.ask({"s": s, "id": np.int32(7)}, LIMIT)
        asked.ask({"s": given, "id": True}, LIMIT)
    assert seen == [([0, 2, 4], 7)] * 4 + [([0, 2, 4], 1)]


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
    with Group({"x": (dtype, (1,))}, {}, 1) as asked:
        with pytest.raises(ValueError, match=r"x: expected .*fit"):
            asked.ask({"x": value}, timeout=0)
        assert asked.run(policy, timeout=0) == 0, "nothing was put"


def test_values_that_a_dtype_holds_are_taken() -> None:
    asked = Group({"x": ("uint8", (2,)), "y": ("float32", ())}, {}, 1)
    seen = []
    with served(asked, lambda inputs, _: seen.append((inputs["x"].tolist(), *inputs["y"]))):
        asked.ask({"x": [1, 255], "y": float("inf")}, LIMIT)
        asked.ask({"x": [True, False], "y": np.float64(0.5)}, LIMIT)
    assert seen == [([[1, 255]], np.inf), ([[1, 0]], 0.5)]


@pytest.mark.parametrize("timeout", [-1, float("nan"), "1", [1]])
def test_a_wrong_timeout_is_named_and_nothing_is_put(timeout: Any) -> None:
    with group(1) as asked:
        with pytest.raises((TypeError, ValueError), match="timeout: expected"):
            asked.ask(question(1), timeout)
        assert asked.run(policy, timeout=0) == 0, "nothing was put"


def test_an_answer_holds_on_to_nothing_else() -> None:
    asked = group(2)
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
    asked = group(1)
    with served(asked, lambda _, replies: write(replies)):
        assert asked.ask(question(1), LIMIT)["a"] == 7


def test_changes_of_an_array_s_form_do_not_stay() -> None:
    asked = group(1)

    def reshape(inputs: Any, replies: Any) -> None:
        assert inputs["s"].shape == (1, 3)
        inputs["s"].shape = (3, 1)
        assert replies["pi"].shape == (1, 2)
        replies["pi"].shape = (2,)

    with served(asked, reshape):
        for number in range(6):
            asked.ask(question(number), LIMIT)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"batch_size": 0}, ValueError),
        ({"batch_size": 1.5}, TypeError),
        ({"num_buffers": 0}, ValueError),
        ({"timeout_usec": -1}, ValueError),
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
def test_wrong_groups_are_refused(change: dict[str, Any], error: Any) -> None:
    options = {"inputs": INPUTS, "replies": REPLIES, "batch_size": 2, **change}
    name = next(iter(change))
    if isinstance(change[name], dict) and isinstance(next(iter(change[name])), str):
        name = "s"
    with pytest.raises(error, match=rf"{name}|bytes"):
        Group(**options)


@pytest.mark.parametrize("timeout", [-1, float("nan")])
def test_timeouts_that_are_none_are_refused(timeout: float) -> None:
    with group(1) as asked:
        with pytest.raises(ValueError, match="timeout"):
            asked.run(policy, timeout)
        with pytest.raises(ValueError, match="timeout"):
            asked.ask(question(1), timeout)


def test_a_group_that_is_forgotten_lets_its_arrays_live() -> None:
    asked = group(1)
    held: list[Any] = []
    asker = threading.Thread(target=asked.ask, args=(question(5), LIMIT))
    asker.start()
    asked.run(lambda inputs, _: held.append(inputs["s"]), LIMIT)
    asker.join(LIMIT)
    del asked, asker
    gc.collect()
    assert held[0].tolist() == [[5, 5, 5]]


def test_setting_a_key_of_the_replies_writes_into_its_array() -> None:
    asked = group(1)

    def assign(_inputs: Any, replies: Any) -> None:
        replies["a"] = 7
        with pytest.raises(KeyError):
            replies["V"] = 1

    with served(asked, assign):
        assert asked.ask(question(1), LIMIT)["a"] == 7


def test_many_askers_wait_in_one_process() -> None:
    asked = group(200, timeout_usec=5_000)
    with served(asked):

        async def main() -> None:
            answers = await asyncio.gather(*(asked.ask_async(question(k)) for k in range(2_000)))
            for number, answer in enumerate(answers):
                check(number, answer)

        asyncio.run(asyncio.wait_for(main(), LIMIT))
