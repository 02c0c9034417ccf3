"""An environment's trial as a stream of events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from cogrs.sdk.environment import Environment, Update
from cogrs.sdk.function_task import EventQueue, FunctionTask
from cogrs.sdk.hosted_component import component_name
from cogrs.sdk.trial import ReceivedMessage
from cogrs.unfinished import qualified_name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Mapping

    from cogrs.sdk.trial import Trial


@dataclass(frozen=True, slots=True)
class Actions:
    """The actors' actions, to be answered by an update.

    Attributes:
        values: The action of each actor but the observers, by its name, in the trial's order.
        last: The trial has to end: the update is the last one, and may be left out. Actors that
            have not answered are left out of the values.
    """

    values: Mapping[str, Any]
    last: bool = False


EnvironmentEvent: TypeAlias = Actions | ReceivedMessage
"""An event of an environment. Messages come before the actions that they were sent with."""


class EnvironmentSession:
    """An environment's part in a trial: an async iterator of `EnvironmentEvent`, and its updates.

    The iteration is over after the last update.

    Attributes:
        trial: The trial.
    """

    def __init__(self, trial: Trial) -> None:
        """Create a session without events."""
        self.trial = trial
        self.inbox: EventQueue[EnvironmentEvent] = EventQueue()
        self.observers: Collection[str] = ()
        """Actors that do not act, as of `Environment.observers`; may be set before the first
        update."""
        self.ending = False
        """Whether the latest actions are the last ones."""

    def __aiter__(self) -> Self:
        """Return the events."""
        return self

    async def __anext__(self) -> EnvironmentEvent:
        """Return the next event."""
        return await anext(self.inbox)

    async def update(self, update: Update) -> None:
        """Send the first observations, or the result of the latest actions.

        Raises:
            RuntimeError: All actions have been answered.
        """
        if not self.inbox.answer(update):
            raise RuntimeError("update: all actions have been answered already")
        if self.ending or (isinstance(update, Update) and update.final):
            self.inbox.close()


class SessionEnvironment(Environment):
    """An environment that is one async function over a session."""

    inline = True

    def __init__(self, function: Callable[[EnvironmentSession], Coroutine[Any, Any, Any]]) -> None:
        """Play by this function, which begins with an update of the first observations."""
        self._function = function
        self.function_name = qualified_name(function)
        self._script: FunctionTask[EnvironmentEvent] | None = None

    async def start(self, trial: Trial) -> Any:
        """Start the function, and wait for the first observations."""
        self._session = EnvironmentSession(trial)
        self._script = FunctionTask(
            component_name(trial.id), self._session.inbox, lambda: self._function(self._session)
        )
        update = await self._running.ask()
        self.observers = self._session.observers
        return update

    async def step(self, actions: Mapping[str, Any]) -> Any:
        """Wait for the function's update."""
        return await self._running.ask(Actions(actions))

    def message(self, message: ReceivedMessage) -> None:
        """Add it to the events."""
        self._session.inbox.tell(message)

    async def end(self, actions: Mapping[str, Any]) -> Any:
        """Wait for the last update, and until the function returns."""
        self._session.ending = True
        update = await self._running.ask(Actions(actions, last=True), optional=True)
        await self._running.finish()
        return update

    async def lost(self) -> None:
        """Cancel the function."""
        if self._script is not None:
            await self._script.cancel()

    @property
    def _running(self) -> FunctionTask[EnvironmentEvent]:
        if self._script is None:
            raise RuntimeError("this environment has not started")
        return self._script
