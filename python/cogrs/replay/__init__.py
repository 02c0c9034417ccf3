"""Replay memory: episodes, multi-step returns, prioritized sampling; local or over a network.

Modules that need ZeroMQ are imported when they are first used.

| question | file |
|---|---|
| what a batch, a sample and an episode are made of | `batch.py`, of `entry.py` |
| what sequences are made of | `sequence_batch.py` |
| which sequences caches have, and their priorities | `sequence_priority.py` |
| how an argument becomes an array of a field | `convert.py` |
| how steps of a vector environment become episodes | `recorder.py` |
| what a memory for spaces of Gymnasium looks like | `spaces.py` |
| what users call over a network | `server.py`, `client.py`, `sampler.py`, `proxy.py` |
| which file describes a server | `config.py` |
| how a socket is made, secured, watched and closed | `net/` |
| what a server does with a message, when it gives a batch | `serving/` |
| when a client may insert | `insert_gate.py` |
| how messages are published, and priorities come back | `pubsub/`, `priorities.py` |
| what travels | `wire.py`, `pubsub/topic_key.py` |
| which server a row comes from | `sampler.py`, `server_connection.py`, `rust/src/replay/mixer.rs` |
| how sources share a batch | `mixed_sampler.py`, `mixed_{source,ids}.py`, `shares.py` |
| what a server tells of itself | `stats.py`, `metrics.py`, `serving/stats_reporter.py` |
| which keys and endpoints are valid | `key_pair.py`, `endpoint.py` |
"""

import importlib
from typing import TYPE_CHECKING, Any

from cogrs._core import (
    RateLimiter,
    ReplayMemory,
    ReplayView,
    ReplayWriter,
    importance_weights,
)
from cogrs.deprecation import warn_renamed
from cogrs.replay.batch import (
    Batch,
    CountedSample,
    CountedWeightedSample,
    Episode,
    IdBatch,
    NStepBatch,
    NStepCountedSample,
    NStepCountedWeightedSample,
    NStepIdBatch,
    NStepSample,
    NStepWeightedSample,
    Sample,
    WeightedSample,
)
from cogrs.replay.entry import Entry
from cogrs.replay.recorder import Recorder
from cogrs.replay.sequence_batch import (
    CountedSequences,
    CountedWeightedSequences,
    IdSequenceBatch,
    NStepCountedSequences,
    NStepCountedWeightedSequences,
    NStepIdSequenceBatch,
    NStepSequenceBatch,
    NStepSequences,
    NStepWeightedSequences,
    SequenceBatch,
    Sequences,
    WeightedSequences,
)

if TYPE_CHECKING:
    from cogrs.replay.client import ReplayMemoryClient
    from cogrs.replay.config import start_server
    from cogrs.replay.endpoint import Bind, Conn
    from cogrs.replay.key_pair import KeyPair
    from cogrs.replay.mixed_sampler import MixedSampler
    from cogrs.replay.prefetcher import Prefetcher
    from cogrs.replay.priorities import AppliedPriorities
    from cogrs.replay.proxy import ReplayProxy
    from cogrs.replay.sampler import ReplaySampler
    from cogrs.replay.server import ReplayMemoryServer
    from cogrs.replay.stats import (
        CompressionStats,
        LimiterStats,
        MemoryStats,
        ServerConnectionStats,
        ServerStats,
        StorageStats,
        Tally,
    )

_HOMES = {
    "AppliedPriorities": "cogrs.replay.priorities",
    "Bind": "cogrs.replay.endpoint",
    "Conn": "cogrs.replay.endpoint",
    "KeyPair": "cogrs.replay.key_pair",
    "MixedSampler": "cogrs.replay.mixed_sampler",
    "CompressionStats": "cogrs.replay.stats",
    "LimiterStats": "cogrs.replay.stats",
    "MemoryStats": "cogrs.replay.stats",
    "ReplayMemoryClient": "cogrs.replay.client",
    "ReplayMemoryServer": "cogrs.replay.server",
    "ServerStats": "cogrs.replay.stats",
    "StorageStats": "cogrs.replay.stats",
    "Tally": "cogrs.replay.stats",
    "Prefetcher": "cogrs.replay.prefetcher",
    "ReplayProxy": "cogrs.replay.proxy",
    "ReplaySampler": "cogrs.replay.sampler",
    "ServerConnectionStats": "cogrs.replay.stats",
    "start_server": "cogrs.replay.config",
}

__all__ = [
    "AppliedPriorities",
    "Batch",
    "Bind",
    "CompressionStats",
    "Conn",
    "CountedSample",
    "CountedSequences",
    "CountedWeightedSample",
    "CountedWeightedSequences",
    "Entry",
    "Episode",
    "IdBatch",
    "IdSequenceBatch",
    "KeyPair",
    "LimiterStats",
    "MemoryStats",
    "MixedSampler",
    "NStepBatch",
    "NStepCountedSample",
    "NStepCountedSequences",
    "NStepCountedWeightedSample",
    "NStepCountedWeightedSequences",
    "NStepIdBatch",
    "NStepIdSequenceBatch",
    "NStepSample",
    "NStepSequenceBatch",
    "NStepSequences",
    "NStepWeightedSample",
    "NStepWeightedSequences",
    "Prefetcher",
    "RateLimiter",
    "Recorder",
    "ReplayMemory",
    "ReplayMemoryClient",
    "ReplayMemoryServer",
    "ReplayProxy",
    "ReplaySampler",
    "ReplayView",
    "ReplayWriter",
    "Sample",
    "SequenceBatch",
    "Sequences",
    "ServerConnectionStats",
    "ServerStats",
    "StorageStats",
    "Tally",
    "WeightedSample",
    "WeightedSequences",
    "importance_weights",
    "start_server",
]


_RENAMED = {"SourceStats": "ServerConnectionStats"}
"""Former names."""


def __getattr__(name: str) -> Any:
    if name in _RENAMED:
        new = _RENAMED[name]
        warn_renamed(f"cogrs.replay.{name}", f"cogrs.replay.{new}")
        return __getattr__(new)
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'cogrs.replay' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value
