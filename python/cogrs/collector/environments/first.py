"""The first environment, which is made before it is known which thread will move it.

It is only used in the thread that made it: the caller's, or an `OwnerThread`.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from cogrs.collector.environments.env_api import close_env
from cogrs.collector.environments.owner import OwnerThread

if TYPE_CHECKING:
    from collections.abc import Callable

    from cogrs.collector.environments.factory import Factories

THREAD_NAME = "cogrs-environments-{}"
"""Names of the threads that move environments, by their numbers."""


class FirstEnv:
    """The environment of game 0 and its thread: that of the caller, or one of its own."""

    def __init__(self, env: Any, thread: OwnerThread | None) -> None:
        """Take an environment that this thread has made, or the other one."""
        self._env = env
        self._thread = thread
        self._maker = threading.current_thread()

    @classmethod
    def of(cls, factory: Factories, *, apart: bool) -> FirstEnv:
        """Make the environment, `apart` in a thread of its own or in this one."""
        if not apart:
            return cls(factory.make(0), None)
        thread = OwnerThread(THREAD_NAME.format(0))
        try:
            return cls(thread.run(partial(factory.make, 0)), thread)
        except BaseException:
            thread.end()
            raise

    def look(self, call: Callable[[Any], Any]) -> Any:
        """Call a function with the environment in its thread, and return the result."""
        looking = partial(call, self._env)
        return looking() if self._thread is None else self._thread.run(looking)

    def take_here(self) -> Any:
        """Return the environment if this thread has made it; else close it, and return None."""
        if self._thread is None and self._maker is threading.current_thread():
            env, self._env = self._env, None
            return env
        if self._thread is not None:
            # Before another is made: it may hold a resource that exists only once.
            self._thread.run(self._close)
        self.close()
        return None

    def take_thread(self) -> tuple[OwnerThread, Any]:
        """Return the thread that has made it, and it; else close it, and return a new thread."""
        if self._thread is None:
            self.close()
            return OwnerThread(THREAD_NAME.format(0)), None
        thread, self._thread = self._thread, None
        env, self._env = self._env, None
        return thread, env

    def close(self) -> None:
        """Close it in its thread; when that is another caller's, the next call there does so."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.submit(self._close)
            thread.end()
        elif self._maker is threading.current_thread() or not self._maker.is_alive():
            self._close()

    def _close(self) -> None:
        env, self._env = self._env, None
        if env is not None:
            close_env(env, "the environment of game 0")
