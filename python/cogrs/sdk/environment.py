"""An environment: the interface that a user implements."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from cogrs.sdk.trial import Message, ReceivedMessage, Reward, Trial


@dataclass(slots=True)
class Update:
    """What an environment tells after its start, a step or the end.

    Attributes:
        observations: A mapping from each actor's name to what it observes, or one value, which is
            no mapping, for all actors. With `ArrayCodec` a value is an array of numbers or
            booleans of any dtype and shape, or what NumPy makes one of; or, in a mapping of all
            actors, a mapping from names to such arrays.
        rewards: A mapping from actors' names to numbers, or `Reward` objects. They arrive with
            these observations.
        messages: User data for actors.
        final: The trial is over with this update.
        terminated: The state is terminal; told to actors by codecs that carry it. Or a mapping from
            names of actors: for those it is over, while the trial may go on for others.
        truncated: The episode was cut short here; likewise.
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
    a thread that the environment has to itself: whatever makes it is called there, too, so it may
    be bound to its thread, and it may take its time. Async methods run on the event loop, where
    what takes long, and does not await, blocks all trials of the process. An exception ends the
    trial, and no other.
    """

    inline = False
    """Whether plain methods are quick: they run on the event loop then, which saves a change of
    threads at each step, and block all trials of the process meanwhile. A class that is given to
    `serve` as it is, is made there, too; another function only if it has an `inline` of its own."""

    observers: Collection[str] = ()
    """Actors that watch and do not act: names, "class.*" for those of a class, or "*". Their
    answers are left out of `actions`; may be set by `start`. What orchestrators need not wait for
    is the option `observer` of an actor there."""

    def start(self, trial: Trial) -> Any:
        """Begin.

        Returns:
            The `Update` of tick 0. Nobody has acted, so it has observations and nothing else.
        """
        raise NotImplementedError(f"{type(self).__name__}.start")

    def step(self, actions: Mapping[str, Any]) -> Any:
        """Do what the actors decided.

        Args:
            actions: The action of each actor but the observers, by its name, in the trial's order.

        Returns:
            An `Update`.
        """
        raise NotImplementedError(f"{type(self).__name__}.step")

    def message(self, message: ReceivedMessage) -> Any:
        """Take what an actor sent; it comes before the actions that it was sent with."""

    def end(self, actions: Mapping[str, Any]) -> Any:
        """End because somebody else wants to: a controller, `max_steps`, an actor that is lost.

        Args:
            actions: What actors decided last. Whoever has not decided is left out; so is an action
                of no bytes, which cannot be told from none.

        Returns:
            The last `Update`, final or not. Its observations are stored as what the last actions
            led to: those of a step with them, if all actors have decided. If not, None, and actors
            get no last observation, or the last observations again.
        """

    def lost(self) -> Any:
        """Give up: the trial is over, without an end that went well or a final update.

        Called once if the orchestrator is gone, the server stops, or another method failed.
        """
