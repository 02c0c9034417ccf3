"""The environments of a plan, and a memory for their spaces."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from cogrs.cluster.import_path import imported, is_import_path
from cogrs.collector import VectorEnv
from cogrs.game_ids import BUILT_IN_GAMES
from cogrs.optional_dependency import import_optional
from cogrs.replay import ReplayMemory

if TYPE_CHECKING:
    from collections.abc import Callable

    from cogrs.cluster.plan import Plan


def environments_of(plan: Plan, num_envs: int, seed: int | None = None) -> Any:
    """Return environments of a plan; errors as of `cogrs.VectorEnv`."""
    return VectorEnv(plan.make_env, num_envs, seed=seed, **plan.env_options)


def make_single(plan: Plan) -> Callable[[], Any]:
    """Return a function that creates one environment of Gymnasium, for a plan with trials.

    Raises:
        ImportError: Gymnasium or the plan's function cannot be imported.
    """
    given = plan.make_env
    if not isinstance(given, str) or is_import_path(given):
        return partial(imported("make_env", given), **plan.env_options)
    gymnasium = import_optional("gymnasium", "actors with trials need it", "gymnasium")
    if given in BUILT_IN_GAMES:
        given = f"cogrs/{BUILT_IN_GAMES[given][0]}"
    return partial(gymnasium.make, given, **plan.env_options)


def spaces_of(plan: Plan) -> tuple[Any, Any]:
    """Return the spaces of observations and actions of one environment."""
    if plan.trials:
        env = make_single(plan)()
        try:
            return env.observation_space, env.action_space
        finally:
            env.close()
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
