"""Batches that a thread of its own draws ahead, while the learner works on the one before."""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, Self

from cogrs._core import settings_version
from cogrs.validation import check_count, check_timeout

if TYPE_CHECKING:
    from types import TracebackType

    from cogrs._core import ReplayMemory

_SLICE = 0.25
"""Seconds after which a wait looks whether the prefetcher was closed, or a signal came."""
_MOST = 64
"""Batches drawn ahead at most."""


class _Drawer:
    """What the thread and the prefetcher share."""

    def __init__(
        self, memory: ReplayMemory, size: int, depth: int, options: dict[str, Any]
    ) -> None:
        self.memory, self.size, self.depth, self.options = memory, size, depth, options
        self.changed = threading.Condition()
        self.ready: deque[tuple[int, Any]] = deque()
        """Batches, each with the version of the settings before it was drawn."""
        self.error: BaseException | None = None
        self.shortage = "no batch has been drawn yet"
        self.closed = False

    def run(self) -> None:
        """Draw batches until the prefetcher is closed or a draw fails."""
        while self._wait_for_room():
            try:
                version = settings_version(self.memory)
                batch = self.memory.sample(self.size, wait=_SLICE, **self.options)
            except TimeoutError as error:
                self.shortage = str(error).partition(": ")[2]
            except BaseException as error:
                with self.changed:
                    self.error = error
                    self.changed.notify_all()
                return
            else:
                with self.changed:
                    self.ready.append((version, batch))
                    self.changed.notify_all()

    def _wait_for_room(self) -> bool:
        with self.changed:
            while not self.closed and len(self.ready) >= self.depth:
                self.changed.wait()
            return not self.closed

    def take(self, wait: float | None) -> Any:
        """Return the next batch; None when the prefetcher is closed."""
        end = None if wait is None else time.monotonic() + wait
        with self.changed:
            while not self.closed:
                while self.ready:
                    version, batch = self.ready.popleft()
                    self.changed.notify_all()
                    # Others were drawn before settings changed.
                    if version == settings_version(self.memory):
                        return batch
                if self.error is not None:
                    raise self.error
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    raise TimeoutError(f"waited {wait:g} s for a batch: {self.shortage}")
                # Python handles signals between waits.
                self.changed.wait(_SLICE if left is None else min(left, _SLICE))
        return None

    def close(self) -> None:
        """End the thread, and wake the threads that wait for a batch."""
        with self.changed:
            self.closed = True
            self.ready.clear()
            self.changed.notify_all()


class Prefetcher:
    """Batches of a `ReplayMemory`, drawn ahead by a thread; made by `ReplayMemory.prefetch`.

    Iterate over it, or call `next(prefetcher)`: several threads may. A batch is what `sample` gave
    when it was drawn, up to `depth` batches ago; priorities that were updated since do not change
    it. Batches that were drawn before a setting changed are dropped, and drawn anew; under
    `max_times_sampled` and a rate limiter they have been counted.

    `close`, the end of a `with` block and the end of the last reference end the thread.
    """

    def __init__(
        self,
        memory: ReplayMemory,
        batch_size: int,
        depth: int,
        wait: float | None,
        options: dict[str, Any],
    ) -> None:
        """Start the thread that draws.

        Raises:
            TypeError, ValueError: As `ReplayMemory.prefetch`.
        """
        size = check_count("batch_size", batch_size, 1)
        self._wait = check_timeout("wait", wait)
        self._drawer = drawer = _Drawer(
            memory, size, check_count("depth", depth, 1, _MOST), options
        )
        settings_version(memory)
        threading.Thread(target=drawer.run, name="cogrs-prefetch", daemon=True).start()
        self._finalize = weakref.finalize(self, drawer.close)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        """Return the next batch.

        Raises:
            StopIteration: The prefetcher is closed.
            TimeoutError: There was no batch within `wait` seconds; the text says why.
            RuntimeError: In a forked child.
            MemoryError: As `ReplayMemory.sample`.
        """
        settings_version(self._drawer.memory)
        batch = self._drawer.take(self._wait)
        if batch is None:
            raise StopIteration
        return batch

    def close(self) -> None:
        """End the thread and drop the batches that it has drawn; calls that wait end."""
        self._finalize()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError("a Prefetcher cannot be pickled or copied")
