"""`ReplayBuffer`: a `cogrs.ReplayMemory` in the place of the replay buffer of Stable-Baselines3."""

from __future__ import annotations

import os
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import BaseBuffer
from stable_baselines3.common.buffers import ReplayBuffer as _ReplayBuffer
from stable_baselines3.common.preprocessing import check_for_nested_spaces
from stable_baselines3.common.type_aliases import DictReplayBufferSamples, ReplayBufferSamples

from cogrs._core import ReplayMemory, TransitionWriter
from cogrs.sb3.held_steps import HeldSteps, held_steps, mapped, placed
from cogrs.sb3.layout import Layout
from cogrs.shown import shown
from cogrs.validation import check_flag, check_integer, check_number

if TYPE_CHECKING:
    import numpy.typing as npt
    from stable_baselines3.common.vec_env import VecNormalize

_SAMPLERS: dict[str, dict[str, Any]] = {
    "uniform": {"sampler": "uniform"},
    "prioritized": {"sampler": "prioritized", "new_priority": "max"},
}
"""Settings of the memory by sampler."""

_SLOTS_AHEAD = 64
"""Slots that a `TransitionWriter` keeps free for each environment, at most."""

_NOT_SAVED = ("memory", "_writer", "_layout")
"""Attributes that are made again from a checkpoint."""


class PrioritizedSamples(NamedTuple):
    """What `ReplayBuffer.sample` returns with sampler "prioritized".

    The first six are those of `ReplayBufferSamples`.

    Fields:
        weights: Importance weights (B, 1), the largest of the batch is 1.
        ids: uint64 (B,), for `ReplayBuffer.update_priorities`.
    """

    observations: Any
    actions: torch.Tensor
    next_observations: Any
    dones: torch.Tensor
    rewards: torch.Tensor
    discounts: torch.Tensor
    weights: torch.Tensor
    ids: npt.NDArray[np.uint64]


