"""An actor's trial as a stream of events, for agents and for clients alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from cogrs.sdk.agent import Agent, as_action
from cogrs.sdk.function_task import EventQueue, FunctionComponent
from cogrs.sdk.hosted_component import component_name
from cogrs.sdk.trial import Final, Observation, ReceivedMessage, ReceivedReward

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        """Reward actors: a client at once, an agent with its next action.

        If the trial has ended meanwhile the reward is dropped, with a warning in the log, and the
        next event is `Final`.
        """

    @abstractmethod
    async def send_message(self, message: Message) -> None:
        """Send user data to actors or the environment, at the times of `send_reward`."""


class AgentSession(ActorSession):
    """The session of an agent that is served."""

    def __init__(self, trial: Trial) -> None:
        """Create a session without events."""
        self.trial = trial
        self.events: EventQueue[ActorEvent] = EventQueue()
        self._rewards: list[Reward] = []
        self._messages: list[Message] = []

    async def __anext__(self) -> ActorEvent:
        """Return the next event."""
        return await anext(self.events)

    async def act(
        self, value: Any, *, rewards: Sequence[Reward] = (), messages: Sequence[Message] = ()
    ) -> None:
        """Answer the latest observation."""
        action = as_action(value, [*self._rewards, *rewards], [*self._messages, *messages])
        if self.events.answer(action):
            self._rewards, self._messages = [], []
        elif not self.events.over:
            raise RuntimeError("action: every observation has been answered already")

    async def send_reward(self, reward: Reward) -> None:
        """Reward actors with the next action."""
        self._rewards.append(reward)

    async def send_message(self, message: Message) -> None:
        """Send user data with the next action."""
        self._messages.append(message)


class SessionAgent(FunctionComponent[ActorEvent], Agent):
    """An agent that is one async function over a session.

    It returns after `Final`, or is cancelled without one.
    """

    def start(self, trial: Trial) -> None:
        """Start the function."""
        session = AgentSession(trial)
        self._start(component_name(trial.id, trial.name), session.events, session)

    async def act(self, observation: Observation) -> Any:
        """Wait for the function's action."""
        return await self._running.ask(observation)

    def reward(self, reward: ReceivedReward) -> None:
        """Add it to the events."""
        self._events.tell(reward)

    def message(self, message: ReceivedMessage) -> None:
        """Add it to the events."""
        self._events.tell(message)

    async def end(self, final: Final) -> None:
        """Add the last event, and wait until the function returns."""
        self._events.tell(final)
        await self._running.finish()
