"""The process that learns."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import numpy as np

from cogrs import ReplayMemoryServer, importance_weights
from cogrs.demo.checkpoint import EVERY, learner_file
from cogrs.demo.child import Child, main
from cogrs.demo.net import GAMMA, Learner, draw_parameters
from cogrs.workers import STEP_INFO, LearnerWorker, pack_arrays

if TYPE_CHECKING:
    from cogrs.demo.options import Role
    from cogrs.replay import NStepBatch

_BATCH = 64
_ALPHA, _BETA = 0.6, 0.6
"""Exponents of prioritized replay (Schaul et al. 2016, sections 3.3 and 3.4)."""
_EPSILON = 0.01
"""A step whose error is 0 stays within reach (section 3.3 there)."""


def make_server(role: Role) -> ReplayMemoryServer[NStepBatch]:
    """Make the server; actors take templates and settings from it."""
    scalar = np.float32(0)
    state, info = np.zeros(role.state_size, np.float32), np.zeros((), STEP_INFO)
    server: ReplayMemoryServer[NStepBatch] = ReplayMemoryServer(
        state,
        np.int64(0),
        scalar,
        scalar,
        scalar,
        scalar,
        info,
        0,
        "tcp://127.0.0.1:*",
        # Caches come in bursts, when trials end: with few, most would be replaced unused.
        n_caches=32,
        seed=role.seed,
        nstep=True,
    )
    server.rem.discount_factor = GAMMA
    server.rem.priority_exponent, server.rem.priority_epsilon = _ALPHA, _EPSILON
    server.rem.cache_size = 4 * _BATCH
    return server


def run(child: Child, role: Role) -> None:
    """Learn until the parent ends."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")  # nets this small gain nothing from a GPU
    with make_server(role).start() as server:
        # Actors begin with the same parameters, and need not wait for JAX.
        child.say(ready=[server.pub_endpoint, server.rep_endpoint, server.pull_endpoint])
        learner = Learner(draw_parameters(role.state_size, role.num_action, role.seed))

        def update(batch: NStepBatch) -> dict[str, float]:
            weights = importance_weights(
                batch.weight, exponent=_BETA, total=server.weight_sum, count=_BATCH
            )
            return {"loss": learner.update(batch, weights)}

        worker = LearnerWorker(
            server,
            update,
            lambda: pack_arrays(learner.published),
            state=learner.state,
            batch_size=_BATCH,
        )
        if role.resume:
            worker.load(learner_file(role.resume), learner.restore)
        report(child, server, worker, role)
        worker.save(learner_file(role.folder))


def report(
    child: Child,
    server: ReplayMemoryServer[NStepBatch],
    worker: LearnerWorker[NStepBatch],
    role: Role,
) -> None:
    """Learn, tell the figures twice a second, and write checkpoints."""
    losses: list[float] = []
    due = time.monotonic()
    save_due = due + EVERY
    while not child.ended.is_set():
        figures = worker.step(timeout=0.2)
        if figures is not None:
            losses.append(figures["loss"])
        if time.monotonic() >= due:
            due = time.monotonic() + 0.5
            child.say(
                updates=worker.updates,
                loss=float(np.mean(losses)) if losses else None,
                caches=server.total_caches,
            )
            losses.clear()
        if time.monotonic() >= save_due:
            save_due = time.monotonic() + EVERY
            worker.save(learner_file(role.folder))


if __name__ == "__main__":
    main(run)
