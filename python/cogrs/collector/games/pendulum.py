"""A pendulum to hold upright: the dynamics, rewards and limits of Gymnasium's `Pendulum-v1`.

`s` is float32 (3,): cosine and sine of the angle from upright, and angular velocity in [-8, 8]
(rad/s). `a` is float32 (): the torque in [-2, 2] (N m); more counts as the bound, and what is not
finite ends the run with an error. An action pays -(angle^2 + 0.1 velocity^2 + 0.001 torque^2), with
the angle in [-pi, pi) and all of before the step. Episodes never terminate; they are truncated
after `max_episode_steps`. First angles are uniform in [-pi, pi), velocities in [-1, 1).
"""

from __future__ import annotations

from cogrs.collector.built_in import define_game
from cogrs.collector.options import ContextOptions

__all__ = ["ContextOptions", "GameContext", "GameOptions", "PendulumContext"]

PendulumContext, GameOptions = define_game(
    "pendulum", s=((-1.0, -1.0, -8.0), (1.0, 1.0, 8.0)), a=(-2.0, 2.0)
)
GameContext = PendulumContext
