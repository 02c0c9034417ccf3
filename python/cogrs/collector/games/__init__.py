"""The games that come with the package, each a module with the same names in it."""

from cogrs.collector.by_name import BUILT_IN, GAMES
from cogrs.collector.context import GameContext

__all__ = ["BUILT_IN", "GAMES", "GameContext"]
