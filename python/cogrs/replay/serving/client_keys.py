"""The key by which each client speaks of itself."""

from __future__ import annotations

import threading

from cogrs.limits import MOST_CLIENTS_OF_KEY
from cogrs.replay.wire import WireError


class ClientKeys:
    """The key that each client has used first, and has to go on using. Any thread may call.

    Clients are known by numbers that they choose, by which messages to them and totals go. For
    each key the clients that sent last are remembered, so that no key displaces another's.
    """

    def __init__(self) -> None:
        """Create it without clients."""
        self._lock = threading.Lock()
        self._keys: dict[int, str] = {}
        self._clients: dict[str, dict[int, None]] = {}
        """Of each key; those that have been silent longest come first."""

    def check(self, uuid: int, key: str) -> None:
        """Refuse another key of a client than before: a WireError. Without keys do nothing."""
        if not key:
            return
        with self._lock:
            if self._keys.setdefault(uuid, key) != key:
                text = f"client {uuid:08x} used another key before: choose another input_uuid"
                raise WireError(text, "key")
            clients = self._clients.setdefault(key, {})
            clients.pop(uuid, None)
            clients[uuid] = None
            if len(clients) > MOST_CLIENTS_OF_KEY:
                silent = next(iter(clients))
                del clients[silent], self._keys[silent]