class ReplayBuffer(_ReplayBuffer):
    """Takes the place of the replay buffers of Stable-Baselines3, and of CleanRL.

    ::

        DQN("MlpPolicy", env, replay_buffer_class=cogrs.sb3.ReplayBuffer,
            replay_buffer_kwargs=dict(n_step=3, gamma=0.99))

    Each observation is stored once. A step can be drawn as soon as it was added. Where `obs` is not
    the last `next_obs` of its environment, that one is kept as the last observation of its episode,
    and another episode begins. Of each environment a full buffer holds at least the newest half of
    `buffer_size // n_envs` steps, and mostly all of these; older ones are dropped with their
    episode, or with their piece of a long one.

    Samples are `ReplayBufferSamples`, or `DictReplayBufferSamples` where observations are a dict,
    on `device`, and the caller's to keep. `discounts` (B, 1) is gamma ** n of each row, by which
    the algorithms of Stable-Baselines3 multiply the value of `next_observations`.

    `observations`, `next_observations`, `actions`, `rewards`, `dones` and `timeouts` are copies of
    what is held, each as of the buffer of Stable-Baselines3: (buffer_size // n_envs, n_envs, ...),
    step t at `t % (buffer_size // n_envs)`, zeros where that holds nothing.

    Args:
        buffer_size: Steps held at most, of all environments together, >= 1.
        observation_space: Box, Discrete, MultiDiscrete, MultiBinary, or a Dict of them.
        action_space: One of these but Dict.
        device: Where samples are.
        n_envs: Environments, >= 1.
        optimize_memory_usage: Where observations are images (C, H, W) and stacks of frames that
            overlap, store each frame once. It works with `handle_timeout_termination`, too.
        handle_timeout_termination: Whether an episode with "TimeLimit.truncated" in its last info
            is one that did not terminate.
        n_step: Steps from `observations` to `next_observations`, >= 1; fewer where an episode ends.
            `rewards` is their discounted sum (Sutton and Barto, section 7.1).
        n_steps: The name that Stable-Baselines3 has for `n_step`; give one of them.
        gamma: Discount, >= 0. Give it the algorithm's.
        sampler: "uniform", with replacement, or "prioritized" (Schaul et al. 2016).
        alpha: Exponent of priorities, of sampler "prioritized", >= 0.
        priority_epsilon: Number added to each error before that, >= 0.
        seed: Makes samples reproducible, 0 <= seed < 2**63. None takes the seed from the state of
            NumPy's global generator, which an algorithm's `seed` sets, without drawing from it.

    Attributes:
        beta: Exponent of importance weights with sampler "prioritized", 0.4 at first.
        memory: The `cogrs.ReplayMemory`. None before the first `add`.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is out of range.
        NotImplementedError: Stable-Baselines3 has no buffers for a space.
        MemoryError: The system refuses to reserve the memory. If it is only more than is available,
            this is a warning, as of Stable-Baselines3.
    """

    pos: int

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        device: torch.device | str = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
        *,
        n_step: int = 1,
        n_steps: int | None = None,
        gamma: float = 0.99,
        sampler: str = "uniform",
        alpha: float = 0.6,
        priority_epsilon: float = 1e-6,
        seed: int | None = None,
    ) -> None:
        check_integer("buffer_size", buffer_size, 1)
        check_integer("n_envs", n_envs, 1)
        check_for_nested_spaces(observation_space)
        BaseBuffer.__init__(
            self, buffer_size, observation_space, action_space, device, n_envs=n_envs
        )
        self.buffer_size = max(buffer_size // n_envs, 1)
        self.optimize_memory_usage = check_flag("optimize_memory_usage", optimize_memory_usage)
        self.handle_timeout_termination = check_flag(
            "handle_timeout_termination", handle_timeout_termination
        )
        self.n_step = check_integer("n_step", n_step, 1)
        if n_steps is not None:
            self.n_step = check_integer("n_steps", n_steps, 1)
            if n_step not in (1, n_steps):
                raise ValueError(f"n_steps: expected the same as n_step, {n_step}, got {n_steps}")
        self.gamma = _at_least_0("gamma", gamma)
        if sampler not in _SAMPLERS:
            expected = " or ".join(map(repr, _SAMPLERS))
            raise ValueError(f"sampler: expected {expected}, got {shown(sampler)}")
        self.sampler = sampler
        self.beta = 0.4
        self._settings = {
            "priority_exponent": _at_least_0("alpha", alpha),
            "priority_epsilon": _at_least_0("priority_epsilon", priority_epsilon),
            **_SAMPLERS[sampler],
        }
        self._seed = _seed_of_numpy() if seed is None else check_integer("seed", seed, 0, 2**63 - 1)
        self._by_key = isinstance(observation_space, spaces.Dict)
        self.memory: ReplayMemory | None = None
        self._writer: TransitionWriter | None = None
        self._layout = Layout(observation_space, self.obs_shape)
        if not self.optimize_memory_usage:
            self._create(1)

    def add(
        self,
        obs: Any,
        next_obs: Any,
        action: npt.NDArray[Any],
        reward: npt.NDArray[Any],
        done: npt.NDArray[Any],
        infos: Any,
    ) -> None:
        """Add a step of each environment, or after an error nothing.

        Args:
            obs: Observations (n_envs, *shape), or a dict of these.
            next_obs: Those that followed, the last ones of an episode where it ended.
            action: Actions, (n_envs, ...).
            reward: Rewards (n_envs,), finite.
            done: Whether the episode ended, (n_envs,).
            infos: A dict for each environment; or one dict, as Gymnasium's vector environments have
                them.

        Raises:
            ValueError: A shape differs, or a reward is not finite.
            TypeError: A dtype cannot be converted by NumPy's 'same_kind' rule.
        """
        if self._by_key:
            records = self._layout.records
            obs, next_obs = records(obs, self.n_envs), records(next_obs, self.n_envs)
        if self._writer is None:
            self._create(max(self._layout.stacks(obs, next_obs, done)))
            assert self._writer is not None
        while not self._writer.add(obs, next_obs, action, reward, done, infos):
            self._restack(obs, next_obs, done)
        self.pos += 1
        if self.pos == self.buffer_size:
            self.full = True
            self.pos = 0

    def sample(self, batch_size: int, env: VecNormalize | None = None) -> Any:
        """Draw steps, with replacement.

        Args:
            batch_size: How many, B >= 1.
            env: Normalizes observations and rewards; a sum of rewards is normalized as one reward.

        Returns:
            `ReplayBufferSamples` or `DictReplayBufferSamples`; with sampler "prioritized"
            `PrioritizedSamples`.

        Raises:
            ValueError: The buffer is empty, or `batch_size` < 1.
            RuntimeError: All priorities are 0.
        """
        if self._writer is None or not self.size():
            raise ValueError("sample: expected a buffer with steps, got an empty one")
        beta = self.beta if self.sampler == "prioritized" else None
        drawn: tuple[Any, ...] = self._writer.sample(batch_size, beta=beta)
        obs, actions, next_obs, dones, rewards, discounts, *more = drawn
        tensor = torch.from_numpy if self.device.type == "cpu" else self._tensor
        if self._by_key or env is not None:
            obs, next_obs = self._shown(obs, env), self._shown(next_obs, env)
        else:
            obs, next_obs = tensor(obs), tensor(next_obs)
        if env is not None:
            rewards = self._normalize_reward(rewards, env)
        samples = (
            obs,
            tensor(actions),
            next_obs,
            tensor(dones),
            tensor(rewards),
            tensor(discounts),
        )
        if more:
            weights, ids = more
            return PrioritizedSamples(*samples, tensor(weights), ids)
        return DictReplayBufferSamples(*samples) if self._by_key else ReplayBufferSamples(*samples)

    def update_priorities(self, ids: npt.NDArray[np.uint64], errors: npt.ArrayLike) -> None:
        """Set priorities of steps from their temporal-difference errors.

        Args:
            ids: `PrioritizedSamples.ids`; those of steps that are no longer held are ignored.
            errors: An error for each, of either sign, finite.

        Raises:
            RuntimeError: The sampler is "uniform".
            ValueError: Lengths differ, or an error is not finite.
        """
        if self.sampler != "prioritized" or self.memory is None:
            raise RuntimeError("update_priorities: expected a buffer with sampler='prioritized'")
        self.memory.update_priority(ids, np.abs(np.asarray(errors, np.float64)).reshape(-1))

    def reset(self) -> None:
        """Drop all steps."""
        super().reset()
        if self.memory is not None:
            self.memory.clear()
            self._write(0)

    @property
    def observations(self) -> Any:
        """Observations (buffer_size, n_envs, *shape), or a dict of them."""
        return self._placed("observations", observations=True)

    @property
    def next_observations(self) -> Any:
        """Those after one step, likewise."""
        return self._placed("next_observations", observations=True)

    @property
    def actions(self) -> Any:
        """Actions (buffer_size, n_envs, action_dim)."""
        return self._placed("actions")

    @property
    def rewards(self) -> Any:
        """Rewards (buffer_size, n_envs), one of each step."""
        return self._placed("rewards")

    @property
    def dones(self) -> Any:
        """Whether the episode ended, float32 (buffer_size, n_envs)."""
        return self._placed("dones")

    @property
    def timeouts(self) -> Any:
        """Whether the episode was truncated, float32 (buffer_size, n_envs)."""
        return self._placed("timeouts")

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickle, in which the memory is a checkpoint."""
        state = {name: value for name, value in vars(self).items() if name not in _NOT_SAVED}
        if self.memory is not None and self._writer is not None:
            # A checkpoint has closed episodes only.
            self._writer.finish()
            state["added"] = self._writer.added
            state["checkpoint"] = _bytes_of(self.memory)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        checkpoint, added = state.pop("checkpoint", None), state.pop("added", 0)
        self.__dict__.update(state)
        self.memory = self._writer = None
        self._layout = Layout(self.observation_space, self.obs_shape)
        if checkpoint is not None:
            self.memory = _memory_of(checkpoint)
            self._layout = Layout(self.observation_space, self.obs_shape, self.memory.frame_stack)
            self._write(added)

    def _create(self, stack: int) -> None:
        """Reserve memory for observations of `stack` frames."""
        self._layout = Layout(self.observation_space, self.obs_shape, stack)
        dtype = self._maybe_cast_dtype(self.action_space.dtype)
        action = np.zeros(self.action_dim, dtype)
        reward, nothing = np.float32(0), np.zeros(0, np.float32)
        templates = self._layout.state, action, reward, reward, nothing, nothing, np.uint64(0)
        # Enough for the newest half even if each episode has one step and a last observation.
        # The writer keeps up to half a piece free, so that episodes lie in adjacent slots.
        piece = self._piece(stack)
        ahead = min(piece // 2, _SLOTS_AHEAD)
        steps = self.buffer_size + piece + ahead + 2 * (stack + self.n_step) + 4
        settings: dict[str, Any] = {
            **self._settings,
            "multi_step": self.n_step,
            "frame_stack": stack,
            "discount_factor": self.gamma,
            "fields": {"prev": "sari", "next": "si"},
            "seed": self._seed,
        }
        try:
            self.memory = ReplayMemory(*templates, steps * self.n_envs, **settings)
        except MemoryError as error:
            warnings.warn(f"This system may not have enough memory: {error}", stacklevel=3)
            settings["allow_overcommit"] = True
            self.memory = ReplayMemory(*templates, steps * self.n_envs, **settings)
        self._write(0)

    def _piece(self, stack: int) -> int:
        """Steps of a piece of an episode: many beside those that it holds twice."""
        return max(self.buffer_size // 16, 8 * (stack + self.n_step))

    def _write(self, added: int) -> TransitionWriter:
        assert self.memory is not None
        self._writer = writer = TransitionWriter(
            self.memory,
            self.n_envs,
            self.buffer_size,
            piece=self._piece(self._layout.stack),
            timeouts=self.handle_timeout_termination,
            added=added,
        )
        return writer

    def _restack(self, obs: Any, next_obs: Any, done: Any) -> None:
        """Store all steps again, with fewer frames in a stack, so that these can follow.

        The first observations of an environment may all be black, and so stacks of any number.
        """
        held = self._steps(observations=True)
        both = held.observations, held.next_observations
        terminated = held.dones * (1 - held.timeouts)
        one, other = (each.reshape(-1, *self.obs_shape) for each in both)
        fitting = set(self._layout.stacks(one, other, terminated.reshape(-1)))
        fitting.intersection_update(self._layout.stacks(obs, next_obs, done))
        self._create(max(stack for stack in fitting if stack < self._layout.stack))
        writer = self._write(held.first)
        for step, (ends, cuts) in enumerate(zip(held.dones, held.timeouts, strict=True)):
            infos = [{"TimeLimit.truncated": bool(cut)} for cut in cuts]
            parts = (*both, held.actions, held.rewards)
            state, next_state, action, reward = (part[step] for part in parts)
            writer.add(state, next_state, action, reward, ends != 0, infos)

    def _steps(self, *, observations: bool = False) -> HeldSteps:
        if self._writer is None:
            # Before the first step it is not known whether observations are stacks.
            self._create(1)
        assert self._writer is not None
        return held_steps(
            self._writer, self._layout, self.n_envs, self.buffer_size, observations=observations
        )

    def _placed(self, name: str, *, observations: bool = False) -> Any:
        held = self._steps(observations=observations)
        return placed(getattr(held, name), held.first, self.buffer_size)

    def _shown(self, states: npt.NDArray[Any], env: VecNormalize | None) -> Any:
        return mapped(self._tensor, self._normalize_obs(self._layout.parts(states), env))

    def _tensor(self, array: npt.NDArray[Any]) -> torch.Tensor:
        """Return a tensor on the device, on the CPU over the memory of the array."""
        return torch.from_numpy(array).to(self.device)


def _at_least_0(name: str, value: float) -> float:
    number = check_number(name, value, expected="a number >= 0")
    if number < 0:
        raise ValueError(f"{name}: expected a number >= 0, got {shown(value)}")
    return number


def _seed_of_numpy() -> int:
    """Return a seed that NumPy's global generator decides on, and leave that as it is."""
    generator = np.random.RandomState()
    generator.set_state(np.random.get_state())
    return int(generator.randint(2**63 - 1))


def _bytes_of(memory: ReplayMemory) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "memory")
        memory.save(path)
        return path.read_bytes()


def _memory_of(saved: bytes) -> ReplayMemory:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "memory")
        path.write_bytes(saved)
        return ReplayMemory.load(os.fspath(path), allow_overcommit=True)
