"""Tasks that take turns without a round of the event loop for each."""

from __future__ import annotations

import asyncio
import contextvars
import functools
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cogrs.orchestrator.links.cooperative_scheduler import CooperativeScheduler
from cogrs.orchestrator.links.queues import AsyncQueue

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine


def on_a_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    @functools.wraps(test)
    def run() -> None:
        asyncio.run(test())

    return run


steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 3)),
        st.tuples(st.just("yield"), st.just(0)),
        st.tuples(st.just("cancel"), st.integers(0, 3)),
        st.tuples(st.just("close"), st.integers(0, 3)),
    ),
    max_size=40,
)


@given(steps)
def test_items_are_taken_in_order_of_arrival(script: list[tuple[str, int]]) -> None:
    async def main() -> None:
        scheduler = CooperativeScheduler()
        run_queues = [scheduler.run_queue(name) for name in "aabb"]
        queues = [AsyncQueue[int](lane) for lane in run_queues]
        got: list[list[int]] = [[] for _ in queues]
        put: list[list[int]] = [[] for _ in queues]

        async def read(k: int) -> None:
            async for item in queues[k]:
                got[k].append(item)

        tasks = [asyncio.ensure_future(read(k)) for k in range(len(queues))]
        for number, (what, k) in enumerate(script):
            if what == "put" and not queues[k].closed:
                queues[k].put(number)
                put[k].append(number)
            elif what == "close":
                queues[k].close()
            elif what == "yield":
                await asyncio.sleep(0)
            elif what == "cancel":
                tasks[k].cancel()
                await asyncio.wait({tasks[k]})
                tasks[k] = asyncio.ensure_future(read(k))
        for queue in queues:
            queue.close()
        async with asyncio.timeout(30):
            await asyncio.gather(*tasks)
        assert got == put

    asyncio.run(main())


@on_a_loop
async def test_task_resumes_with_its_own_identity_and_context() -> None:
    who: contextvars.ContextVar[str] = contextvars.ContextVar("who")
    queue = AsyncQueue[int](CooperativeScheduler().run_queue("trial"))

    async def read() -> list[Any]:
        who.set("reader")
        async with asyncio.timeout(30):
            return [(item, who.get(), asyncio.current_task() is task) async for item in queue]

    task = asyncio.ensure_future(read())
    await asyncio.sleep(0)
    queue.put(1)
    await asyncio.sleep(0)
    queue.put(2)
    queue.close()
    assert await task == [(1, "reader", True), (2, "reader", True)]
    with pytest.raises(LookupError):
        who.get()


@on_a_loop
async def test_task_is_not_resumed_within_a_put() -> None:
    queue = AsyncQueue[int](CooperativeScheduler().run_queue("trial"))
    task = asyncio.ensure_future(anext(queue))
    await asyncio.sleep(0)
    queue.put(1)
    assert not task.done()
    assert await task == 1


@on_a_loop
async def test_wait_that_times_out_leaves_later_items() -> None:
    queue = AsyncQueue[int](CooperativeScheduler().run_queue("trial"))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(queue), 0.01)
    queue.put(1)
    assert await asyncio.wait_for(anext(queue), 30) == 1


@on_a_loop
async def test_cancelled_task_leaves_items_in_the_queue() -> None:
    queue = AsyncQueue[int](CooperativeScheduler().run_queue("trial"))
    task = asyncio.ensure_future(anext(queue))
    await asyncio.sleep(0)
    queue.put(1)
    task.cancel("enough")
    with pytest.raises(asyncio.CancelledError, match="enough"):
        await task
    assert await anext(queue) == 1


@on_a_loop
async def test_tasks_that_are_always_busy_let_others_go_on() -> None:
    scheduler = CooperativeScheduler()
    counts = dict.fromkeys("abc", 0)

    async def play(name: str) -> None:
        there, back = (
            AsyncQueue[int](scheduler.run_queue(name)),
            AsyncQueue[int](scheduler.run_queue(name)),
        )

        async def answer() -> None:
            async for item in there:
                back.put(item + 1)

        async with asyncio.TaskGroup() as group:
            group.create_task(answer())
            there.put(0)
            async for item in back:
                counts[name] = item
                there.put(item)

    players = [asyncio.ensure_future(play(name)) for name in counts]
    async with asyncio.timeout(30):
        for _ in iter(lambda: min(counts.values()) >= 1000, True):
            await asyncio.sleep(0.001)
    for player in players:
        player.cancel()
    await asyncio.wait(players)
    assert all(player.cancelled() for player in players)


@on_a_loop
async def test_task_that_fails_does_not_stop_the_others() -> None:
    scheduler = CooperativeScheduler()
    first, second = (
        AsyncQueue[int](scheduler.run_queue("a")),
        AsyncQueue[int](scheduler.run_queue("a")),
    )

    async def fail() -> None:
        await anext(first)
        raise RuntimeError("boom")

    failing, fine = asyncio.ensure_future(fail()), asyncio.ensure_future(anext(second))
    await asyncio.sleep(0)
    first.put(1)
    second.put(2)
    assert await asyncio.wait_for(fine, 30) == 2
    with pytest.raises(RuntimeError, match="boom"):
        await failing


@on_a_loop
async def test_interrupt_in_a_task_reaches_the_loop_and_the_others_go_on() -> None:
    scheduler = CooperativeScheduler()
    queues = [AsyncQueue[int](scheduler.run_queue(name)) for name in "aab"]
    raised: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: raised.append(told))

    async def stop(stream: AsyncIterator[int]) -> None:
        await anext(stream)
        raise SystemExit(3)

    stopping = asyncio.ensure_future(stop(queues[0]))
    others = [asyncio.ensure_future(anext(queue)) for queue in queues[1:]]
    await asyncio.sleep(0)
    scheduler.loop.call_soon = _Refusing(scheduler.loop.call_soon, scheduler)  # type: ignore[method-assign]
    for queue in queues:
        queue.put(1)
    assert await asyncio.wait_for(asyncio.gather(*others), 30) == [1, 1]
    with pytest.raises(SystemExit):
        await stopping


class _Refusing:
    """Makes calls of the loop that let nothing out, as `run_forever` is left otherwise."""

    def __init__(self, call_soon: Any, scheduler: CooperativeScheduler) -> None:
        self._call_soon = call_soon
        self._run = scheduler._run

    def __call__(self, callback: Any, *args: Any, **options: Any) -> Any:
        if callback != self._run:
            return self._call_soon(callback, *args, **options)

        def run() -> None:
            try:
                callback(*args)
            except SystemExit:
                return

        return self._call_soon(run, **options)
