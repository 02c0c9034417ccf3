"""The background tasks of a server: none is forgotten, and none fails in silence."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from cogrs.hung_calls import cancel_tasks, is_abandoned
from cogrs.orchestrator.engine.log import logger
from cogrs.orchestrator.links.cooperative_scheduler import CooperativeScheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


class BackgroundTasks:
    """The background tasks of one server, and the scheduler of those that wait for each other."""

    def __init__(self) -> None:
        """Create an empty set of tasks for the running loop."""
        self.scheduler = CooperativeScheduler()
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(
        self, work: Coroutine[object, object, None], crashed: Callable[[str], None] | None = None
    ) -> asyncio.Task[None]:
        """Start a task; `crashed` gets the text of its exception, which is logged in any case."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._finish(done, crashed))
        return task

    def _finish(self, task: asyncio.Task[None], crashed: Callable[[str], None] | None) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            logger.error("a background task failed", exc_info=error)
            if crashed is not None:
                crashed(f"{type(error).__name__}: {error}")

    def cancel(self) -> None:
        """Cancel all tasks, without waiting for them."""
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        """Cancel all tasks, and wait for them; those that do not end are left behind."""
        while tasks := {task for task in self._tasks if not is_abandoned(task)}:
            for task in await cancel_tasks(tasks):
                logger.warning("%s does not end when it is cancelled: it is abandoned", task)
