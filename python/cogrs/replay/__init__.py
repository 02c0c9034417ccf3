"""Replay memory: episodes, multi-step returns, prioritized sampling."""

from cogrs._core import ReplayMemory, ReplayWriter, importance_weights
from cogrs.replay.batch import Batch, Entry, Episode, Sample

__all__ = [
    "Batch",
    "Entry",
    "Episode",
    "ReplayMemory",
    "ReplayWriter",
    "Sample",
    "importance_weights",
]
