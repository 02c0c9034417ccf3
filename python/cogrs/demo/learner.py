"""The learner process: a replay server, and updates of the net from its batches."""

from __future__ import annotations

import os
import time
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np

from cogrs import RateLimiter, ReplayMemoryServer, importance_weights
from cogrs.demo.checkpoint import EVERY, learner_file
from cogrs.demo.parent import Parent, main
from cogrs.demo.q_learning import GAMMA, QLearner, draw_parameters
from cogrs.workers import STEP_INFO, LearnerWorker, pack_arrays

if TYPE_CHECKING:
    from cogrs.demo.options import ProcessConfig
    from cogrs.replay import NStepBatch

_BATCH = 64
_ALPHA, _BETA = 0.6, 0.6
"""Exponents of prioritized replay (Schaul et al. 2016, sections 3.3 and 3.4)."""
_EPSILON = 0.01
"""Added to each priority, so that a step with error 0 can still be drawn (section 3.3)."""

SAMPLES_PER_INSERT = 8
"""Samples that the learner takes for each step."""
_MIN_SIZE, _BUFFER = 256, 1024
"""Steps before the first update, and steps that actors may be ahead or behind after that."""


def make_server(config: ProcessConfig) -> ReplayMemoryServer[NStepBatch]:
    """Create the replay server; actors take templates and settings from it."""
    scalar = np.float32(0)
    state, info = np.zeros(config.state_size, np.float32), np.zeros((), STEP_INFO)
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
        # Caches come in bursts, when trials end; a small store would replace most of them unused.
        n_caches=32,
        seed=config.seed,
        nstep=True,
        limiter=RateLimiter(SAMPLES_PER_INSERT, _MIN_SIZE, SAMPLES_PER_INSERT * _BUFFER),
    )
    server.rem.discount_factor = GAMMA
    server.rem.priority_exponent, server.rem.priority_epsilon = _ALPHA, _EPSILON
    server.rem.cache_size = 4 * _BATCH
    return server


def run(parent: Parent, config: ProcessConfig) -> None:
    """Learn until the parent requests the end."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")  # nets this small gain nothing from a GPU
    with make_server(config).start() as server:
        # Actors draw the same first parameters, and need not wait for JAX.
        parent.send(ready=[server.pub_endpoint, server.rep_endpoint, server.pull_endpoint])
        learner = QLearner(draw_parameters(config.state_size, config.num_action, config.seed))

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
        if config.resume:
            worker.load(learner_file(config.resume), learner.restore)
        report(parent, server, worker, config)
        worker.save(learner_file(config.folder))


def report(
    parent: Parent,
    server: ReplayMemoryServer[NStepBatch],
    worker: LearnerWorker[NStepBatch],
    config: ProcessConfig,
) -> None:
    """Learn, report figures twice a second, and write checkpoints."""
    losses: list[float] = []
    due = time.monotonic()
    save_due = due + EVERY
    while not parent.stop_request.is_set():
        figures = worker.step(timeout=0.2)
        if figures is not None:
            losses.append(figures["loss"])
        if time.monotonic() >= due:
            due = time.monotonic() + 0.5
            stats = server.stats()
            parent.send(
                updates=worker.updates,
                loss=float(np.mean(losses)) if losses else None,
                caches=stats.received.caches,
                limiter=asdict(stats.limiter) if stats.limiter else None,
            )
            losses.clear()
        if time.monotonic() >= save_due:
            save_due = time.monotonic() + EVERY
            worker.save(learner_file(config.folder))


if __name__ == "__main__":
    main(run)
