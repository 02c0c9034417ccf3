"""Two links that swing up: the dynamics, rewards and limits of Gymnasium's `Acrobot-v1`.

`s` is float32 (6,): cosine and sine of the first link's angle from hanging, of the second's from
the first, and both angular velocities (rad/s). `a` is int64: a torque of -1, 0 or 1 N m on the
joint between them, as 0, 1, 2; anything else ends the run with an error. Every action pays -1, and
0 that which reaches the goal: the free end more than 1 m above the fixed one. Then the episode
terminates; it is truncated after `max_episode_steps`. First angles and velocities are uniform in
[-0.1, 0.1).
"""

from __future__ import annotations

import math

from cogrs.collector.built_in import define_game
from cogrs.collector.options import ContextOptions

__all__ = ["AcrobotContext", "ContextOptions", "GameContext", "GameOptions"]

_END = (1.0, 1.0, 1.0, 1.0, 4 * math.pi, 9 * math.pi)

AcrobotContext, GameOptions = define_game("acrobot", s=(tuple(-end for end in _END), _END))
GameContext = AcrobotContext
