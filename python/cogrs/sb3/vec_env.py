"""`VecEnv`: a vector environment of Gymnasium as one of Stable-Baselines3."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from stable_baselines3.common import env_util
from stable_baselines3.common.vec_env import VecEnv as _VecEnv

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt
    from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices

_FINAL = ("final_obs", "final_info")
"""Keys of infos that Gymnasium's vector environments with a same-step reset add."""


class VecEnv(_VecEnv):
    """Shows a `cogrs.VectorEnv` as a vector environment of Stable-Baselines3.

    ::

        envs = cogrs.sb3.VecEnv(cogrs.VectorEnv("cartpole", num_envs=64))
        PPO("MlpPolicy", VecMonitor(envs)).learn(100_000)

    Episodes begin in the step that ends the one before. That step's info has
    "terminal_observation", and in each info "TimeLimit.truncated" says whether the episode was
    truncated and has not terminated. Methods are for one thread at a time.

    Args:
        envs: A `cogrs.VectorEnv` of any autoreset mode, closed with this; or another of Gymnasium's
            vector environments, if its `reset` takes a `reset_mask` or its mode is SAME_STEP.

    Raises:
        TypeError: `envs` is not a vector environment of Gymnasium.
        ValueError: Its metadata have no known autoreset mode.
    """

    metadata: dict[str, Any]

    def __init__(self, envs: gymnasium.vector.VectorEnv[Any, Any, Any]) -> None:
        if not isinstance(envs, gymnasium.vector.VectorEnv):
            got = type(envs).__name__
            raise TypeError(f"envs: expected a cogrs.VectorEnv, got {got}")
        mode = (envs.metadata or {}).get("autoreset_mode")
        try:
            self._mode = AutoresetMode(getattr(mode, "value", mode))
        except ValueError:
            modes = ", ".join(mode.name for mode in AutoresetMode)
            expected = f"metadata with an autoreset_mode of {modes}"
            raise ValueError(f"envs: expected {expected}, got {mode!r}") from None
        self.envs = envs
        """The vector environment."""
        self._actions: Any = None
        self._step_infos: list[dict[str, Any]] = []
        super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)
        self.metadata = {**dict(envs.metadata), "render_modes": self.metadata["render_modes"]}

    def reset(self) -> Any:
        """Start an episode in each environment, with the seeds and options set before.

        Returns:
            Observations; their infos are in `reset_infos`.
        """
        seeds, options = self._seeds, self._options
        given: Any = None if all(seed is None for seed in seeds) else list(seeds)
        alike = all(each == options[0] for each in options)
        # Without options of their own, since a first reset is one of all.
        shown, infos = self.envs.reset(seed=given, options=(options[0] or None) if alike else None)
        self.reset_infos = self._listed(infos)
        for env in range(0 if alike else self.num_envs):
            mask = np.arange(self.num_envs) == env
            shown, infos = self.envs.reset(seed=given, options={**options[env], "reset_mask": mask})
            self.reset_infos[env] = self._listed(infos)[env]
        self._reset_seeds()
        self._reset_options()
        return shown

    def step_async(self, actions: npt.NDArray[Any]) -> None:
        """Take actions, with which `step_wait` moves the environments."""
        self._actions = actions

    def step_wait(self) -> Any:
        """Move each environment.

        Returns:
            Observations, those of a new episode where one ended; rewards (float32), whether
            episodes ended (bool), infos.
        """
        shown, rewards, terminated, truncated, infos = self.envs.step(self._actions)
        done = np.logical_or(terminated, truncated)
        listed = self._listed(infos)
        for info, cut in zip(listed, (truncated & ~terminated).tolist(), strict=True):
            info["TimeLimit.truncated"] = cut
        if done.any():
            over = np.flatnonzero(done).tolist()
            if self._mode is AutoresetMode.SAME_STEP:
                final = infos["final_obs"]
                final_infos = self._listed(infos.get("final_info", {}))
                for env in over:
                    self.reset_infos[env] = listed[env]
                    cut = self.reset_infos[env].pop("TimeLimit.truncated")
                    listed[env] = {**final_infos[env], "TimeLimit.truncated": cut}
                    listed[env]["terminal_observation"] = final[env]
            else:
                for env in over:
                    listed[env]["terminal_observation"] = _row(shown, env)
                shown, begun = self.envs.reset(options={"reset_mask": done})
                begun_infos = self._listed(begun)
                for env in over:
                    self.reset_infos[env] = begun_infos[env]
        return shown, rewards.astype(np.float32), done, listed

    def close(self) -> None:
        """Close the environments."""
        self.envs.close()

    def get_images(self) -> Sequence[npt.NDArray[Any] | None]:
        """Return the frame of each environment, None where `render_mode` is not "rgb_array"."""
        if self.render_mode != "rgb_array":
            warnings.warn(
                f"render_mode: expected 'rgb_array', got {self.render_mode!r}: there are no images",
                stacklevel=2,
            )
            return [None] * self.num_envs
        frames: Any = self.envs.render()
        return list(frames)

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Return an attribute of environments; `AttributeError` where one has no such attribute.

        Of environments in other processes a method is called, without arguments.
        """
        values = self._call(attr_name)
        return [values[env] for env in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Set an attribute of environments; `AttributeError` for built-in games."""
        numbers = list(self._get_indices(indices))
        every = numbers == list(range(self.num_envs))
        members = self._members()
        if members and not (every and hasattr(self.envs, "set_attr")):
            for env in numbers:
                members[env].set_wrapper_attr(attr_name, value)
        elif hasattr(self.envs, "set_attr"):
            old: Any = [value] * self.num_envs if every else self._call(attr_name)
            values = [value if env in numbers else old[env] for env in range(self.num_envs)]
            self.envs.set_attr(attr_name, values)
        else:
            raise AttributeError(f"{attr_name}: these environments have no attributes to set")

    def env_method(
        self,
        method_name: str,
        *method_args: Any,
        indices: VecEnvIndices = None,
        **method_kwargs: Any,
    ) -> list[Any]:
        """Call a method of environments; `AttributeError` where one has no such method.

        Methods of some environments only, in other processes, are a `ValueError`.
        """
        numbers = list(self._get_indices(indices))
        members = self._members()
        # By the vector, which knows the thread or process of each environment, where it can.
        if numbers == list(range(self.num_envs)) and hasattr(self.envs, "call"):
            return list(self.envs.call(method_name, *method_args, **method_kwargs))
        if members:
            methods = [members[env].get_wrapper_attr(method_name) for env in numbers]
            return [method(*method_args, **method_kwargs) for method in methods]
        if hasattr(self.envs, "call"):
            expected = "all environments, where they are not in this process"
            raise ValueError(f"indices: expected {expected}, got {numbers}")
        raise AttributeError(f"{method_name}: these environments have no methods")

    def env_is_wrapped(
        self,
        wrapper_class: type[gymnasium.Wrapper[Any, Any, Any, Any]],
        indices: VecEnvIndices = None,
    ) -> list[bool]:
        """Return whether environments are wrapped so; False for those of another process."""
        numbers = self._get_indices(indices)
        members = self._members()
        return [
            bool(members) and env_util.is_wrapped(members[env], wrapper_class) for env in numbers
        ]

    def _members(self) -> list[Any]:
        """The environments that are in this process."""
        envs: Any = self.envs
        members = list(getattr(envs, "envs", []))
        if None in members:
            # Calls replace environments that failed.
            envs.get_attr("observation_space")
            members = list(envs.envs)
        return members

    def _call(self, name: str) -> Sequence[Any]:
        members = self._members()
        # Vectors call what can be called, and `has_attr` asks for methods too.
        if members:
            return [env.get_wrapper_attr(name) for env in members]
        if hasattr(self.envs, "get_attr"):
            return tuple(self.envs.get_attr(name))
        # Such environments have what their vector has.
        if name.startswith("_") or not hasattr(self.envs, name):
            raise AttributeError(f"these environments have no attribute {name!r}")
        return [getattr(self.envs, name)] * self.num_envs

    def _listed(self, infos: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return infos of a vector environment as a dict for each environment."""
        listed: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for key, values in infos.items():
            # An array of which environments have the key stands beside it.
            if key in _FINAL or (key.startswith("_") and key[1:] in infos):
                continue
            present = infos.get(f"_{key}", np.ones(self.num_envs, np.bool_))
            parts = self._listed(values) if isinstance(values, dict) else values
            for env in np.flatnonzero(present).tolist():
                listed[env][key] = parts[env]
        return listed


def _row(shown: Any, env: int) -> Any:
    """Return a copy of one environment's observation."""
    if isinstance(shown, dict):
        return {key: _row(part, env) for key, part in shown.items()}
    if isinstance(shown, tuple):
        return tuple(_row(part, env) for part in shown)
    return np.array(shown[env])
