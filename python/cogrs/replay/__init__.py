"""Replay memory: episodes, multi-step returns, prioritized sampling; local or over a network.

What needs ZeroMQ is imported when it is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

from cogrs._core import ReplayMemory, ReplayWriter, importance_weights
from cogrs.replay.batch import (
    Batch,
    Entry,
    Episode,
    IdBatch,
    NStepBatch,
    NStepIdBatch,
    NStepSample,
    NStepWeightedSample,
    Sample,
    WeightedSample,
)
from cogrs.replay.recorder import Recorder

if TYPE_CHECKING:
    from cogrs.replay.client import ReplayMemoryClient
    from cogrs.replay.config import start_server
    from cogrs.replay.endpoint import Bind, Conn
    from cogrs.replay.key_pair import KeyPair
    from cogrs.replay.priorities import AppliedPriorities
    from cogrs.replay.proxy import ReplayProxy
    from cogrs.replay.sampler import ReplaySampler
    from cogrs.replay.server import ReplayMemoryServer
    from cogrs.replay.server_connection import ServerConnectionStats
    from cogrs.replay.stats import ServerStats, Tally

_HOMES = {
    "AppliedPriorities": "cogrs.replay.priorities",
    "Bind": "cogrs.replay.endpoint",
    "Conn": "cogrs.replay.endpoint",
    "KeyPair": "cogrs.replay.key_pair",
    "ReplayMemoryClient": "cogrs.replay.client",
    "ReplayMemoryServer": "cogrs.replay.server",
    "ServerStats": "cogrs.replay.stats",
    "Tally": "cogrs.replay.stats",
    "ReplayProxy": "cogrs.replay.proxy",
    "ReplaySampler": "cogrs.replay.sampler",
    "ServerConnectionStats": "cogrs.replay.server_connection",
    "start_server": "cogrs.replay.config",
}

__all__ = [
    "AppliedPriorities",
    "Batch",
    "Bind",
    "Conn",
    "Entry",
    "Episode",
    "IdBatch",
    "KeyPair",
    "NStepBatch",
    "NStepIdBatch",
    "NStepSample",
    "NStepWeightedSample",
    "Recorder",
    "ReplayMemory",
    "ReplayMemoryClient",
    "ReplayMemoryServer",
    "ReplayProxy",
    "ReplaySampler",
    "ReplayWriter",
    "Sample",
    "ServerConnectionStats",
    "ServerStats",
    "Tally",
    "WeightedSample",
    "importance_weights",
    "start_server",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'cogrs.replay' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value
