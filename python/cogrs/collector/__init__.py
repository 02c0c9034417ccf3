"""Many games, or many callers, answered in batches.

`VectorEnv` is imported when it is used, since it needs Gymnasium.
"""

from __future__ import annotations

import importlib
import warnings
from typing import TYPE_CHECKING, Any

from cogrs.collector.batch import Batch
from cogrs.collector.context import GameContext as AnyGameContext
from cogrs.collector.game_error import GameError
from cogrs.collector.games import BUILT_IN, GAMES, GameContext
from cogrs.collector.infos import Infos
from cogrs.collector.options import ContextOptions
from cogrs.collector.request_batcher import RequestBatcher
from cogrs.collector.tensor_spec import TensorSpec
from cogrs.collector.wrapper import GCWrapper

if TYPE_CHECKING:
    from cogrs.collector.vector import VectorEnv as VectorEnv

__all__ = [
    "BUILT_IN",
    "GAMES",
    "AnyGameContext",
    "Batch",
    "ContextOptions",
    "GCWrapper",
    "GameContext",
    "GameError",
    "Infos",
    "RequestBatcher",
    "TensorSpec",
]


def __getattr__(name: str) -> Any:
    if name == "Group":
        warnings.warn(
            "cogrs.collector.Group is now cogrs.collector.RequestBatcher",
            DeprecationWarning,
            stacklevel=2,
        )
        return RequestBatcher
    if name != "VectorEnv":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module("cogrs.collector.vector").VectorEnv
