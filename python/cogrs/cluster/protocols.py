"""What users write for a run: a learner, and a policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt


class Learner(Protocol):
    """A learner; `Plan.learner` creates it from the two spaces of an environment."""

    def update(self, batch: Any) -> npt.ArrayLike | None:
        """Learn from a batch.

        Args:
            batch: As of `ReplayMemoryServer.get_batch` with `ids` and `nstep`: an `NStepIdBatch`.

        Returns:
            The error of each row, finite and >= 0, (B,), which becomes its priority; None leaves
            priorities as they are.
        """
        ...

    def parameters(self) -> Mapping[str, npt.ArrayLike]:
        """Return the named arrays that policies are given."""
        ...

    def state(self) -> Mapping[str, npt.ArrayLike]:
        """Return named arrays that hold all of the learner: net, optimizer, random state."""
        ...

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> object:
        """Go on with the arrays of `state`, which are read-only."""
        ...


class Policy(Protocol):
    """A policy for all environments of an actor; `Plan.policy` creates it."""

    def load(self, parameters: Mapping[str, npt.NDArray[Any]]) -> object:
        """Take the newest parameters, which are read-only."""
        ...

    def act(self, observations: Any) -> Any:
        """Choose actions.

        Args:
            observations: Of all environments, (N, *observation); with `Plan.trials` of the k
                trials that wait, 1 <= k <= N.

        Returns:
            Actions (N, *action), or (k, *action); or a pair of these and a dict with `prob` or
            `value`, one per row, which are stored with the steps.
        """
        ...


_FIELDS: Final = ("prob", "value")


def answer_of(policy: Policy, observations: Any) -> tuple[Any, dict[str, Any]]:
    """Return the actions that a policy chooses, and what is stored with the steps.

    Raises:
        TypeError: The policy returned a tuple that is not a pair, or a field of another name.
    """
    chosen = policy.act(observations)
    if not isinstance(chosen, tuple):
        return chosen, {}
    if len(chosen) != 2 or not isinstance(chosen[1], dict):
        raise TypeError(
            "policy: act: expected actions, or a pair of actions and a dict with 'prob' or "
            f"'value'; got a tuple of {', '.join(type(each).__name__ for each in chosen)}"
        )
    for name in chosen[1]:
        if name not in _FIELDS:
            raise TypeError(f"policy: act: expected fields 'prob' or 'value', got {name!r}")
    return chosen


@dataclass(frozen=True, kw_only=True)
class PolicyContext:
    """What a policy is created for.

    Attributes:
        observation_space: Of one environment.
        action_space: Likewise.
        index: The actor's number, from 0.
        actors: Actors that the run has now; an index can be larger after the run was scaled down.
        num_envs: Environments N of the actor, or trials that run at once.
        seed: Of this actor alone; None if the plan has no seed.
    """

    observation_space: Any
    action_space: Any
    index: int
    actors: int
    num_envs: int
    seed: int | None
