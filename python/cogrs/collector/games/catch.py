"""A ball falls and a paddle is to be under it: `catch` of bsuite (Osband et al. 2020).

`s` is uint8 (10, 5): the board from the top row down, 1 where the ball or the paddle is. The ball
begins in a random column of the top row and falls one row an action; the paddle begins in the
middle of the last row. `a` is int64: 0 moves the paddle to the left, 1 not at all, 2 to the right,
and anything else ends the run with an error. The ninth action brings the ball down and pays 1 when
the paddle is under it, else -1; all others pay 0. There the episode terminates.
"""

from __future__ import annotations

from cogrs.collector.built_in import define_game
from cogrs.collector.options import ContextOptions

__all__ = ["CatchContext", "ContextOptions", "GameContext", "GameOptions"]

CatchContext, GameOptions = define_game("catch", s=(0, 1))
GameContext = CatchContext
