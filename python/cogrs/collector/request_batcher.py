"""Batches the requests of many callers for one policy.

Any thread may call any method. The core has the lock of the rows. Each caller waits for its own
reply: a thread at a lock that opens with it, a task for a future of its loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, Self

from cogrs import _core
from cogrs.collector.batch import ReplyArrays
from cogrs.collector.delivery import redeliver
from cogrs.collector.options import NotPicklable
from cogrs.deprecation import renamed_argument, warn_renamed
from cogrs.validation import check_integer, check_kind, check_timeout

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from cogrs.collector.batch import Arrays

    Tensors = Mapping[str, tuple[npt.DTypeLike, Sequence[int]]]
    Question = Mapping[str, npt.ArrayLike]
    Policy = Callable[[Arrays, Arrays], object]

_CLOSED = "this request batcher is closed"


def _seconds(timeout_usec: int | None) -> float | None:
    """Return the timeout that the deprecated argument says in microseconds; 0 is None."""
    usec = 0 if timeout_usec is None else check_integer("timeout_usec", timeout_usec, 0)
    return usec / 1e6 or None


class RequestBatcher(NotPicklable):
    """Batches the rows of many callers, so that one policy answers them together.

    ::

        inputs, replies = {"s": ("float32", (4,))}, {"a": ("int64", ())}
        batcher = RequestBatcher(inputs, replies, 64, timeout=0.002)

        answer = batcher.ask({"s": observation})           # in many threads
        answer = await batcher.ask_async({"s": observation})   # or in many tasks

        while True:                                      # in one thread
            batcher.run(policy)                            # policy(inputs, replies)

    Args:
        inputs: dtype and shape of one row of each input, by name.
        replies: dtype and shape of one row of each reply, likewise.
        batch_size: Rows of a full batch.
        timeout: Seconds that the first row of a batch waits before the batch goes out short. With
            None it waits for a full batch, so that fewer than `batch_size` callers wait for ever:
            an agent, whose trials come and go, needs a timeout.
        num_buffers: Batches that are filled in turn. Further callers wait.

    Raises:
        ValueError: A number or a shape is out of range.
        TypeError: A dtype has no fixed size, holds objects, or brings a shape of its own; inputs or
            replies are not mappings; or `timeout` and `timeout_usec` are both given.
        MemoryError: The system refuses the memory.
    """

    @renamed_argument("timeout_usec", "timeout", _seconds)
    def __init__(
        self,
        inputs: Tensors,
        replies: Tensors,
        batch_size: int,
        *,
        timeout: float | None = None,
        num_buffers: int = 2,
    ) -> None:
        seconds = check_timeout("timeout", timeout, above=True)
        usec = 0 if seconds is None else max(1, round(seconds * 1e6))
        self._core = _core.RequestBatcher(
            _tensors("inputs", inputs),
            _tensors("replies", replies),
            check_integer("batch_size", batch_size, 1),
            timeout_usec=usec,
            num_buffers=check_integer("num_buffers", num_buffers, 1),
        )
        self._arrays: dict[int, tuple[Arrays, Arrays]] = {}

    def ask(self, inputs: Question, timeout: float | None = None) -> Arrays:
        """Send a row and wait for its reply.

        Args:
            inputs: A value for each name; other dtypes are converted by the 'same_kind' rule, and
                refused where a value does not fit.
            timeout: Seconds to wait at most. After a timeout the row is still answered with the
                others, and its reply is dropped.

        Returns:
            An array for each name of the reply, in memory of its own.

        Raises:
            ValueError: A name is missing or unknown, a shape differs, a value does not fit, or the
                timeout is negative or NaN. Nothing is sent.
            TypeError: A dtype cannot be converted, or `inputs` is not a mapping. Nothing is sent.
            TimeoutError: No reply came in time.
            RuntimeError: The request batcher is closed.
        """
        seconds = check_timeout("timeout", timeout)
        call = _Call()
        self._core.put(_mapping("inputs", inputs), call)
        return call.wait(seconds)

    async def ask_async(self, inputs: Question) -> Arrays:
        """Ask as `ask` does, from a task, which may be cancelled."""
        answer: asyncio.Future[Arrays] = asyncio.get_running_loop().create_future()
        self._core.put(_mapping("inputs", inputs), answer)
        return await answer

    def run(self, callback: Policy, timeout: float | None = None) -> int:
        """Wait for a batch, call `callback` to answer it, and send the replies.

        Args:
            callback: Called with the inputs and the replies, each a dict of arrays of k rows, k <=
                batch_size. The replies are zeros, to be written in place. Both are valid until it
                returns. When it raises, the batch stays pending, and the next `run` delivers it
                again.
            timeout: Seconds to wait at most; None means no limit.

        Returns:
            The number of rows answered; 0 when no batch came in time.

        Raises:
            RuntimeError: The request batcher is closed.
        """
        delivery = self._core.wait(timeout)
        if delivery is None:
            return 0
        try:
            inputs, replies = self._views(delivery.buffer, delivery.rows)
            callback(inputs, ReplyArrays(replies))
            answers = [_row(replies, row) for row in range(delivery.rows)]
            self._core.release(delivery, lambda owners: _send(owners, answers))
        except BaseException:
            redeliver(self._core, delivery)
            raise
        return delivery.rows

    def flush(self) -> None:
        """Send waiting rows out in a short batch as soon as `run` waits, if no other row comes."""
        self._core.flush()

    def hurry(self) -> None:
        """Deprecated: the former name of `flush`."""
        warn_renamed("hurry()", "flush()")
        self.flush()

    def _views(self, buffer: int, rows: int) -> tuple[Arrays, Arrays]:
        arrays = self._arrays.get(buffer)
        if arrays is None:
            arrays = self._arrays[buffer] = self._core.batch(buffer)
        inputs, replies = arrays
        return (
            {name: array[:rows] for name, array in inputs.items()},
            {name: array[:rows] for name, array in replies.items()},
        )

    def close(self) -> None:
        """Wake all callers with a RuntimeError; from any thread, and more than once.

        Does nothing in a forked child.
        """
        self._core.close(lambda owners: _send(owners, None))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Call:
    """The wait of a thread: a lock that opens with the reply."""

    __slots__ = ("_answer", "_opens")

    def __init__(self) -> None:
        self._opens = threading.Lock()
        self._opens.acquire()
        self._answer: Arrays | None = None

    def wait(self, seconds: float | None) -> Arrays:
        if not self._opens.acquire(timeout=-1 if seconds is None else seconds):
            raise TimeoutError(f"ask: no answer within {seconds:g} s: does a thread call run()?")
        if self._answer is None:
            raise RuntimeError(_CLOSED)
        return self._answer

    def answer(self, answer: Arrays | None) -> None:
        self._answer = answer
        # The lock is open already when the replies are sent again.
        with contextlib.suppress(RuntimeError):
            self._opens.release()


def _mapping(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    check_kind(name, given, Mapping, "a mapping")
    return dict(given)


def _tensors(argument: str, given: Tensors) -> list[tuple[str, npt.DTypeLike, tuple[int, ...]]]:
    tensors = []
    for name, pair in _mapping(argument, given).items():
        if not isinstance(name, str):
            raise TypeError(f"{argument}: expected names as keys, got {name!r}")
        if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
            raise TypeError(f"{name}: expected a pair (dtype, shape), got {pair!r}")
        dtype, shape = pair
        if not isinstance(shape, Iterable):
            raise TypeError(f"{name}: expected a shape, got {shape!r}")
        tensors.append((name, dtype, tuple(check_integer(name, length, 0) for length in shape)))
    return tensors


def _row(replies: Arrays, row: int) -> Arrays:
    """Copy a row; a view would keep the whole batch."""
    # The dots make an array of a scalar.
    return {name: array[row, ...].copy() for name, array in replies.items()}


def _send(owners: Sequence[Any], answers: Sequence[Arrays] | None) -> None:
    """Give each owner its reply, or None; may be repeated. Wakes each event loop once."""
    loops: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Arrays], Arrays | None]]] = {}
    for owner, answer in zip(owners, answers or repeat(None)):  # noqa: B905
        if isinstance(owner, _Call):
            owner.answer(answer)
        else:
            loops.setdefault(owner.get_loop(), []).append((owner, answer))
    for loop, futures in loops.items():
        # No task waits on a closed loop.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle, futures)


def _settle(futures: list[tuple[asyncio.Future[Arrays], Arrays | None]]) -> None:
    for future, answer in futures:
        if future.done():
            continue
        if answer is None:
            future.set_exception(RuntimeError(_CLOSED))
        else:
            future.set_result(answer)
