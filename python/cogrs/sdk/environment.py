"""An environment: the interface that a user implements."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from cogrs.sdk.trial import Message, ReceivedMessage, Reward, Trial
    from cogrs.space_json import ActorSpaces


@dataclass(slots=True)
class Update:
    """The result of an environment's start, of a step or of the end.

    Attributes:
        observations: A mapping from each actor's name to its observation, or one value, which is
            not a mapping, for all actors. With `ArrayCodec` a value is an array or array-like of
            numbers or booleans of any dtype and shape; or, in a mapping of all actors, a mapping
            from names to such arrays.
        rewards: A mapping from actors' names to numbers, or `Reward` objects. They arrive with
            these observations.
        messages: User data for actors.
        final: The trial is over with this update.
        terminated: The state is terminal, which codecs may carry to the actors. Or a mapping from
            names of actors: for those it is over, while the trial may go on for others.
        truncated: Whether the episode was truncated here; in the same forms.
    """

    observations: Any
    rewards: Mapping[str, float] | Sequence[Reward] = ()
    messages: Sequence[Message] = field(default_factory=tuple)
    final: bool = False
    terminated: bool | Mapping[str, bool] = False
    truncated: bool | Mapping[str, bool] = False


class Environment:
    """One environment in one trial. Override what is needed; each method may be plain, or `async`.

    No method is called while another one of the same environment is awaited. Plain methods run on
    a thread that the environment has to itself, on which it is created too: it may be bound to that
    thread, and take its time. Async methods run on the event loop, where long work without an await
    blocks all trials of the process. An exception ends this trial and no other.
    """

    inline = False
    """Whether plain methods are quick: then they run on the event loop, which saves a change of
    threads per step, and block all trials of the process meanwhile. A class that is given to
    `serve` as it is, is created there too; another factory only if it has an `inline` itself."""

    observers: Collection[str] = ()
    """Actors that watch and do not act: names, "class.*" for those of a class, or "*". Their
    answers are left out of `actions`. `start` may set it. The orchestrator's option `observer` of
    an actor keeps ticks from waiting for it."""

    spaces: Mapping[str, ActorSpaces] = MappingProxyType({})
    """Gymnasium spaces of actors by name, which data logs keep with the trial: see
    `LoggedTrial.spaces`. `start` may set it. Only Gymnasium's own kinds of spaces can be kept."""
    action_hints: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
    """What pages for people show of the actions of actors, by name: `title` of the game, `names` of
    a Discrete's actions in order, and `keys`, pairs of a list of keys and an action, as those of
    Gymnasium's `get_keys_to_action`. `start` may set it."""

    def start(self, trial: Trial) -> Any:
        """Start an episode.

        Returns:
            The `Update` of tick 0, before any action: it has observations, and may have messages.
        """
        raise NotImplementedError(f"{type(self).__name__}.start")

    def step(self, actions: Mapping[str, Any]) -> Any:
        """Carry out the actors' actions.

        Args:
            actions: The action of each actor but the observers, by its name, in the trial's order.

        Returns:
            An `Update`.
        """
        raise NotImplementedError(f"{type(self).__name__}.step")

    def message(self, message: ReceivedMessage) -> Any:
        """Take user data of an actor, before the actions that it was sent with."""

    def end(self, actions: Mapping[str, Any]) -> Any:
        """End the episode, as a controller, `max_steps` or a lost actor demands.

        Args:
            actions: The last actions, without those of actors that have not answered, or answered
                with no bytes.

        Returns:
            The last `Update`, final or not. Its observations are stored as those that the last
            actions led to: step with them, if all actors have answered. If not, return None, and
            actors get no last observation, or return the last observations again.
        """

    def lost(self) -> Any:
        """Clean up: the orchestrator is gone, the server stops, or another method failed.

        Called at most once, and not after a final update or an `end` that goes well.
        """
