import asyncio
import time

from cogrs.hung_calls import cancel_tasks, is_abandoned, wait_running


def run_on_a_busy_machine(work, *, pause: float = 0.15, pauses: int = 8):
    """Run a coroutine on a loop that gets its turns late, as beside other work."""

    async def main():
        loop = asyncio.get_running_loop()

        def hold_up(left: int) -> None:
            time.sleep(pause)
            if left:
                loop.call_soon(hold_up, left - 1)

        loop.call_soon(hold_up, pauses)
        return await work

    return asyncio.run(main())


async def end_slowly(turns: int) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        for _ in range(turns):
            await asyncio.sleep(0)


def test_cancelled_tasks_that_end_are_waited_for_on_a_busy_machine():
    async def work():
        tasks = [asyncio.ensure_future(end_slowly(3)) for _ in range(3)]
        await asyncio.sleep(0)
        assert await cancel_tasks(tasks) == set()
        assert all(task.cancelled() for task in tasks)

    run_on_a_busy_machine(work())


def test_cancelled_tasks_that_do_not_end_are_abandoned():
    async def swallow():
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue

    async def work():
        stuck, ends = (asyncio.ensure_future(each) for each in (swallow(), end_slowly(3)))
        await asyncio.sleep(0)
        assert await cancel_tasks([stuck, ends]) == {stuck}
        assert is_abandoned(stuck)
        assert ends.cancelled()

    asyncio.run(work())


def test_wait_running_returns_the_tasks_that_are_not_done_in_time():
    async def work():
        never, soon = asyncio.Event(), asyncio.Event()
        asyncio.get_running_loop().call_later(0.05, soon.set)
        tasks = [asyncio.ensure_future(each.wait()) for each in (never, soon)]
        begin = time.monotonic()
        assert await wait_running(tasks, 0.3) == {tasks[0]}
        assert time.monotonic() - begin >= 0.3
        tasks[0].cancel()
        assert await wait_running([], 10.0) == set()

    asyncio.run(work())
