"""Game contexts of the games in Rust, whose modules are in `cogrs.collector.games`."""

from __future__ import annotations

from dataclasses import dataclass, fields, make_dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from cogrs import _core
from cogrs.collector.context import GameContext
from cogrs.collector.description import GameSpec
from cogrs.game_ids import BUILT_IN_GAMES, class_stem
from cogrs.suggest import check_options
from cogrs.validation import check_integer, check_number

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass
class BuiltInOptions:
    """Options of a built-in game; `GameOptions` of its module have the game's own default.

    Attributes:
        max_episode_steps: Actions after which an episode is truncated, >= 1.
    """

    max_episode_steps: int = 500


class BuiltInContext(GameContext):
    """Many games in Rust: `(options)`, `(co)` or `(co, options)`, and options by keyword."""

    _options_type: ClassVar[type[BuiltInOptions]]
    options: BuiltInOptions

    def __init__(self, *args: Any, **options: Any) -> None:
        self._given = options
        super().__init__(*args)

    def check_options(self) -> None:
        """See `GameContext`."""
        names = [field.name for field in fields(self.options)]
        check_options(self._given, names, f"GameContext({self._game!r})")
        if self._given:
            self.options = replace(self.options, **self._given)
        check_integer("max_episode_steps", self.options.max_episode_steps, 1)
        own = (name for name in names if name != "max_episode_steps")
        self._own = {name: check_number(name, getattr(self.options, name)) for name in own}

    def look(self) -> GameSpec:
        """See `GameContext`."""
        return GameSpec(**_core.game_spec(self._game, self._own))

    def make_core(self, **options: Any) -> _core.CollectorContext:
        """See `GameContext`."""
        limit = self.options.max_episode_steps
        return _core.CollectorContext(
            self._game,
            self.collectors,
            max_episode_steps=limit,
            game_options=self._own,
            **options,
        )


def define_game(
    name: str, own: Mapping[str, float] | None = None, /, **bounds: tuple[Any, Any]
) -> tuple[type[BuiltInContext], type[BuiltInOptions]]:
    """Return the classes of the game context and the options of a built-in game.

    Args:
        name: Its name, which is that of its module.
        own: The options that it has beside `max_episode_steps`, with their defaults.
        **bounds: Lowest and highest values of keys, where they are narrower than the dtype.
    """
    options = {"max_episode_steps": BUILT_IN_GAMES[name][1], **(own or {})}
    listed = ", ".join(f"{option}={default}" for option, default in options.items())
    namespace = {"__module__": f"cogrs.collector.games.{name}"}
    options_type: type[BuiltInOptions] = make_dataclass(
        "GameOptions",
        [(option, type(default), default) for option, default in options.items()],
        bases=(BuiltInOptions,),
        namespace={**namespace, "__doc__": f"Options of the game: `{listed}`."},
    )
    described = (
        "Many games: `GameContext(options)`, `GameContext(co)` or `GameContext(co, options)`; "
        f"options by keyword too: `{listed}`."
    )
    members = {
        "_game": name,
        "_options_type": options_type,
        "bounds": bounds,
        "__doc__": described,
    }
    stem = class_stem(name)
    return type(f"{stem}Context", (BuiltInContext,), {**namespace, **members}), options_type
