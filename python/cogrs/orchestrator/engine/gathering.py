"""The actions that answer one observation set."""

from __future__ import annotations


class Gathering:
    """One place for an action of each actor, open from a dispatch to the next request."""

    def __init__(self, actors: int) -> None:
        """Be closed, with a place for each of so many actors."""
        self._actions: list[bytes | None] = [None] * actors
        self._missing = actors
        self.is_open = False

    def open(self) -> None:
        """Ask every actor for an action; what was gathered before is discarded."""
        self._missing = len(self._actions)
        self._actions = [None] * self._missing
        self.is_open = True

    def put(self, index: int, action: bytes) -> bool:
        """Take the action of an actor; False if it is not asked for one."""
        if not self.is_open or self._actions[index] is not None:
            return False
        self._actions[index] = action
        self._missing -= 1
        return True

    def take_back(self, index: int) -> None:
        """Ask an actor again."""
        if self._actions[index] is not None:
            self._actions[index] = None
            self._missing += 1

    def owes(self, index: int) -> bool:
        """Return whether an actor is asked for an action that it has not given."""
        return self.is_open and self._actions[index] is None

    @property
    def complete(self) -> bool:
        """Whether every actor has answered."""
        return not self._missing

    def close(self) -> list[bytes]:
        """Ask for no more, and return an action an actor: empty where there is none."""
        actions = [action or b"" for action in self._actions] if self.is_open else []
        self.is_open = False
        return actions or [b""] * len(self._actions)
