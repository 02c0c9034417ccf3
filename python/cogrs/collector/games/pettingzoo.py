"""Environments of PettingZoo as games, whose players are the agents.

A game shows a state for each turn of an agent. With turns (AEC) these are the turns of
`agent_iter`, with the values of `last`; with the parallel interface all agents have a turn one
after the other, and then the environment steps. A collector with `_name="agent"` sees the states of
this agent alone, as those of a game of its own: `seq` counts them from 0, `last_r` is the agent's
reward since its last state, and `terminal`, `truncated` and their other forms are its own ends.
When an agent's episode ends, its final state is shown, with its last reward; the reply to it is
ignored. The game's episode is over when no agents are left. Agents may die, come and return within
`possible_agents`; one that leaves without a flag was truncated. With turns, the final state of an
agent that leaves before its last turn is what `observe` returns, and has the turn before the next.

Keys are those of `cogrs.collector.games.gymnasium`, and `player` (int32), the agent's position in
`possible_agents`. Without `_name` a collector sees the states of all agents, each with its own
agent's `last_r`, `seq` and ends. Since the next state there is another agent's, it has neither `r`,
`terminal` and `truncated` nor stacks of frames.

The spaces of all agents are arrays of the same dtypes and shapes. Threads, processes, failures,
seeds and `info_keys` are as with environments of Gymnasium.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cogrs.collector.games.gymnasium import GameOptions, GymnasiumContext
from cogrs.collector.options import ContextOptions

if TYPE_CHECKING:
    from cogrs import _core

__all__ = ["ContextOptions", "GameContext", "GameOptions", "PettingZooContext"]


class PettingZooContext(GymnasiumContext):
    """Many environments: `GameContext(co, rps_v2.parallel_env)`, or without `co` as there.

    Args:
        *args: In any order `env`, ContextOptions and GameOptions. `env` is a callable that makes a
            `ParallelEnv` or an `AECEnv`, or `"package.module:callable"`; or a sequence of them.
        **kwargs: The fields of GameOptions by keyword, unless None. All others are arguments of the
            callable.

    Raises:
        TypeError: `env` is missing, or makes something other than an environment of arrays.
        ValueError: An option is out of range, the environment has no `possible_agents`, the spaces
            of two agents differ, or other processes cannot import `env`.
        ImportError: Gymnasium, whose spaces PettingZoo has, is not installed.
    """

    _of_agents = True

    def make_core(self, **options: Any) -> _core.CollectorContext:
        """See `GameContext`."""
        if options["queries"]:
            got = options["queries"]
            raise ValueError(
                f"max_num_threads: expected 0 for environments of PettingZoo, got {got}"
            )
        several = len(self.spec.players) > 1
        for collector in self.collectors if several else ():
            for tensor in collector.inputs:
                if collector.player is None and (tensor.shifted or tensor.stack):
                    players = list(self.spec.players)
                    raise ValueError(
                        f"{collector.name!r}: {tensor.key}: expected _name, one of {players}, "
                        "beside it: the next state is another agent's"
                    )
        return super().make_core(**options)


GameContext = PettingZooContext
