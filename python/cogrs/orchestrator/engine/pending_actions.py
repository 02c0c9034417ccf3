"""The actions that answer one observation set."""

from __future__ import annotations


class PendingActions:
    """A barrier: one action of each actor, open from a dispatch to the next request."""

    def __init__(self, actors: int) -> None:
        """Create a closed barrier for a number of actors."""
        self._actions: list[bytes | None] = [None] * actors
        self._missing = actors
        self.is_open = False
        self.stood_in: list[int] = []
        """Numbers of the actors whose default actions were put since it was last opened."""

    def open(self) -> None:
        """Expect an action of every actor, and discard the earlier ones."""
        self._missing = len(self._actions)
        self._actions = [None] * self._missing
        self.stood_in = []
        self.is_open = True

    def put(self, index: int, action: bytes, *, stands_in: bool = False) -> bool:
        """Take the action of an actor, or its default one; return False if it is not expected."""
        if not self.is_open or self._actions[index] is not None:
            return False
        if stands_in:
            self.stood_in.append(index)
        self._actions[index] = action
        self._missing -= 1
        return True

    def take_back(self, index: int) -> None:
        """Expect the action of an actor again."""
        if self._actions[index] is not None:
            self._actions[index] = None
            self._missing += 1
            self.stood_in = [each for each in self.stood_in if each != index]

    def owes(self, index: int) -> bool:
        """Return whether the action of an actor is expected and missing."""
        return self.is_open and self._actions[index] is None

    @property
    def complete(self) -> bool:
        """Whether every actor has answered."""
        return not self._missing

    def close(self) -> list[bytes]:
        """Expect no more actions, and return one for each actor: empty where it is missing."""
        actions = [action or b"" for action in self._actions] if self.is_open else []
        self.is_open = False
        return actions or [b""] * len(self._actions)
