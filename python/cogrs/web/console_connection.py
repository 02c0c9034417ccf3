"""One WebSocket of the console: an operator's token first, then requests to end trials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cogrs.web.connection import Connection
from cogrs.web.seats import REFUSED, RefusedError, Seats
from cogrs.web.wire import WireError, write_message

if TYPE_CHECKING:
    from starlette.websockets import WebSocket

    from cogrs.web.console import Console


class ConsoleConnection(Connection):
    """A console's connection, from its first message to its close."""

    def __init__(self, socket: WebSocket, console: Console) -> None:
        """Serve a socket that is not accepted yet."""
        super().__init__(socket, Seats(), lambda _: None)
        self._console = console

    async def _join(self, message: dict[str, Any]) -> bool:
        if not self._console.admits(message.get("token", "")):
            raise RefusedError(REFUSED, "this link is not valid: ask for a new one")
        self._console.add(self._viewer)
        return True

    def _leave_seat(self) -> None:
        self._console.remove(self._viewer)

    async def _handle(self, message: dict[str, Any]) -> None:
        kind = message["type"]
        if kind == "terminate":
            fault = await self._console.terminate(message["trial"])
            fields = {} if fault is None else {"reason": fault}
            self._viewer.tell(write_message("ack", of=kind, ok=fault is None, **fields))
        elif kind == "ping":
            self._viewer.tell(write_message("ack", of=kind, ok=True, id=message.get("id", 0)))
        else:
            raise WireError(f"{kind}: expected terminate or ping, as this is the console")
