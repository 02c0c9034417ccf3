"""What a game that fails makes of a run."""

from __future__ import annotations


class GameError(RuntimeError):
    """A game failed. What it raised, if that was an exception of Python's, is the `__cause__`.

    Attributes:
        game: Its number.
    """

    def __init__(self, text: str, game: int) -> None:
        """Of this game."""
        super().__init__(text)
        self.game = game
