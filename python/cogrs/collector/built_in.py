"""Game contexts of the games in Rust, whose modules are in `cogrs.collector.games`."""

from __future__ import annotations

from dataclasses import dataclass, make_dataclass
from typing import Any, ClassVar

from cogrs import _core
from cogrs.collector.context import GameContext
from cogrs.collector.description import GameSpec
from cogrs.game_ids import BUILT_IN_GAMES, class_stem
from cogrs.validation import check_integer


@dataclass
class BuiltInOptions:
    """Options of a built-in game; `GameOptions` of its module have the game's own default.

    Attributes:
        max_episode_steps: Actions after which an episode is truncated, >= 1.
    """

    max_episode_steps: int = 500


class BuiltInContext(GameContext):
    """Many games in Rust: `(options)`, `(co)` or `(co, options)`."""

    _options_type: ClassVar[type[BuiltInOptions]]
    options: BuiltInOptions

    def check_options(self) -> None:
        """See `GameContext`."""
        check_integer("max_episode_steps", self.options.max_episode_steps, 1)

    def look(self) -> GameSpec:
        """See `GameContext`."""
        return GameSpec(**_core.game_spec(self._game))

    def make_core(self, **options: Any) -> _core.CollectorContext:
        """See `GameContext`."""
        limit = self.options.max_episode_steps
        return _core.CollectorContext(
            self._game, self.collectors, max_episode_steps=limit, **options
        )


def define_game(
    name: str, **bounds: tuple[Any, Any]
) -> tuple[type[BuiltInContext], type[BuiltInOptions]]:
    """Return the classes of the game context and the options of a built-in game.

    Args:
        name: Its name, which is that of its module.
        **bounds: Lowest and highest values of keys, where they are narrower than the dtype.
    """
    limit = BUILT_IN_GAMES[name][1]
    namespace = {"__module__": f"cogrs.collector.games.{name}"}
    options: type[BuiltInOptions] = make_dataclass(
        "GameOptions",
        [("max_episode_steps", int, limit)],
        bases=(BuiltInOptions,),
        namespace={**namespace, "__doc__": f"Options of the game: `max_episode_steps={limit}`."},
    )
    described = (
        "Many games: `GameContext(options)`, `GameContext(co)` or `GameContext(co, options)`."
    )
    members = {"_game": name, "_options_type": options, "bounds": bounds, "__doc__": described}
    stem = class_stem(name)
    return type(f"{stem}Context", (BuiltInContext,), {**namespace, **members}), options
