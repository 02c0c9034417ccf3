"""The games that come with the package, each a module with the same names in it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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
    """
    if name not in GAMES:
        raise ValueError(
            f"name: expected one of {list(GAMES)}, got {name!r}; "
            "an environment of Gymnasium is GameContext('gymnasium', co, id or function)"
        )
    module = importlib.import_module(f"cogrs.collector.games.{name}")
    made: context.GameContext = module.GameContext(*args, **options)
    return made
