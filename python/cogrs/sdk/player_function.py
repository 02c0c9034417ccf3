"""Functions that play an actor of a client: over a session, or from observations to actions."""

from __future__ import annotations

import asyncio
import inspect
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from cogrs.sdk.trial import Observation
from cogrs.user_errors import as_exception

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from cogrs.sdk.actor_session import ActorSession

PlayerFunction: TypeAlias = (
    "Callable[[ActorSession], Awaitable[Any]] | Callable[[Observation], Any]"
)
"""An async function over a session, or a plain one from observations to actions."""


def check_player(player: object) -> None:
    """Raise a TypeError unless a player is callable."""
    if not callable(player):
        raise TypeError(f"player: expected a function, got {type(player).__name__}")


async def play_session(session: ActorSession, player: PlayerFunction) -> None:
    """Play an actor by a function until its trial is over."""
    given: Any = player
    if inspect.iscoroutinefunction(given):
        await given(session)
    else:
        await _play(session, given)


async def _play(session: ActorSession, function: Callable[[Observation], Any]) -> None:
    async for event in session:
        if not isinstance(event, Observation):
            continue
        await session.act(await call_on_thread(function, event))


async def call_on_thread(function: Callable[[Observation], Any], observation: Observation) -> Any:
    """Call a function, which may wait for a person, on a thread that Ctrl-C leaves behind."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[Any] = loop.create_future()

    def settle(value: Any, error: BaseException | None) -> None:
        if result.done():
            return
        if error is not None:
            result.set_exception(error)
        else:
            result.set_result(value)

    def run() -> None:
        value: Any = None
        error: BaseException | None = None
        try:
            value = function(observation)
        except SystemExit as leaving:  # of the program, as from any function that it calls
            error = leaving
        except BaseException as failure:
            error = as_exception(failure)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, value, error)

    threading.Thread(target=run, name="cogrs-player", daemon=True).start()
    return await result
