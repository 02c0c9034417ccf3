"""Connect Four for two players, "white" and "black": white begins.

`s` is uint8 (2, 6, 7): the discs of the player that moves, then the other's, from the top row down.
`action_mask` is int8 (7,): 1 for columns that are not full; 0 throughout in the last state of an
episode, which is shown like any other and whose answer is ignored. `player` is int32 (): 0 when
white moves, 1 when black does. `a` is int64: the column that the disc is dropped into; a full one,
or another number, ends the run with an error. Four discs in a line win: that action pays 1 and the
episode terminates. A full board is a draw, which pays 0.

A collector with `_name` "white" or "black" sees the states in which that player moves, and what
was paid to that player since its state before: -1 where the other won. One without sees all states,
and what each action paid to the player that took it.
"""

from __future__ import annotations

from cogrs.collector.built_in import define_game
from cogrs.collector.options import ContextOptions

__all__ = ["ConnectFourContext", "ContextOptions", "GameContext", "GameOptions"]

ConnectFourContext, GameOptions = define_game(
    "connect_four", s=(0, 1), action_mask=(0, 1), player=(0, 1)
)
GameContext = ConnectFourContext
