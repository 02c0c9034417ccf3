"""A shard: a replay server at ports of the run, which restores its newest checkpoint."""

from __future__ import annotations

import errno
import logging
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from cogrs.cluster.checkpoints import Checkpoints
from cogrs.cluster.spaces import memory_of
from cogrs.replay import ReplayMemoryServer
from cogrs.replay.wire import FIELDS, SETTINGS
from cogrs.workers import STEP_INFO

if TYPE_CHECKING:
    from cogrs.cluster.part import Part
    from cogrs.replay import ReplayMemory

_logger = logging.getLogger("cogrs.cluster")


def run_shard(part: Part) -> None:
    """Serve until the part is to stop; write checkpoints, one at the end too."""
    plan = part.plan
    checkpoints = Checkpoints(part.folder.path / f"shard-{part.index}")
    with _started(part, memory_of(plan), checkpoints) as server:
        started_with = server.stats().received.samples
        place = (server.pub_endpoint, server.rep_endpoint, server.pull_endpoint)

        def report() -> None:
            part.report = _report(server, started_with)

        report()
        part.register({"endpoints": place})
        due = time.monotonic() + plan.checkpoint_seconds
        while not part.sleep(0.2):
            report()
            if time.monotonic() >= due:
                _save(part, server, checkpoints)
                due = time.monotonic() + plan.checkpoint_seconds
        _save(part, server, checkpoints)
        report()
        part.close()


def _started(part: Part, memory: ReplayMemory, checkpoints: Checkpoints) -> ReplayMemoryServer[Any]:
    """Return a server with the newest checkpoint, at ports that no generation before it had."""
    first, last = part.plan.ports
    places = (last - first + 1) // 3
    # Who connects to the ports of an earlier generation is not to reach this one by chance.
    start = part.index + part.generation * part.plan.shards
    for place in range(start, start + places):
        port = first + 3 * (place % places)
        try:
            return _listening(part, memory, checkpoints, port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
    raise OSError(errno.EADDRINUSE, f"ports: no three ports are free from {first} to {last}")


def _listening(
    part: Part, memory: ReplayMemory, checkpoints: Checkpoints, port: int
) -> ReplayMemoryServer[Any]:
    plan, keys = part.plan, part.folder
    pub, rep, pull = (f"tcp://{part.host}:{port + at}" for at in range(3))
    templates = [getattr(memory, f"{name}_buf") for name in FIELDS]
    state, action, reward, prob, value, qvest, info = templates
    if plan.trials:  # as the agents of trials write it
        info = np.zeros((), STEP_INFO)
    server: ReplayMemoryServer[Any] = ReplayMemoryServer(
        *(state, action, reward, prob, value, qvest, info),
        0,
        pub,
        plan.n_caches,
        seed=None if plan.seed is None else plan.seed + part.index,
        ids=True,
        nstep=True,
        key=keys.secret_key("server"),
        allow=keys.public_keys("actor"),
        allow_samplers=keys.public_keys("learner"),
        limiter=plan.rate_limiter(),
    )
    try:
        for name in SETTINGS:
            setattr(server.rem, name, getattr(memory, name))
        server.rem.cache_size = plan.cache_size
        server.rem.reuse_cache = True
        checkpoints.newest(server.restore)
        return server.start(rep, pull)
    except BaseException:
        server.close()
        raise


def _save(part: Part, server: ReplayMemoryServer[Any], checkpoints: Checkpoints) -> None:
    try:
        checkpoints.write(server.save)
        part.last_error = ""
    except OSError as error:  # a full disk must not lose what is here
        part.note_error(error)


def _report(server: ReplayMemoryServer[Any], started_with: int) -> dict[str, Any]:
    stats = server.stats()
    limiter = stats.limiter
    waits = (
        {}
        if limiter is None
        else {
            "learner_waited": limiter.sample_wait_seconds,
            "actors_waited": limiter.insert_wait_seconds,
        }
    )
    return {
        "at": time.time(),
        "count": stats.received.samples,
        "drawn": stats.samples_given,
        "caches": stats.caches,
        "refused": stats.total_refused,
        **waits,
        "rows": {
            "stored": stats.received.samples,
            "restored": started_with,
            "senders": {str(uuid): each.samples for uuid, each in stats.clients.items()},
        },
    }
