"""A corridor with a cue at its start, which has to be remembered until the junction at its end.

The T-maze of Bakker (2002), "Reinforcement Learning with Long Short-Term Memory", with his
observations; here there is no way back, and no move has a penalty.

`s` is float32 (3,). The first state of an episode is the cue, which no later one shows: (1, 1, 0)
where the way up pays, (0, 1, 1) where the way down does, each in half of the episodes. The corridor
shows (a, 0, b), the junction (0, 1, 0).

`a` is int64: 0 is up, 1 to the right, 2 down; anything else ends the run with an error. `length`
moves to the right lead to the junction. Up or down there pays 1 if the cue said so, else -1, and
the episode terminates. All other moves pay 0: walls stop the agent where it goes up or down in the
corridor, or to the right at the junction. So whatever a policy without memory does, its mean return
is 0.

Options: `length=10`, an integer >= 1; `noise=0.0`, a number from 0 to 1: a and b are drawn anew
in each state, uniform in [1 - noise, 1] (Bakker's two kinds of corridor have 0 and 1). Episodes are
truncated after `max_episode_steps=500` actions, which should exceed `length`; that pays nothing.
"""

from __future__ import annotations

from cogrs.collector.built_in import define_game
from cogrs.collector.options import ContextOptions

__all__ = ["ContextOptions", "GameContext", "GameOptions", "TMazeContext"]

TMazeContext, GameOptions = define_game("tmaze", {"length": 10, "noise": 0.0}, s=(0, 1))
GameContext = TMazeContext
