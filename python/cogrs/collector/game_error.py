"""The error of a run whose game failed."""

from __future__ import annotations


class GameError(RuntimeError):
    """A game failed; its exception, if Python raised one, is the `__cause__`.

    Attributes:
        game: Its number.
    """

    def __init__(self, text: str, game: int) -> None:
        super().__init__(text)
        self.game = game


class GameTimeoutError(GameError, TimeoutError):
    """A game did not return in time."""
