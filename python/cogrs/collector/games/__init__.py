"""The games that come with the package, each a module with the same names in it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from cogrs.collector.suggest import suggestion

if TYPE_CHECKING:
    from cogrs.collector import context

BUILT_IN = (
    "acrobot",
    "cartpole",
    "catch",
    "connect_four",
    "mountain_car",
    "mountain_car_continuous",
    "pendulum",
)
"""Games in Rust, by the names of their modules."""

GAMES = (*BUILT_IN, "gymnasium")
"""Names of the modules here: those, and environments of Gymnasium."""


def GameContext(name: str, *args: Any, **options: Any) -> context.GameContext:  # noqa: N802
    """Make the game context of a built-in game.

    Args:
        name: One of `GAMES`.
        *args: As for the `GameContext` of that module: `(options)`, `(co)` or `(co, options)`;
            of "gymnasium" with the environment's id beside.
        **options: Likewise.

    Raises:
        ValueError: There is no such game.
        TypeError: An argument has the wrong type, or a built-in game is given `options`.
    """
    if name not in GAMES:
        found = suggestion(name, GAMES)
        raise ValueError(
            f"name: expected one of {list(GAMES)}, got {name!r}{', ' if found else ''}{found}; "
            "an environment of Gymnasium is GameContext('gymnasium', co, id or function)"
        )
    if options and name in BUILT_IN:
        raise TypeError(
            f"{next(iter(options))}: options of a built-in game are given as an object, "
            f"cogrs.collector.games.{name}.GameOptions(max_episode_steps=...)"
        )
    module = importlib.import_module(f"cogrs.collector.games.{name}")
    made: context.GameContext = module.GameContext(*args, **options)
    return made
