"""Many games, or many callers, answered in batches."""

from cogrs.collector.batch import Batch
from cogrs.collector.context import GameContext as AnyGameContext
from cogrs.collector.context import GameError
from cogrs.collector.games import BUILT_IN, GAMES, GameContext
from cogrs.collector.group import Group
from cogrs.collector.infos import Infos
from cogrs.collector.options import ContextOptions
from cogrs.collector.tensor_spec import TensorSpec
from cogrs.collector.wrapper import GCWrapper

__all__ = [
    "BUILT_IN",
    "GAMES",
    "AnyGameContext",
    "Batch",
    "ContextOptions",
    "GCWrapper",
    "GameContext",
    "GameError",
    "Group",
    "Infos",
    "TensorSpec",
]
