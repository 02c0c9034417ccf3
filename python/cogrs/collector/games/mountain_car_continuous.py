"""A car with a pedal: dynamics, rewards and limits of Gymnasium's `MountainCarContinuous-v0`.

`s` is float32 (2,): position in [-1.2, 0.6] and velocity in [-0.07, 0.07]. `a` is float32 (): the
force in [-1, 1]; more counts as the bound, and what is not finite ends the run with an error. An
action a pays -0.1 a^2, and 100 besides when it reaches position 0.45, where the episode terminates;
it is truncated after `max_episode_steps`. First positions are uniform in [-0.6, -0.4), and the car
stands.
"""

from __future__ import annotations

from cogrs.collector.built_in import define_game
from cogrs.collector.options import ContextOptions

__all__ = ["ContextOptions", "GameContext", "GameOptions", "MountainCarContinuousContext"]

MountainCarContinuousContext, GameOptions = define_game(
    "mountain_car_continuous", s=((-1.2, -0.07), (0.6, 0.07)), a=(-1.0, 1.0)
)
GameContext = MountainCarContinuousContext
