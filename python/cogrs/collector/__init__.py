"""Many games, or many callers, answered in batches.

`VectorEnv` is imported when it is used, since it needs Gymnasium.
"""

# question                                         file
# which keys can a batch have?                     description.py
# which arrays does a callback get?                batch.py; on PyTorch and GPUs tensors.py
# how do batches reach callbacks?                  wrapper.py; after an exception delivery.py
# how is a game created, started and stopped?      context.py; by_name.py, options.py
# which games are built in?                        cogrs/game_ids.py; classes in games/
# how do environments in Python become games?      games/{gymnasium,pettingzoo}.py, environments/
# how do games become a vector of Gymnasium?       vector.py; built_in_vector.py, single.py
# how are callers without games batched?           request_batcher.py

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from cogrs.collector.batch import Batch
from cogrs.collector.by_name import BUILT_IN, GAMES
from cogrs.collector.collectors import TensorSpec
from cogrs.collector.context import GameContext
from cogrs.collector.delivery import Infos
from cogrs.collector.game_error import GameError, GameTimeoutError
from cogrs.collector.options import ContextOptions
from cogrs.collector.request_batcher import RequestBatcher
from cogrs.collector.wrapper import GCWrapper
from cogrs.deprecation import warn_renamed

if TYPE_CHECKING:
    from cogrs.collector.vector import VectorEnv as VectorEnv

__all__ = [
    "BUILT_IN",
    "GAMES",
    "Batch",
    "ContextOptions",
    "GCWrapper",
    "GameContext",
    "GameError",
    "GameTimeoutError",
    "Infos",
    "RequestBatcher",
    "TensorSpec",
]


_FORMER = {"AnyGameContext": "GameContext", "Group": "RequestBatcher"}


def __getattr__(name: str) -> Any:
    if name == "VectorEnv":
        return importlib.import_module("cogrs.collector.vector").VectorEnv
    if name not in _FORMER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warn_renamed(f"cogrs.collector.{name}", f"cogrs.collector.{_FORMER[name]}")
    return globals()[_FORMER[name]]
