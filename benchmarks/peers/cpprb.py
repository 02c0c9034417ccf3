"""cpprb: C++ behind Cython. It stores transitions; an episode's end computes nothing."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import cpprb
import numpy as np
from timing import Job
from workload import BETA, DRAWN, EPISODE, EXPONENT, Workload, errors

from peers import Buffer

NAME = "cpprb"


class _Prioritized(Buffer):
    """A `PrioritizedReplayBuffer` filled with episodes."""

    def __init__(self, load: Workload, columns: dict[str, Any], **options: Any) -> None:
        """Fill a buffer; `options` are those of cpprb."""
        obs = columns["obs"]
        spaces: dict[str, dict[str, Any]] = {
            "obs": {"shape": obs.shape[1:], "dtype": obs.dtype},
            "act": {"dtype": np.int64},
            "rew": {},
            "done": {},
        }
        if "next_of" not in options:
            spaces["next_obs"] = spaces["obs"]
        self.load, self.columns, self.options = load, columns, {"env_dict": spaces, **options}
        self.entry_size = load.states[0].nbytes + 8 + 4 + 4
        self.buffer = cpprb.PrioritizedReplayBuffer(load.entries, alpha=EXPONENT, **self.options)
        for _ in range(load.episodes):
            self.buffer.add(**columns, priorities=load.priorities)
            self.buffer.on_episode_end()

    @functools.cached_property
    def uniform(self) -> Any:
        """A full buffer without priorities: adding to it is faster."""
        uniform = cpprb.ReplayBuffer(self.load.entries, **self.options)
        for _ in range(self.load.episodes):
            uniform.add(**self.columns)
            uniform.on_episode_end()
        return uniform

    def add(self) -> Job:
        """One step: observation and next observation, as an environment gives them."""
        obs = np.ascontiguousarray(self.columns["obs"][0])
        next_obs = np.ascontiguousarray(self.columns["next_obs"][0])
        add = self.uniform.add

        def run() -> None:
            for _ in range(100):
                add(obs=obs, act=1, rew=1.0, next_obs=next_obs, done=0.0)

        return Job(run, 100, before=self.uniform.on_episode_end)

    def add_bulk(self) -> Job:
        """An episode, with neither returns nor priorities: less than is done for ours."""

        def run() -> None:
            self.uniform.add(**self.columns)
            self.uniform.on_episode_end()

        return Job(run, EPISODE)

    def batch(self, size: int) -> Job:
        """Transitions with importance weights and indexes."""
        return Job(lambda: self.buffer.sample(size, beta=BETA))

    def update(self, size: int) -> Job:
        """By index."""
        drawn = itertools.cycle([self.buffer.sample(size)["indexes"] for _ in range(DRAWN)])
        new = errors(size)
        return Job(lambda: self.buffer.update_priorities(next(drawn), next(new)), size)


def _columns(load: Workload, obs: Any, next_obs: Any) -> dict[str, Any]:
    done = np.zeros(EPISODE, np.float32)
    done[-1] = 1
    return {
        "obs": obs,
        "act": load.actions,
        "rew": load.floats,
        "next_obs": next_obs,
        "done": done,
    }


def vectors(load: Workload) -> Buffer:
    """With a column of next observations: `next_of` saves 16 bytes an entry and is slower."""
    return _Prioritized(load, _columns(load, load.states, np.roll(load.states, -1, axis=0)))


def frames(load: Workload) -> Buffer:
    """Each frame once: stacks lie along the last axis, which is where cpprb compresses them."""
    padded = np.concatenate([load.states[:1]] * load.stack + [load.states])
    stacks = np.lib.stride_tricks.sliding_window_view(padded, load.stack, axis=0)
    columns = _columns(load, stacks[:EPISODE], stacks[1 : EPISODE + 1])
    return _Prioritized(load, columns, next_of="obs", stack_compress="obs")
