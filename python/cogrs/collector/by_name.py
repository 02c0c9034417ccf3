"""The names of the games, and the creation of a game context by one of them."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from cogrs.collector.options import ContextOptions
from cogrs.game_ids import BUILT_IN_GAMES
from cogrs.suggest import suggestion

BUILT_IN = tuple(BUILT_IN_GAMES)
"""Games in Rust, by the names of their modules in `cogrs.collector.games`."""

GAMES = (*BUILT_IN, "gymnasium", "pettingzoo")
"""All modules there: those, and environments of Gymnasium and of PettingZoo."""


class CreatesByName(type):
    """Has `GameContext(name, ...)` create an object of the class that the game's module has.

    A class with `_options_type` is that of a game, and creates its own objects.
    """

    @property
    def __signature__(cls) -> inspect.Signature:
        """The arguments with which an object of the class is created."""
        has_own = hasattr(cls, "_options_type")
        create = cls.__init__ if has_own else CreatesByName.__call__  # type: ignore[misc]
        _, *parameters = inspect.signature(create).parameters.values()
        return inspect.Signature(parameters)

    def __call__(cls, *args: Any, **options: Any) -> Any:
        """Create an object of this class, or of that of the game that comes first."""
        if hasattr(cls, "_options_type"):
            return super().__call__(*args, **options)
        if any(isinstance(base, CreatesByName) for base in cls.__bases__):
            raise TypeError(
                f"{cls.__name__} is abstract: subclass the class of a game, such as "
                "cogrs.collector.games.cartpole.CartPoleContext"
            )
        if not args and "name" in options:
            args = (options.pop("name"),)
        if not args or isinstance(args[0], ContextOptions):
            raise TypeError(
                "GameContext is abstract: create a concrete one, e.g. "
                'cogrs.GameContext("cartpole", co)'
            )
        name, *others = args
        if name not in GAMES:
            found = suggestion(name, GAMES)
            raise ValueError(
                f"name: expected one of {list(GAMES)}, got {name!r}{', ' if found else ''}{found}; "
                "an environment of Gymnasium is GameContext('gymnasium', co, id or function)"
            )
        module = importlib.import_module(f"cogrs.collector.games.{name}")
        return module.GameContext(*others, **options)
