"""Replay memory, batch collector and trial orchestrator for reinforcement-learning teams.

Names are imported when they are first used, so that a process pays only for the parts it touches.
"""

from __future__ import annotations

import importlib

from cogrs.game_ids import register_games_with_gymnasium

# As a type checker knows it: `typing` takes longer to import than all the rest here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cogrs._core import __version__
    from cogrs.collector import ContextOptions, GameContext, GCWrapper
    from cogrs.collector.vector import VectorEnv as VectorEnv
    from cogrs.orchestrator import serve_orchestrator
    from cogrs.replay import (
        Batch,
        Bind,
        Conn,
        Entry,
        Episode,
        IdBatch,
        KeyPair,
        MixedSampler,
        NStepBatch,
        NStepIdBatch,
        NStepSample,
        NStepWeightedSample,
        RateLimiter,
        ReplayMemory,
        ReplayMemoryClient,
        ReplayMemoryServer,
        ReplaySampler,
        ReplayView,
        ReplayWriter,
        Sample,
        WeightedSample,
        importance_weights,
    )

_HOMES = {
    "Batch": "cogrs.replay",
    "Bind": "cogrs.replay.endpoint",
    "Conn": "cogrs.replay.endpoint",
    "ContextOptions": "cogrs.collector",
    "Entry": "cogrs.replay",
    "Episode": "cogrs.replay",
    "GCWrapper": "cogrs.collector",
    "GameContext": "cogrs.collector",
    "IdBatch": "cogrs.replay",
    "KeyPair": "cogrs.replay.key_pair",
    "MixedSampler": "cogrs.replay.mixed_sampler",
    "NStepBatch": "cogrs.replay",
    "NStepIdBatch": "cogrs.replay",
    "NStepSample": "cogrs.replay",
    "NStepWeightedSample": "cogrs.replay",
    "RateLimiter": "cogrs.replay",
    "ReplayMemory": "cogrs.replay",
    "ReplayMemoryClient": "cogrs.replay.client",
    "ReplayMemoryServer": "cogrs.replay.server",
    "ReplaySampler": "cogrs.replay.sampler",
    "ReplayView": "cogrs.replay",
    "ReplayWriter": "cogrs.replay",
    "Sample": "cogrs.replay",
    "VectorEnv": "cogrs.collector.vector",
    "WeightedSample": "cogrs.replay",
    "__version__": "cogrs._core",
    "importance_weights": "cogrs.replay",
    "serve_orchestrator": "cogrs.orchestrator",
}

__all__ = [
    "Batch",
    "Bind",
    "Conn",
    "ContextOptions",
    "Entry",
    "Episode",
    "GCWrapper",
    "GameContext",
    "IdBatch",
    "KeyPair",
    "MixedSampler",
    "NStepBatch",
    "NStepIdBatch",
    "NStepSample",
    "NStepWeightedSample",
    "RateLimiter",
    "ReplayMemory",
    "ReplayMemoryClient",
    "ReplayMemoryServer",
    "ReplaySampler",
    "ReplayView",
    "ReplayWriter",
    "Sample",
    "WeightedSample",
    "__version__",
    "importance_weights",
    "serve_orchestrator",
]


_PARTS = ("api", "collector", "datasets", "orchestrator", "replay", "sdk", "tls", "workers")
# Not in `dir`: programs that go through all names may not have these frameworks.
_FRAMEWORKS = ("jax", "sb3", "torch")
_NEEDS_GYMNASIUM = ("VectorEnv",)

register_games_with_gymnasium()


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is not None:
        value = getattr(importlib.import_module(home), name)
    elif name in (*_PARTS, *_FRAMEWORKS):
        value = importlib.import_module(f"cogrs.{name}")
    else:
        raise AttributeError(f"module 'cogrs' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_PARTS} - {*_NEEDS_GYMNASIUM})
