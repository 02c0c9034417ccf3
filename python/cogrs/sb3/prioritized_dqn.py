"""`PrioritizedDQN`: DQN of Stable-Baselines3 with prioritized experience replay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from stable_baselines3 import DQN
from torch.nn import functional

from cogrs.sb3.replay_buffer import ReplayBuffer
from cogrs.shown import shown
from cogrs.validation import check_number

if TYPE_CHECKING:
    from stable_baselines3.common.type_aliases import GymEnv
    from stable_baselines3.dqn.policies import DQNPolicy


class PrioritizedDQN(DQN):
    """DQN that draws steps by their errors and corrects its loss for that.

    ::

        model = cogrs.sb3.PrioritizedDQN("MlpPolicy", "CartPole-v1", n_steps=3)
        model.learn(50_000)

    As in Schaul et al. 2016, algorithm 1: step i is drawn in proportion to (|error| +
    priority_epsilon) ** alpha, new steps by the largest weight so far; its loss is multiplied by
    (N * probability) ** -beta, divided by the largest of the batch; and beta goes linearly from its
    first value to 1 at the end of `learn`.

    Args:
        policy: As of `DQN`.
        env: As of `DQN`.
        alpha: Exponent of priorities, >= 0; 0 draws all steps alike.
        beta: Exponent of importance weights at first, from 0 to 1.
        priority_epsilon: Number added to each error, >= 0.
        n_steps: Steps of the n-step target, >= 1.
        gamma: Discount.
        replay_buffer_kwargs: More arguments of `ReplayBuffer`.
        **options: Those of `DQN`.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is out of range.
    """

    replay_buffer: ReplayBuffer

    def __init__(
        self,
        policy: str | type[DQNPolicy],
        env: GymEnv | str,
        *,
        alpha: float = 0.6,
        beta: float = 0.4,
        priority_epsilon: float = 1e-6,
        n_steps: int = 1,
        gamma: float = 0.99,
        replay_buffer_kwargs: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.beta = check_number("beta", beta, expected="a number from 0 to 1")
        if not 0 <= self.beta <= 1:
            raise ValueError(f"beta: expected a number from 0 to 1, got {shown(beta)}")
        given = {
            "sampler": "prioritized",
            "alpha": alpha,
            "priority_epsilon": priority_epsilon,
            "n_step": n_steps,
            "gamma": gamma,
            **(replay_buffer_kwargs or {}),
        }
        options.setdefault("replay_buffer_class", ReplayBuffer)
        super().__init__(policy, env, gamma=gamma, replay_buffer_kwargs=given, **options)

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        """Take gradient steps, and send the errors back as priorities."""
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        progress = 1 - self._current_progress_remaining
        self.replay_buffer.beta = self.beta + (1 - self.beta) * progress
        losses = []
        for _ in range(gradient_steps):
            batch = self.replay_buffer.sample(batch_size, env=self._vec_normalize_env)
            with torch.no_grad():
                following = self.q_net_target(batch.next_observations).amax(dim=1, keepdim=True)
                target = batch.rewards + (1 - batch.dones) * batch.discounts * following
            values = self.q_net(batch.observations).gather(1, batch.actions.long())
            loss = (
                batch.weights * functional.smooth_l1_loss(values, target, reduction="none")
            ).mean()
            self.policy.optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
            self.policy.optimizer.step()
            errors = (target - values).detach().cpu().numpy()
            self.replay_buffer.update_priorities(batch.ids, errors)
            losses.append(loss.item())
        self._n_updates += gradient_steps
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.logger.record("train/loss", np.mean(losses))
        self.logger.record("train/beta", self.replay_buffer.beta)
