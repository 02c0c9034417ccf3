"""A car too weak for its hill: the dynamics, rewards and limits of Gymnasium's `MountainCar-v0`.

`s` is float32 (2,): position in [-1.2, 0.6] and velocity in [-0.07, 0.07]. `a` is int64: 0
accelerates to the left, 1 not at all, 2 to the right, and anything else ends the run with an error.
Every action pays -1. An episode terminates at position 0.5, and is truncated after
`max_episode_steps`. First positions are uniform in [-0.6, -0.4), and the car stands.
"""

from __future__ import annotations

from cogrs.collector.built_in import define_game
from cogrs.collector.options import ContextOptions

__all__ = ["ContextOptions", "GameContext", "GameOptions", "MountainCarContext"]

MountainCarContext, GameOptions = define_game("mountain_car", s=((-1.2, -0.07), (0.6, 0.07)))
GameContext = MountainCarContext
