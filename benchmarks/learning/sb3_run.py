"""What proofs with Stable-Baselines3 share: returns of episodes, and tests without exploration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

if TYPE_CHECKING:
    from benchmarks.learning.run import Run


class Returns(BaseCallback):
    """Tells a run of each episode that ends."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self._run = run

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info:
                self._run.episode(self.num_timesteps, info["episode"]["r"])
        return True


def one_thread() -> None:
    """Let PyTorch compute on one thread: nets this small gain nothing from more."""
    torch.set_num_threads(1)


def greedy_returns(model: Any, env: str, episodes: int, seed: int) -> list[float]:
    """Return the returns of episodes without exploration, in an environment of their own."""
    envs = make_vec_env(env, 1, seed=10_000 + seed)
    returns, _ = evaluate_policy(
        model, envs, episodes, deterministic=True, return_episode_rewards=True
    )
    return [float(each) for each in returns]
