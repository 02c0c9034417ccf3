"""An agent: the interface that a user implements."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cogrs.hung_calls import qualified_name
from cogrs.sdk.trial import NO_VALUE
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


@dataclass(frozen=True, slots=True)
class Action:
    """An actor's action, and the rewards and messages that it sends with it.

    Attributes:
        value: The action itself. With `ArrayCodec` an array of numbers or booleans of any dtype
            and shape, or a value that NumPy converts to one. Observers leave it out.
        rewards: Rewards for actors; they arrive with the next observation.
        messages: User data for actors, or the environment.
    """

    value: Any = NO_VALUE
    rewards: Sequence[Reward] = field(default_factory=tuple)
    messages: Sequence[Message] = field(default_factory=tuple)


def as_action(
    value: Any, rewards: Sequence[Reward] = (), messages: Sequence[Message] = ()
) -> Action:
    """Return an `Action` from a plain value or an `Action`, with more rewards and messages."""
    if not isinstance(value, Action):
        return Action(value, rewards, messages)
    if not (rewards or messages):
        return value
    return Action(value.value, [*value.rewards, *rewards], [*value.messages, *messages])


class Agent:
    """One actor in one trial. Override what is needed; each method may be plain, or `async`.

    No method is called while another one of the same agent is awaited; but when the trial ends,
    an `act` that is awaited is cancelled, since its action is not needed any more. Plain methods
    run on a thread that the agent has to itself, and may take their time; one that has begun is not
    interrupted. Async methods run on the event loop, where long work without an await blocks all
    trials of the process. An exception of `start` or `act` ends this trial and no other; one of
    `reward`, `message` or `end` is logged, here and by the orchestrator.
    """

    inline = False
    """Whether plain methods are quick and run on the event loop; see `Environment.inline`."""

    def start(self, trial: Trial) -> Any:
        """Start an episode."""

    def act(self, observation: Observation) -> Any:
        """Return the action: a plain value, or an `Action`."""
        raise NotImplementedError(f"{type(self).__name__}.act")

    def reward(self, reward: ReceivedReward) -> Any:
        """Take a reward, before the observation that it arrived with.

        Rewards of the last tick are in the `Final` that `end` is given instead.
        """

    def message(self, message: ReceivedMessage) -> Any:
        """Take user data, before the observation that it arrived with.

        Messages of the last tick are in the `Final` that `end` is given instead.
        """

    def end(self, final: Final) -> Any:
        """Take the final data of the trial; only `late_reward` may be called after it."""

    def late_reward(self, reward: ReceivedReward) -> bool:
        """Take a reward that came after the end of the trial; return whether it was taken.

        Quick and plain: it is called on the event loop. An agent whose class has this method is
        kept for a while after its end; see `cogrs.limits.LATE_AGENTS`.
        """
        del reward
        return False

    def lost(self) -> Any:
        """Clean up: the orchestrator is gone, the server stops, or `start`, `act` or `end` failed.

        Called at most once, and instead of an `end` that goes well.
        """


class FunctionAgent(Agent):
    """An agent that is one function from an observation to an action."""

    def __init__(self, function: Callable[[Observation], Any], *, inline: bool = False) -> None:
        """Act by a function, plain or async, which returns a plain value or an `Action`.

        Args:
            function: Called with each `Observation`.
            inline: Whether it is plain and quick; see `Agent.inline`.

        Raises:
            TypeError: `inline` is not a bool.
        """
        check_kind("inline", inline, bool, "True or False")
        self._function = function
        if inline or inspect.iscoroutinefunction(function):
            # An async function has to run on the loop, and a plain method calls it.
            self.inline = True
        self.function_name = qualified_name(function)

    def act(self, observation: Observation) -> Any:
        """Return what the function returns."""
        return self._function(observation)
