"""An actor's trial as a stream of events, for agents and for clients alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from cogrs.sdk.agent import Agent, as_action
from cogrs.sdk.function_task import EventQueue, FunctionTask
from cogrs.sdk.hosted_component import component_name
from cogrs.sdk.trial import Final, Observation, ReceivedMessage, ReceivedReward
from cogrs.unfinished import qualified_name

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from cogrs.sdk.trial import Message, Reward, Trial

ActorEvent: TypeAlias = Observation | ReceivedReward | ReceivedMessage | Final
"""An event of an actor. `Final` comes last, with the rewards and messages of the end."""


class ActorSession(ABC):
    """An actor's part in a trial: an asynchronous iterator of `ActorEvent`, and its actions.

    Rewards and messages come before the observation that they arrived with; after `Final` the
    iteration is over.

    Attributes:
        trial: The trial, with the actor's name.
    """

    trial: Trial

    def __aiter__(self) -> Self:
        """Return the events."""
        return self

    @abstractmethod
    async def __anext__(self) -> ActorEvent:
        """Return the next event."""

    @abstractmethod
    async def act(
        self, value: Any, *, rewards: Sequence[Reward] = (), messages: Sequence[Message] = ()
    ) -> None:
        """Answer the latest observation, unless the trial has ended meanwhile.

        Args:
            value: The action, as the codec carries it, or an `Action`.
            rewards: Rewards for actors.
            messages: User data for actors, or the environment.

        Raises:
            RuntimeError: Every observation has been answered.
            TypeError: The codec does not carry the value.
        """

    @abstractmethod
    async def send_reward(self, reward: Reward) -> None:
        """Reward actors: a client at once, an agent with its next action."""

    @abstractmethod
    async def send_message(self, message: Message) -> None:
        """Send user data to actors or the environment, at the times of `send_reward`."""


class AgentSession(ActorSession):
    """The session of an agent that is served."""

    def __init__(self, trial: Trial) -> None:
        """Create a session without events."""
        self.trial = trial
        self.inbox: EventQueue[ActorEvent] = EventQueue()
        self._rewards: list[Reward] = []
        self._messages: list[Message] = []

    async def __anext__(self) -> ActorEvent:
        """Return the next event."""
        return await anext(self.inbox)

    async def act(
        self, value: Any, *, rewards: Sequence[Reward] = (), messages: Sequence[Message] = ()
    ) -> None:
        """Answer the latest observation."""
        action = as_action(value, [*self._rewards, *rewards], [*self._messages, *messages])
        if self.inbox.answer(action):
            self._rewards, self._messages = [], []
        elif not self.inbox.over:
            raise RuntimeError("action: every observation has been answered already")

    async def send_reward(self, reward: Reward) -> None:
        """Reward actors with the next action."""
        self._rewards.append(reward)

    async def send_message(self, message: Message) -> None:
        """Send user data with the next action."""
        self._messages.append(message)


class SessionAgent(Agent):
    """An agent that is one async function over a session."""

    inline = True

    def __init__(self, function: Callable[[ActorSession], Coroutine[Any, Any, Any]]) -> None:
        """Play by this function, which returns after `Final`, or is cancelled without one."""
        self._function = function
        self.function_name = qualified_name(function)
        self._script: FunctionTask[ActorEvent] | None = None

    def start(self, trial: Trial) -> None:
        """Start the function."""
        self._session = AgentSession(trial)
        self._script = FunctionTask(
            component_name(trial.id, trial.name),
            self._session.inbox,
            lambda: self._function(self._session),
        )

    async def act(self, observation: Observation) -> Any:
        """Wait for the function's action."""
        return await self._running.ask(observation)

    def reward(self, reward: ReceivedReward) -> None:
        """Add it to the events."""
        self._session.inbox.tell(reward)

    def message(self, message: ReceivedMessage) -> None:
        """Add it to the events."""
        self._session.inbox.tell(message)

    async def end(self, final: Final) -> None:
        """Add the last event, and wait until the function returns."""
        self._session.inbox.tell(final)
        await self._running.finish()

    async def lost(self) -> None:
        """Cancel the function."""
        if self._script is not None:
            await self._script.cancel()

    @property
    def _running(self) -> FunctionTask[ActorEvent]:
        if self._script is None:
            raise RuntimeError("this agent has not started")
        return self._script
