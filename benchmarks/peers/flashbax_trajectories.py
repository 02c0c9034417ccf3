"""flashbax: its trajectory buffer, which is JAX code; drawn uniformly or by priority.

It stores batches of steps whose rows are streams, without episodes; sequences may begin in one
episode and end in another.
"""

from __future__ import annotations

from typing import Any

import flashbax
import jax
import jax.numpy as jnp
import numpy as np
from timing import Job
from workload import BURN_IN, EXPONENT, LEARNED, PERIOD, Workload

from peers import Buffer

NAME = "flashbax"

TOGETHER = 50
"""Episodes that are added in one call."""


class Trajectories(Buffer):
    """A prioritised trajectory buffer with one stream."""

    def __init__(self, load: Workload) -> None:
        """Fill a buffer."""
        self.load = load
        step: dict[str, Any] = {"state": load.states[0], "action": load.actions[0]}
        step |= {name: np.float32(0) for name in ("reward", "prob", "value", "qvest")}
        self.entry_size = sum(np.asarray(each).nbytes for each in step.values())

    def sequences(self, count: int) -> Job:
        """One compiled call, waited for."""
        load = self.load
        floats = dict.fromkeys(("reward", "prob", "value", "qvest"), load.floats)
        episode: dict[str, Any] = {"state": load.states, "action": load.actions, **floats}
        buffer = flashbax.make_prioritised_trajectory_buffer(
            add_batch_size=1,
            sample_batch_size=count,
            sample_sequence_length=BURN_IN + LEARNED,
            period=PERIOD,
            min_length_time_axis=BURN_IN + LEARNED,
            max_length_time_axis=load.entries,
            priority_exponent=EXPONENT,
            device="cpu",
        )
        state = buffer.init(jax.tree.map(lambda each: jnp.asarray(each[0]), episode))
        add = jax.jit(buffer.add, donate_argnums=0)
        # In few calls: each goes through all priorities.
        tiled = jax.tree.map(lambda each: np.concatenate([each] * TOGETHER)[None], episode)
        rows = jax.tree.map(jnp.asarray, tiled)
        for _ in range(load.episodes // TOGETHER):
            state = add(state, rows)
        sample = jax.jit(buffer.sample)
        keys = iter(jax.random.split(jax.random.key(0), 100_000))
        jax.block_until_ready(sample(state, next(keys)))
        return Job(lambda: jax.block_until_ready(sample(state, next(keys))))


def vectors(load: Workload) -> Trajectories:
    """A buffer of W1."""
    return Trajectories(load)


def frames(load: Workload) -> Trajectories | None:
    """Without stacks: a buffer stores each step's observation whole."""
    del load
    return None
