"""The actors of a trial by name, and its free client slots by class."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from cogrs.orchestrator.engine.client_slot import ClientSlot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cogrs.orchestrator.engine.actor import Actor


class ActorIndex:
    """Finds actors without a look at each: a trial may have thousands."""

    def __init__(self, actors: Sequence[Actor] = ()) -> None:
        """Index all actors of a trial, in their order."""
        self._by_name = {actor.name: actor for actor in actors}
        self._free: dict[str, deque[ClientSlot]] = {}
        for actor in actors:
            if isinstance(actor, ClientSlot):
                self._free.setdefault(actor.actor_class, deque()).append(actor)

    def find(self, name: str) -> Actor | None:
        """Return the actor with this name, or None."""
        return self._by_name.get(name)

    def find_free(self, actor_class: str) -> ClientSlot | None:
        """Return the first slot of a class that no client has taken yet, or None."""
        slots = self._free.get(actor_class, ())
        while slots and slots[0].ready:
            slots.popleft()
        return slots[0] if slots else None

    @property
    def has_free(self) -> bool:
        """Whether there is a slot that no client has taken yet."""
        return any(map(self.find_free, self._free))
