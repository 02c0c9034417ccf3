"""Questions of many callers, answered together."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, Any, Self

from cogrs import _core
from cogrs.collector.batch import Fields

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    import numpy.typing as npt

    from cogrs.collector.batch import Arrays

    Tensors = Mapping[str, tuple[npt.DTypeLike, Sequence[int]]]
    Question = Mapping[str, npt.ArrayLike]
    Policy = Callable[[Arrays, Arrays], object]

_CLOSED = "this group is closed"


class Group:
    """One policy for many askers: each puts one row, the policy sees the whole batch.

    ::

        group = Group({"s": ("float32", (4,))}, {"a": ("int64", ())}, 64, timeout_usec=2_000)

        answer = group.ask({"s": observation})           # in many threads
        answer = await group.ask_async({"s": observation})   # or in many tasks

        while True:                                      # in one thread
            group.run(policy)                            # policy(inputs, replies)

    Args:
        inputs: What an asker puts: dtype and shape of one row by name.
        replies: What it is answered, likewise.
        batch_size: Rows of a full batch.
        timeout_usec: A batch goes out short when its first row has waited so long. With the
            default 0 it never does, and then fewer than `batch_size` askers wait for ever: an
            agent, whose trials come and go, wants a timeout.
        num_buffers: Batches that are filled in turn. Askers beyond those wait their turn.

    Raises:
        ValueError: A number or a shape is out of range.
        TypeError: A dtype has no fixed size, or holds objects.
        MemoryError: The system refuses the memory.
    """

    def __init__(
        self,
        inputs: Tensors,
        replies: Tensors,
        batch_size: int,
        *,
        timeout_usec: int = 0,
        num_buffers: int = 2,
    ) -> None:
        """Reserve the memory; see the class."""
        self._core = _core.CollectorGroup(
            [(name, dtype, tuple(shape)) for name, (dtype, shape) in inputs.items()],
            [(name, dtype, tuple(shape)) for name, (dtype, shape) in replies.items()],
            batch_size,
            timeout_usec=timeout_usec,
            num_buffers=num_buffers,
        )
        self._arrays: dict[int, tuple[Arrays, Arrays]] = {}

    def ask(self, inputs: Question, timeout: float | None = None) -> Arrays:
        """Put a row and wait for its answer.

        Args:
            inputs: A value for each name; other dtypes are converted by the 'same_kind' rule.
            timeout: Seconds to wait at most. Who gives up disturbs nobody: its row is answered with
                the others, and the answer dropped.

        Returns:
            An array for each name of the reply, in memory of the caller's own.

        Raises:
            ValueError: A name is missing or unknown, or a shape differs. Nothing is put.
            TypeError: A dtype cannot be converted. Nothing is put.
            TimeoutError: No answer in time.
            RuntimeError: The group is closed.
        """
        call = _Call()
        self._core.put(dict(inputs), call)
        return call.wait(timeout)

    async def ask_async(self, inputs: Question) -> Arrays:
        """As `ask`, for a task; a task that is cancelled disturbs nobody."""
        answer: asyncio.Future[Arrays] = asyncio.get_running_loop().create_future()
        self._core.put(dict(inputs), answer)
        return await answer

    def run(self, callback: Policy, timeout: float | None = None) -> int:
        """Wait for a batch, have it answered, and send the answers.

        Args:
            callback: Called with the inputs and the replies, each a dict of arrays of k rows, k <=
                batch_size. The replies are zeros, to be written in place. Both are valid until it
                returns. When it raises, the batch stays pending, and the next `run` delivers it
                again.
            timeout: Seconds to wait at most; None is without a limit.

        Returns:
            How many rows were answered; 0 when no batch came in time.

        Raises:
            RuntimeError: The group is closed.
        """
        delivery = self._core.wait(timeout)
        if delivery is None:
            return 0
        try:
            inputs, replies = self._views(delivery.buffer, delivery.rows)
            callback(inputs, Fields(replies))
            answers = {name: array.copy() for name, array in replies.items()}
            self._core.release(delivery, lambda owners: _send(owners, answers))
        except BaseException:
            # The exception holds on to the batch. It is over when Ctrl-C came after the release.
            with contextlib.suppress(RuntimeError):
                self._core.put_back(delivery)
            raise
        return delivery.rows

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
        """Wake everybody with a RuntimeError; it may be called again, and from any thread."""
        self._core.close(lambda owners: _send(owners, None))

    def __enter__(self) -> Self:
        """`self`."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()


class _Call:
    """Somebody's wait in a thread: a lock that opens with the answer."""

    __slots__ = ("_answer", "_opens")

    def __init__(self) -> None:
        self._opens = threading.Lock()
        self._opens.acquire()
        self._answer: Arrays | None = None

    def wait(self, timeout: float | None) -> Arrays:
        if not self._opens.acquire(timeout=_bounded(timeout)):
            raise TimeoutError(f"no answer within {timeout} s")
        if self._answer is None:
            raise RuntimeError(_CLOSED)
        return self._answer

    def answer(self, answer: Arrays | None) -> None:
        self._answer = answer
        # It is open already when the answers are sent once more.
        with contextlib.suppress(RuntimeError):
            self._opens.release()


def _bounded(timeout: float | None) -> float:
    if timeout is None:
        return -1
    if not timeout >= 0:
        raise ValueError(f"timeout: expected seconds >= 0, or None, got {timeout}")
    return min(timeout, threading.TIMEOUT_MAX)


def _row(answers: Arrays | None, row: int) -> Arrays | None:
    # The dots make an array of what would else be a scalar.
    return answers and {name: array[row, ...] for name, array in answers.items()}


def _send(owners: Sequence[Any], answers: Arrays | None) -> None:
    """Give each owner its row of the answers, or none; may be repeated. Wakes each loop once."""
    loops: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Arrays], int]]] = {}
    for row, owner in enumerate(owners):
        if isinstance(owner, _Call):
            owner.answer(_row(answers, row))
        else:
            loops.setdefault(owner.get_loop(), []).append((owner, row))
    for loop, futures in loops.items():
        # A loop that is closed has nobody left who waits.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle, futures, answers)


def _settle(futures: list[tuple[asyncio.Future[Arrays], int]], answers: Arrays | None) -> None:
    for future, row in futures:
        if future.done():
            continue
        answer = _row(answers, row)
        if answer is None:
            future.set_exception(RuntimeError(_CLOSED))
        else:
            future.set_result(answer)
