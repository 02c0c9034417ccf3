"""One WebSocket of the console: an operator's token first, then what the operator asks for."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from cogrs.web.connection import Connection
from cogrs.web.seats import REFUSED, RefusedError, Seats
from cogrs.web.wire import WireError, write_message

if TYPE_CHECKING:
    from starlette.websockets import WebSocket

    from cogrs.web.console import Console
    from cogrs.web.recording import Recording


class ConsoleConnection(Connection):
    """A console's connection, from its first message to its close."""

    def __init__(self, socket: WebSocket, console: Console) -> None:
        """Serve a socket that is not accepted yet."""
        super().__init__(socket, Seats(), lambda _: None)
        self._console = console
        self._recording: Recording | None = None
        self._opening: asyncio.Task[None] | None = None
        self._unwanted = threading.Event()
        """Set when the trial that is being read is not wanted any more."""

    async def _join(self, message: dict[str, Any]) -> bool:
        if not self._console.admits(message.get("token", "")):
            raise RefusedError(REFUSED, "this link is not valid: ask for a new one")
        self._console.add(self._viewer)
        return True

    def _leave_seat(self) -> None:
        self._console.remove(self._viewer)
        self._close_recording()

    async def _handle(self, message: dict[str, Any]) -> None:
        kind = message["type"]
        if kind == "terminate":
            fault = await self._console.terminate(message["trial"])
            self._answer(kind, fault)
        elif kind == "ping":
            self._ack(kind, ok=True, id=message.get("id", 0))
        elif kind == "list":
            await self._list(message)
        elif kind == "open":
            self._open(message["trial"])
        elif kind == "show":
            await self._show(message)
        else:
            raise WireError(f"{kind}: expected a message for the console")

    def _answer(self, kind: str, fault: str | None) -> None:
        fields = {} if fault is None else {"reason": fault}
        self._ack(kind, ok=fault is None, **fields)

    # Stored trials.

    async def _list(self, message: dict[str, Any]) -> None:
        stored = self._console.stored
        if stored is None:
            self._answer("list", _NO_STORE)
            return
        try:
            trials = await stored.newest(message.get("until"), people=bool(message.get("people")))
        except stored.errors as error:
            self._answer("list", _in_words(error))
        else:
            self._viewer.tell(write_message("stored", trials=trials))

    def _open(self, trial_id: str) -> None:
        """Read a trial in place of the one before; the operator goes on meanwhile."""
        self._close_recording()
        self._unwanted = threading.Event()
        self._opening = asyncio.ensure_future(self._read_trial(trial_id, self._unwanted))

    async def _read_trial(self, trial_id: str, unwanted: threading.Event) -> None:
        stored = self._console.stored
        if stored is None:
            self._answer("open", _NO_STORE)
            return
        try:
            recording = await stored.open(trial_id, unwanted.is_set)
        except InterruptedError:
            return
        except stored.errors as error:
            if not unwanted.is_set():
                self._answer("open", _in_words(error))
            return
        if unwanted.is_set():
            recording.close()
            return
        self._recording = recording
        self._viewer.tell(write_message("timeline", **recording.timeline()))

    def _close_recording(self) -> None:
        self._unwanted.set()
        recording, self._recording = self._recording, None
        if recording is not None:
            recording.close()

    async def _show(self, message: dict[str, Any]) -> None:
        recording, tick = self._recording, message["tick"]
        if recording is None or recording.trial_id != message["trial"]:
            self._answer("show", "trial: expected the one that was opened")
            return
        try:
            step = await asyncio.to_thread(recording.step, tick)
            picture = await asyncio.to_thread(recording.picture, tick)
        except (ImportError, OSError, ValueError) as error:
            self._answer("show", _in_words(error))
            return
        self._viewer.tell(write_message("step", picture=picture is not None, **step))
        if picture is not None:
            self._viewer.show_picture(picture)


_NO_STORE = "this console has no store of trials: give --store"


def _in_words(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
