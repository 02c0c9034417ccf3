"""The environments of a plan, and a memory for their spaces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cogrs.collector import VectorEnv
from cogrs.replay import ReplayMemory

if TYPE_CHECKING:
    from cogrs.cluster.plan import Plan


def environments_of(plan: Plan, num_envs: int, seed: int | None = None) -> Any:
    """Return environments of a plan; errors as of `cogrs.VectorEnv`."""
    return VectorEnv(plan.make_env, num_envs, seed=seed, **plan.env_options)


def spaces_of(plan: Plan) -> tuple[Any, Any]:
    """Return the spaces of observations and actions of one environment."""
    envs = environments_of(plan, 1)
    try:
        return envs.single_observation_space, envs.single_action_space
    finally:
        envs.close()


def memory_of(plan: Plan, capacity: int = 1) -> ReplayMemory:
    """Return a memory with the templates and settings of a plan.

    Raises:
        TypeError, ValueError: `settings` do not fit.
    """
    try:
        return ReplayMemory.from_spaces(*spaces_of(plan), capacity, **plan.settings)
    except (TypeError, ValueError) as error:
        raise type(error)(f"settings: {error}") from error
