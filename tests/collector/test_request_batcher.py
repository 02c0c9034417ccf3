"""`RequestBatcher`: many askers, one policy."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from cogrs.collector import RequestBatcher
from tests.collector.batchers import INPUTS, REPLIES, batcher, check, policy, question, served
from tests.collector.build import LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable


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


def test_every_thread_gets_its_own_replies() -> None:
    asked = batcher(8, timeout=0.001)

    def ask(asker: int) -> None:
        for round_ in range(100):
            number = asker * 1_000 + round_
            check(number, asked.ask(question(number), LIMIT))

    with served(asked) as sizes:
        in_threads(16, ask)
    assert sum(sizes) == 1_600
    assert max(sizes) <= 8


def test_every_task_gets_its_own_replies() -> None:
    asked = batcher(32, timeout=0.002)

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
    asked = batcher(6, timeout=0.002)

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


def test_full_batch_goes_out_at_once_and_a_short_one_after_its_time() -> None:
    asked = batcher(3, timeout=0.02)

    async def main() -> None:
        await asyncio.gather(*(asked.ask_async(question(number)) for number in range(7)))

    with served(asked) as sizes:
        asyncio.run(main())
    assert sizes == [3, 3, 1]


def test_flush_sends_out_a_short_batch() -> None:
    asked = batcher(4)
    answers: list[Any] = []
    asker = threading.Thread(target=lambda: answers.append(asked.ask(question(1), LIMIT)))
    asker.start()
    until = time.monotonic() + LIMIT
    while not asked.run(policy, timeout=0):
        asked.flush()
        assert time.monotonic() < until
    asker.join(LIMIT)
    check(1, answers[0])


def test_without_a_timeout_a_short_batch_waits() -> None:
    with batcher(2) as asked:
        with pytest.raises(TimeoutError, match=r"0\.05"):
            asked.ask(question(1), timeout=0.05)
        assert asked.run(policy, timeout=0) == 0


def test_timeout_of_a_caller_leaves_the_batch_to_others() -> None:
    with batcher(3) as asked:
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


def test_exception_of_the_callback_is_raised_and_its_batch_delivered_again() -> None:
    with batcher(2) as asked:
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


def test_close_wakes_all_callers() -> None:
    asked = batcher(8)
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
    assert errors == ["this request batcher is closed"] * 3
    with pytest.raises(RuntimeError, match="closed"):
        asked.ask(question(0))
    with pytest.raises(RuntimeError, match="closed"):
        asked.run(policy)
    asked.close()


def test_closing_while_the_policy_runs() -> None:
    asked = batcher(1)

    def ask() -> None:
        with pytest.raises(RuntimeError, match="closed"):
            asked.ask(question(1))

    asker = threading.Thread(target=ask)
    asker.start()
    assert asked.run(lambda *_: asked.close(), LIMIT) == 1
    asker.join(LIMIT)
    assert not asker.is_alive()


def test_replies_are_copies() -> None:
    asked = batcher(1)
    with served(asked):
        answers = [asked.ask(question(number), LIMIT) for number in range(20)]
    for number, answer in enumerate(answers):
        check(number, answer)


def test_closed_loop_does_not_disturb_other_callers() -> None:
    with batcher(2) as asked:

        async def leave() -> None:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asked.ask_async(question(1)), 0.01)

        asyncio.run(leave())
        asker = threading.Thread(target=lambda: check(2, asked.ask(question(2), LIMIT)))
        asker.start()
        assert asked.run(policy, LIMIT) == 2
        asker.join(LIMIT)
        assert not asker.is_alive()


def test_rows_without_a_free_buffer_wait_in_order() -> None:
    asked = batcher(2, num_buffers=1)

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


def test_arrays_outlive_a_deleted_batcher() -> None:
    asked = batcher(1)
    held: list[Any] = []
    asker = threading.Thread(target=asked.ask, args=(question(5), LIMIT))
    asker.start()
    asked.run(lambda inputs, _: held.append(inputs["s"]), LIMIT)
    asker.join(LIMIT)
    del asked, asker
    gc.collect()
    assert held[0].tolist() == [[5, 5, 5]]


def test_many_callers_wait_in_one_process() -> None:
    asked = batcher(200, timeout=0.005)
    with served(asked):

        async def main() -> None:
            answers = await asyncio.gather(*(asked.ask_async(question(k)) for k in range(2_000)))
            for number, answer in enumerate(answers):
                check(number, answer)

        asyncio.run(asyncio.wait_for(main(), LIMIT))


def test_former_names_warn_and_work() -> None:
    import cogrs.collector

    with pytest.warns(DeprecationWarning, match="Group is now cogrs.collector.RequestBatcher"):
        assert cogrs.collector.Group is cogrs.collector.RequestBatcher
    asked = batcher(2)
    with pytest.warns(DeprecationWarning, match="hurry"):
        asked.hurry()
    asked.close()


def test_timeout_usec_warns_and_is_the_timeout_in_microseconds() -> None:
    with pytest.warns(DeprecationWarning, match="timeout_usec= is now timeout="):
        asked = RequestBatcher(INPUTS, REPLIES, 8, timeout_usec=1_000)
    with served(asked):
        check(3, asked.ask(question(3)))
    with (
        pytest.warns(DeprecationWarning, match="timeout_usec= is now timeout="),
        pytest.raises(ValueError, match="timeout_usec: expected"),
    ):
        RequestBatcher(INPUTS, REPLIES, 8, timeout_usec=-1)
    with pytest.raises(
        TypeError, match="timeout_usec: expected one of timeout_usec= and timeout=, got both"
    ):
        RequestBatcher(INPUTS, REPLIES, 8, timeout=0.001, timeout_usec=1_000)
