"""The states of agents, as loops without batches see them and as collectors deliver them."""

from __future__ import annotations

from typing import Any

import numpy as np

import cogrs
from tests.collector.build import rows, run

State = dict[str, Any]
"""One state of an agent: seq, s, a, last_r, ended, cut, last_terminal, last_truncated."""

OUTCOME = ("seq", "last_r", "ended", "cut", "last_terminal", "last_truncated")


class Streams:
    """The states of each agent, as a loop without batches sees them."""

    def __init__(self, agents: list[str]) -> None:
        self.of: dict[str, list[State]] = {agent: [] for agent in agents}
        self.seqs: dict[str, int] = {}

    def add(
        self, agent: str, shown: State, reward: float, terminated: Any, truncated: Any, action: int
    ) -> None:
        stream = self.of[agent]
        last = stream[-1] if stream else {"ended": 0, "cut": 0}
        seq = self.seqs.pop(agent, 0)
        if not (terminated or truncated):
            self.seqs[agent] = seq + 1
        stream.append(
            {
                **shown,
                "seq": seq,
                "last_r": np.float32(reward),
                "ended": int(bool(terminated)),
                "cut": int(bool(truncated and not terminated)),
                "last_terminal": last["ended"],
                "last_truncated": last["cut"],
                "a": action,
            }
        )


class Collected:
    """The states of agents, by agent and game, out of listeners of single agents."""

    def __init__(self, agents: list[str], steps: int) -> None:
        self.of: dict[str, dict[int, list[State]]] = {agent: {} for agent in agents}
        self.steps = steps

    def listen(self, agent: str, batch: Any) -> None:
        """Add a history, which shares a state with the last one."""
        history = {key: array[0] for key, array in rows(batch).items()}
        for key in ("r", "terminal", "truncated"):
            assert history[key][-1] == 0
            assert (history.pop(key)[:-1] == history[f"last_{key}"][1:]).all()
        states = [{key: array[at] for key, array in history.items()} for at in range(self.steps)]
        stream = self.of[agent].setdefault(int(history["id"][0]), [])
        if stream:
            np.testing.assert_equal(stream.pop(), states[0])
        stream.extend(states)

    def has(self, games: int, count: int) -> bool:
        streams = [by_game.get(game, ()) for by_game in self.of.values() for game in range(games)]
        return min(map(len, streams)) >= count


def described(
    agents: list[str], shown: tuple[str, ...], games: int, steps: int, together: bool
) -> dict[str, Any]:
    """Return an actor for each agent, or for all, and a listener for each agent."""
    keys = dict.fromkeys(shown, "")
    actor = {**keys, "seq": "", "player": "", "_batchsize": games}
    outcome = dict.fromkeys((*OUTCOME, "r", "terminal", "truncated", "id", "a"), "")
    named = [{}] if together else [{"_name": agent} for agent in agents]
    actors = {f"act {at}": ({**actor, **name}, {"a": ""}) for at, name in enumerate(named)}
    listener = {**keys, **outcome, "_batchsize": 1, "_T": steps}
    return {**actors, **{agent: ({**listener, "_name": agent}, None) for agent in agents}}


def collected(
    make: Any,
    agents: list[str],
    act: Any,
    shown: tuple[str, ...],
    count: int,
    *,
    games: int = 1,
    steps: int = 2,
    together: bool = False,
    processes: int = 0,
    **options: Any,
) -> dict[str, dict[int, list[State]]]:
    """Return the first states of each agent of each game.

    `together`: one collector without `_name` replies to all agents.
    """
    co = cogrs.ContextOptions(num_games=games, seed=1, **options)
    context = cogrs.GameContext("pettingzoo", co, make, processes=processes)
    found = Collected(agents, steps)

    def reply(batch: Any, _gpu: Any, reply: Any) -> None:
        reply[0]["a"][:] = act(batch[0])

    description = described(agents, shown, games, steps, together)
    with cogrs.GCWrapper(context, co, description) as made:
        for name in description:
            made.reg_callback(name, reply)
        for agent in agents:
            made.reg_callback(agent, lambda batch, *_, who=agent: found.listen(who, batch))
        made.Start()
        while not found.has(games, count):
            run(made)
    return found.of


def compare(
    found: dict[str, dict[int, list[State]]], streams: Streams, shown: tuple[str, ...]
) -> None:
    for agent, by_game in found.items():
        for stream in by_game.values():
            model = streams.of[agent]
            assert len(model) >= len(stream) > 2, "the model has to play more episodes"
            for at, (state, expected) in enumerate(zip(stream, model, strict=False)):
                for key in (*OUTCOME, *shown):
                    np.testing.assert_array_equal(
                        state[key], expected[key], f"{key} of {agent} {at}"
                    )
                if at < len(stream) - 1 and not (expected["ended"] or expected["cut"]):
                    assert state["a"] == expected["a"]
