"""What a page knows of an environment and of how it is to be played."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cogrs.space_json import action_hints_from_json, actor_spaces_from_json
from cogrs.validation import check_flag, check_kind, check_number, check_text
from cogrs.web.controls import Controls, names_of_actions, names_of_hints
from cogrs.web.inputs import MODES, Mode

if TYPE_CHECKING:
    from collections.abc import Callable

    import gymnasium

_FASTEST = 240.0


@dataclass(frozen=True, kw_only=True)
class Game:
    """An environment as a page shows it."""

    title: str
    """Its name."""
    controls: Controls | None
    """How a person acts; None for one that only judges."""
    mode: Mode = "hold"
    """Which action a tick takes. "hold": that of the controls that are down when it closes, or the
    default action; "press": it waits for a press; "queue": as "press", but presses that come too
    early wait for their ticks."""
    fps: float = 30.0
    """Ticks per second at most."""
    takeover: bool = False
    """Whether a policy plays, in whose place the person can act."""
    feedback: bool = True
    """Whether judgements are taken."""
    credit: tuple[float, float] | None = None
    """Seconds before a press, from the earlier to the later one, whose steps it judges; None for
    the picture on the screen alone."""
    consent: str = ""
    """A text that people have to consent to first; "" for none."""
    learns: bool = False
    """Whether title and controls are those that the environment of each trial tells."""

    def __post_init__(self) -> None:
        """Check all fields.

        Raises:
            TypeError: A field has the wrong type.
            ValueError: A field has another value than expected.
        """
        check_text("title", self.title)
        check_text("consent", self.consent)
        check_kind("controls", self.controls, Controls | None, "Controls or None")
        check_flag("takeover", self.takeover)
        check_flag("feedback", self.feedback)
        check_flag("learns", self.learns)
        if self.mode not in MODES:
            expected = ", ".join(map(repr, MODES))
            raise ValueError(f"mode: expected one of {expected}, got {self.mode!r}")
        if not 0 < check_number("fps", self.fps) <= _FASTEST:
            raise ValueError(f"fps: expected a number above 0, at most 240, got {self.fps:g}")
        if self.credit is not None:
            early, late = self.credit
            if not check_number("credit", early) > check_number("credit", late) >= 0:
                raise ValueError(f"credit: expected seconds a > b >= 0, got {self.credit}")

    def describe(self) -> dict[str, Any]:
        """Return the fields of `hello`."""
        return {
            "title": self.title,
            "controls": {} if self.controls is None else self.controls.describe(),
            "mode": self.mode,
            "fps": self.fps,
            "takeover": self.takeover,
            "feedback": self.feedback,
            "credit": None if self.credit is None else list(self.credit),
            "consent": self.consent,
        }


def learned_game(game: Game, spaces_json: str, actor: str) -> Game:
    """Return a game with the title and controls that an environment tells of an actor.

    Raises:
        ImportError: Gymnasium is not installed.
        ValueError: It tells nothing of this actor, or a person cannot play its action space.
    """
    spaces = actor_spaces_from_json(spaces_json)
    if actor not in spaces:
        raise ValueError(
            "the environment does not tell its actions, as those of cogrs.sdk do: start "
            "`cogrs web` with --env"
        )
    hints = action_hints_from_json(spaces_json, actor)
    try:
        pairs = [(tuple(keys), int(action)) for keys, action in hints.get("keys") or ()]
        names = [str(name) for name in names_of_hints(hints)]
    except (TypeError, ValueError) as error:
        raise ValueError(f"hints: expected names and keys of actions: {error}") from error
    keys = None if hints.get("keys") is None else dict(pairs)
    title = str(hints.get("title") or game.title)
    return replace(
        game, title=title, controls=Controls(spaces[actor].action, names=names, keys=keys)
    )


def game_of(make: Callable[[], gymnasium.Env[Any, Any]], title: str, **options: Any) -> Game:
    """Return the game of an environment, which is made once and closed.

    Args:
        make: Returns the environment.
        title: Its name.
        options: Other fields of `Game`.

    Raises:
        ValueError: A person cannot play its action space.
    """
    env = make()
    try:
        keys = getattr(env.unwrapped, "get_keys_to_action", None)
        controls = Controls(
            env.action_space,
            names=names_of_actions(env),
            keys=keys() if callable(keys) else None,
        )
    finally:
        env.close()
    return Game(title=title, controls=controls, **options)
