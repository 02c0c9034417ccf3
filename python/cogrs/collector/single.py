"""A built-in game as one environment of Gymnasium, for `gymnasium.make`."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from cogrs.collector.vector import VectorEnv

_NO_LIMIT = 2**63 - 1


class SingleEnv(gymnasium.Env[Any, Any]):
    """The environment of `gymnasium.make("cogrs/CartPole-v1")`; its limit is a TimeLimit around it.

    For speed use `gymnasium.make_vec`, which creates a `VectorEnv`. A step after the end of an
    episode begins the next one.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(self, env: str, **options: Any) -> None:
        self._vector = VectorEnv(env, num_envs=1, max_episode_steps=_NO_LIMIT, **options)
        self.observation_space = self._vector.single_observation_space
        self.action_space = self._vector.single_action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode; see `VectorEnv.reset`."""
        super().reset(seed=seed)
        shown, infos = self._vector.reset(seed=seed, options=options)
        return _first(shown), infos

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take an action; see `VectorEnv.step`."""
        shown, rewards, terminated, truncated, infos = self._vector.step(np.asarray(action)[None])
        return _first(shown), float(rewards[0]), bool(terminated[0]), bool(truncated[0]), infos

    def close(self) -> None:
        """End the game."""
        self._vector.close()


def _first(shown: Any) -> Any:
    # The dots make an array of a scalar.
    if isinstance(shown, dict):
        return {key: part[0, ...] for key, part in shown.items()}
    return shown[0, ...]
