"""A pole on a cart: the dynamics, rewards and limits of Gymnasium's `CartPole-v1`.

`s` is float32 (4,): position (m), velocity (m/s), angle (rad), angular velocity (rad/s). `a` is
int64: 0 pushes to the left, 1 to the right, and anything else ends the run with an error. Every
action pays 1. An episode terminates when the cart is more than 2.4 m from the middle or the pole
more than 12 degrees from upright, and is truncated after `max_episode_steps`. First states are
uniform in [-0.05, 0.05).
"""

from __future__ import annotations

import math

from cogrs.collector.built_in import define_game
from cogrs.collector.options import ContextOptions

__all__ = ["CartPoleContext", "ContextOptions", "GameContext", "GameOptions"]

_END = (4.8, math.inf, 24 * 2 * math.pi / 360, math.inf)

CartPoleContext, GameOptions = define_game("cartpole", s=(tuple(-end for end in _END), _END))
GameContext = CartPoleContext
