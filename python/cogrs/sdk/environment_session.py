"""An environment's trial as a stream of events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from cogrs.sdk.environment import Environment, Update
from cogrs.sdk.function_task import EventQueue, FunctionComponent
from cogrs.sdk.hosted_component import component_name
from cogrs.sdk.trial import ReceivedMessage

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from cogrs.sdk.trial import Trial


@dataclass(frozen=True, slots=True)
class Actions:
    """The actors' actions, to be answered by an update.

    Attributes:
        values: The action of each actor but the observers, by its name, in the trial's order.
        last: Whether the trial ends: the update is then the last one, and may be left out. Actors
            that have not answered are left out of the values.
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
        self.events: EventQueue[EnvironmentEvent] = EventQueue()
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
        return await anext(self.events)

    async def update(self, update: Update) -> None:
        """Send the first observations, or the result of the latest actions.

        Raises:
            RuntimeError: All actions have been answered.
        """
        if not self.events.answer(update):
            raise RuntimeError("update: all actions have been answered already")
        if self.ending or (isinstance(update, Update) and update.final):
            self.events.close()


class SessionEnvironment(FunctionComponent[EnvironmentEvent], Environment):
    """An environment that is one async function over a session.

    The function begins with an update of the first observations.
    """

    async def start(self, trial: Trial) -> Any:
        """Start the function, and wait for the first observations."""
        self._session = EnvironmentSession(trial)
        self._start(component_name(trial.id), self._session.events, self._session)
        update = await self._running.ask()
        self.observers = self._session.observers
        return update

    async def step(self, actions: Mapping[str, Any]) -> Any:
        """Wait for the function's update."""
        return await self._running.ask(Actions(actions))

    def message(self, message: ReceivedMessage) -> None:
        """Add it to the events."""
        self._events.tell(message)

    async def end(self, actions: Mapping[str, Any]) -> Any:
        """Wait for the last update, and until the function returns."""
        self._session.ending = True
        update = await self._running.ask(Actions(actions, last=True), optional=True)
        await self._running.finish()
        return update
