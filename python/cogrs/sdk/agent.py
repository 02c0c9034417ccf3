"""An agent: the interface that a user implements."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from cogrs.hung_calls import qualified_name
from cogrs.validation import check_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cogrs.sdk.trial import (
        Final,
        Message,
        Observation,
        ReceivedMessage,
        ReceivedReward,
        Reward,
        Trial,
    )


class NoValue(Enum):
    """What stands where an action has no value."""

    NO_VALUE = 0


NO_VALUE = NoValue.NO_VALUE


@dataclass(frozen=True, slots=True)
class Action:
    """What an actor does, with what it tells others at the same time.

    Attributes:
        value: The action itself. With `ArrayCodec` an array of numbers or booleans of any dtype
            and shape, or what NumPy makes one of. Observers leave it out.
        rewards: Rewards for actors; they arrive with the next observation.
        messages: User data for actors, or the environment.
    """

    value: Any = NO_VALUE
    rewards: Sequence[Reward] = field(default_factory=tuple)
    messages: Sequence[Message] = field(default_factory=tuple)


def as_action(
    value: Any, rewards: Sequence[Reward] = (), messages: Sequence[Message] = ()
) -> Action:
    """Return the `Action` of a plain value, or of an `Action`, with more rewards and messages."""
    if not isinstance(value, Action):
        return Action(value, rewards, messages)
    if not (rewards or messages):
        return value
    return Action(value.value, [*value.rewards, *rewards], [*value.messages, *messages])


class Agent:
    """One actor in one trial. Override what is needed; each method may be plain, or `async`.

    No method is called while another one of the same agent is awaited; but when the trial ends,
    an `act` that is awaited is cancelled, for nobody waits for its action any more. Plain methods
    run on a thread that the agent has to itself, and may take their time; one that has begun is not
    interrupted. Async methods run on the event loop, where what takes long, and does not
    await, blocks all trials of the process. An exception of `start` or `act` ends the trial, and
    no other; one of `reward`, `message` or `end` is logged, here and by the orchestrator.
    """

    inline = False
    """Whether plain methods are quick: they run on the event loop then. See `Environment.inline`,
    which is the same."""

    def start(self, trial: Trial) -> Any:
        """Begin."""

    def act(self, observation: Observation) -> Any:
        """Return what to do: a value, or an `Action`."""
        raise NotImplementedError(f"{type(self).__name__}.act")

    def reward(self, reward: ReceivedReward) -> Any:
        """Take a reward. It comes before the observation that it arrived with.

        Rewards of the last tick do not come here, but lie in the `Final` that `end` is given.
        """

    def message(self, message: ReceivedMessage) -> Any:
        """Take user data. It comes before the observation that it arrived with.

        Messages of the last tick do not come here, but lie in the `Final` that `end` is given.
        """

    def end(self, final: Final) -> Any:
        """Take what happened last; nothing comes after it."""

    def lost(self) -> Any:
        """Give up: the trial is over, without an end that went well.

        Called once if the orchestrator is gone, the server stops, or `start`, `act` or `end`
        failed.
        """


class FunctionAgent(Agent):
    """An agent that is one function of what is observed."""

    def __init__(self, function: Callable[[Observation], Any], *, inline: bool = False) -> None:
        """Act by this function, plain or async; it returns a value, or an `Action`.

        Args:
            function: What acts.
            inline: Whether it is plain and quick, as of `Agent.inline`.

        Raises:
            TypeError: `inline` is no bool.
        """
        check_kind("inline", inline, bool, "True or False")
        self._function = function
        if inline or inspect.iscoroutinefunction(function):
            # An async function belongs onto the loop, and this class calls it by a plain method.
            self.inline = True
        self.function_name = qualified_name(function)

    def act(self, observation: Observation) -> Any:
        """Call it."""
        return self._function(observation)
