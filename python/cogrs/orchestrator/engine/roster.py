"""The actors of a trial by name, and its places for clients that are vacant."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from cogrs.orchestrator.engine.client import ClientActor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cogrs.orchestrator.engine.actor import Actor


class Roster:
    """Finds actors without looking at all: a trial may have thousands, and a request names one."""

    def __init__(self, actors: Sequence[Actor] = ()) -> None:
        """Take all actors of a trial, in order."""
        self._by_name = {actor.name: actor for actor in actors}
        self._vacant: dict[str, deque[ClientActor]] = {}
        for actor in actors:
            if isinstance(actor, ClientActor):
                self._vacant.setdefault(actor.actor_class, deque()).append(actor)

    def find(self, name: str) -> Actor | None:
        """Return the actor of a name, if there is one."""
        return self._by_name.get(name)

    def find_vacant(self, actor_class: str) -> ClientActor | None:
        """Return the first place of a class that no client has had, if there is one."""
        places = self._vacant.get(actor_class, ())
        while places and places[0].ready:
            places.popleft()
        return places[0] if places else None

    @property
    def has_vacant(self) -> bool:
        """Whether a place is left that no client has had."""
        return any(map(self.find_vacant, self._vacant))
