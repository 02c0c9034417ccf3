"""Threads that environments belong to.

Another thread hands a thread its jobs by a queue, and waits for each at the job's own lock.
"""

from __future__ import annotations

import threading
import time
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_SLICE = 0.1
"""Seconds after which Ctrl-C is heard at the latest."""


class Job:
    """A call for a thread to make. One other thread waits for it."""

    def __init__(self, call: Callable[[], Any]) -> None:
        """Take the call."""
        self._call: Callable[[], Any] | None = call
        self._value: Any = None
        self._error: BaseException | None = None
        self._done = False
        # Held until then. A plain lock: Ctrl-C in the wait for it leaves nothing half done, unlike
        # Python's conditions, events and futures.
        self._doing = threading.Lock()
        self._doing.acquire()

    def do(self) -> None:
        """Make the call; for the thread that it was given to."""
        call, self._call = self._call, None
        assert call is not None
        try:
            self._value = call()
        except BaseException as error:  # for the thread that waits
            self._error = error
        finally:
            # Objects that it refers to are not kept.
            del call
            self._done = True
            self._doing.release()

    def wait(self, end: float | None = None) -> bool:
        """Wait until the call was made, or until a time of `time.monotonic`; return whether it was.

        It may have been made by this time all the same.
        """
        # In slices: a signal that comes just before the thread sleeps does not wake it.
        while not self._done:
            left = _SLICE if end is None else min(_SLICE, end - time.monotonic())
            if left <= 0:
                return self._done
            self._doing.acquire(timeout=left)
        return True

    def result(self) -> Any:
        """Wait, then return the result of the call, or raise its error."""
        self.wait()
        if self._error is not None:
            raise self._error
        return self._value


class OwnerThread:
    """A thread that makes one call after the other, for objects that are bound to a thread.

    The thread does not hold this object, and is a daemon: an environment that hangs does not keep
    the program from ending. `name` is that of the thread.
    """

    def __init__(self, name: str) -> None:
        """Start the thread."""
        self.name = name
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._thread = threading.Thread(target=_work, args=(self._jobs,), name=name, daemon=True)
        self._thread.start()

    def submit(self, call: Callable[[], Any]) -> Job:
        """Queue a call on the thread, after those before it."""
        job = Job(call)
        self._jobs.put(job)
        return job

    def run(self, call: Callable[[], Any]) -> Any:
        """Call on the thread, and return the result or raise the error."""
        return self.submit(call).result()

    @property
    def ident(self) -> int | None:
        """The identifier of the thread."""
        return self._thread.ident

    def end(self) -> None:
        """End the thread after the calls that it was given."""
        self._jobs.put(None)

    def join(self, timeout: float) -> bool:
        """Wait for the end of the thread, and return whether it has ended."""
        self._thread.join(max(timeout, 0.0))
        return not self._thread.is_alive()


def _work(jobs: SimpleQueue[Job | None]) -> None:
    while (job := jobs.get()) is not None:
        job.do()
        del job
