"""Replay buffer, prioritized DQN and vector environments for Stable-Baselines3.

| question | file |
|---|---|
| how transitions are added and sampled | `replay_buffer.py`, and `TransitionWriter` in Rust |
| which spaces are stored how | `layout.py` |
| how priorities come back | `prioritized_dqn.py` |
| how a `cogrs.VectorEnv` becomes a `VecEnv` | `vec_env.py` |
"""

from cogrs.optional_dependency import import_optional

import_optional("stable_baselines3", "cogrs.sb3 needs Stable-Baselines3", "'cogrs[sb3]'")

from cogrs.sb3.prioritized_dqn import PrioritizedDQN  # noqa: E402
from cogrs.sb3.replay_buffer import PrioritizedSamples, ReplayBuffer  # noqa: E402
from cogrs.sb3.vec_env import VecEnv  # noqa: E402

__all__ = ["PrioritizedDQN", "PrioritizedSamples", "ReplayBuffer", "VecEnv"]
