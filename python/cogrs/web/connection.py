"""One WebSocket of a page: it joins a seat, and then its messages go to the place."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from starlette.websockets import WebSocketDisconnect, WebSocketState

from cogrs.limits import WEB_JOIN_SECONDS, WEB_MESSAGE_BYTES, WEB_MESSAGES_PER_SECOND
from cogrs.web.judgements import Judgement, JudgementError
from cogrs.web.seats import ELSEWHERE, RefusedError
from cogrs.web.viewer import Viewer
from cogrs.web.wire import WireError, read_message, write_message

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.websockets import WebSocket

    from cogrs.web.place import Place
    from cogrs.web.seats import Seat, Seats

_BAD, _LARGE, _LATER = 1008, 1009, 1013
"""Codes for a message that is wrong, one that is too large, and too many connections."""

_REASON_BYTES = 120
"""A reason travels in a control frame of 125 bytes."""


class Connection:
    """A page's connection, from its first message to its close."""

    def __init__(self, socket: WebSocket, seats: Seats, start: Callable[[Place], None]) -> None:
        """Serve a socket that is not accepted yet; `start` lets a place play its trials."""
        self._socket = socket
        self._seats = seats
        self._start = start
        self._seat: Seat | None = None
        self._viewer = Viewer(socket.send_text, socket.send_bytes)
        self._allowance = float(WEB_MESSAGES_PER_SECOND)
        self._counted = 0.0
        self._judging: set[asyncio.Task[None]] = set()

    def end(self, code: int, reason: str) -> None:
        """Close the connection, after what waits to be sent."""
        self._viewer.close(code, reason)

    async def serve(self, *, crowded: bool) -> None:
        """Read messages, and send what there is to see, until either side closes."""
        await self._socket.accept()
        if crowded:
            self.end(_LATER, "too many pages are connected")
        tasks = [asyncio.ensure_future(self._viewer.run())]
        if not crowded:
            tasks.append(asyncio.ensure_future(self._read()))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done() and (error := task.exception()) is not None:
                    raise error
        except (WebSocketDisconnect, RuntimeError):
            return  # the page has closed it
        finally:
            self._leave_seat()  # first, since this task may be cancelled at the next await
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await self._close()

    async def _close(self) -> None:
        code, reason = self._viewer.closing or (1001, "")
        if self._socket.application_state is WebSocketState.CONNECTED:
            try:
                async with asyncio.timeout(1.0):
                    text = reason.encode()[:_REASON_BYTES].decode(errors="ignore")
                    await self._socket.close(code, text)
            except (RuntimeError, TimeoutError, OSError, WebSocketDisconnect):
                return  # it is closed already

    async def _read(self) -> None:
        """Handle messages; whatever is wrong with one closes the connection, with the reason."""
        try:
            async with asyncio.timeout(WEB_JOIN_SECONDS):
                first = await self._next_message()
            if first is None or first["type"] != "join":
                raise WireError("expected a join message first")
            if not await self._join(first):
                await asyncio.Event().wait()  # until the reason is sent
            while True:
                message = await self._next_message()
                if message is not None:
                    await self._handle(message)
        except WireError as error:
            self.end(_BAD, str(error))
        except RefusedError as error:
            self.end(error.code, str(error))
        except TimeoutError:
            self.end(_BAD, f"expected a join message within {WEB_JOIN_SECONDS:g} s")
        await asyncio.Event().wait()  # the viewer sends what waits, and ends the connection

    async def _next_message(self) -> dict[str, Any] | None:
        received = await self._socket.receive()
        if received["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(received.get("code", 1005))
        self._count()
        text = received.get("text")
        if text is None:
            raise WireError("expected a text message")
        if len(text) > WEB_MESSAGE_BYTES:
            raise RefusedError(_LARGE, f"expected at most {WEB_MESSAGE_BYTES} bytes in a message")
        return read_message(text)

    def _count(self) -> None:
        now, most = asyncio.get_running_loop().time(), float(WEB_MESSAGES_PER_SECOND)
        self._allowance = min(most, self._allowance + (now - self._counted) * most)
        self._counted = now
        self._allowance -= 1
        if self._allowance < 0:
            raise WireError(f"expected at most {most:g} messages per second")

    # The seat.

    async def _join(self, message: dict[str, Any]) -> bool:
        """Take a seat; return False if another tab has it."""
        token, seat = message.get("token", ""), None
        if not self._seats.is_good(token):  # a new link counts for more than an old session
            seat = self._seats.find(message.get("session", ""))
        if seat is None:
            seat = self._seats.admit(token)
        if not message.get("here"):
            await _until_free(seat)
        if seat.viewer is not None:
            if not message.get("here"):
                self._tell_elsewhere(self._viewer, "this session is open in another tab")
                self.end(ELSEWHERE, "this session is open in another tab")
                return False
            other, seat.viewer = seat.viewer, None
            seat.place.audience.remove(other)
            self._tell_elsewhere(other, "this session went on in another tab")
            other.close(ELSEWHERE, "this session went on in another tab")
        self._seat, seat.viewer = seat, self._viewer
        self._take_part(seat, message)
        return True

    def _tell_elsewhere(self, viewer: Viewer, reason: str) -> None:
        viewer.tell(write_message("state", state="elsewhere", reason=reason))

    def _take_part(self, seat: Seat, message: dict[str, Any]) -> None:
        """Send what the place is; show it, once name and consent are given."""
        place = seat.place
        if message.get("name"):
            seat.name = message["name"]
        agreed = not place.game.consent or seat.role == "spectator" or bool(message.get("consent"))
        seat.ready = seat.ready or (agreed and message.get("ready", True))
        feedback = self._greet()
        if seat.ready:
            for given in list(place.judgements)[-_SHOWN:] if feedback else ():
                self._viewer.tell(_ack_of(given))
            place.audience.add(self._viewer)
            place.changed.add(self._greet_again)
            if seat.role != "spectator":
                place.inputs.set(present=True)
                self._start(place)

    def _greet_again(self) -> None:
        """Send what the place is by now, unless another tab has taken over."""
        if self._seat is not None and self._seat.viewer is self._viewer:
            self._greet()

    def _greet(self) -> bool:
        """Send what the place is; return whether judgements are taken."""
        seat = self._seat
        assert seat is not None
        described = seat.place.game.describe()
        if seat.role != "player":
            described["controls"], described["takeover"] = {}, False
        if seat.role == "spectator":
            described["feedback"] = False
        hello = write_message(
            "hello",
            session=seat.key,
            role=seat.role,
            ready=seat.ready,
            messages_per_second=WEB_MESSAGES_PER_SECOND,
            **described,
        )
        self._viewer.tell(hello)
        return bool(described["feedback"])

    def _leave_seat(self) -> None:
        seat, self._seat = self._seat, None
        if seat is not None:
            seat.place.changed.discard(self._greet_again)
        if seat is None or seat.viewer is not self._viewer:
            return
        seat.viewer = None
        seat.place.audience.remove(self._viewer)
        if seat.role != "spectator":
            seat.place.inputs.release()
            seat.place.inputs.set(present=False)

    # Messages.

    async def _handle(self, message: dict[str, Any]) -> None:
        kind, seat = message["type"], self._seat
        assert seat is not None
        if seat.viewer is not self._viewer:
            return  # another tab has taken over
        if kind == "join":
            if not seat.ready:
                self._take_part(seat, message)
        elif kind == "ping":
            self._ack("ping", ok=True, id=message.get("id", 0))
        elif seat.role == "spectator":
            self._ack(kind, ok=False, reason="spectators only watch")
        elif not seat.ready:
            raise WireError(f"{kind}: expected a join message with name and consent before it")
        else:
            await self._play(seat, kind, message)

    async def _play(self, seat: Seat, kind: str, message: dict[str, Any]) -> None:
        if seat.role == "judge" and kind in ("action", "pause"):
            self._ack(kind, ok=False, reason="judges watch and judge, and do not act")
        elif kind == "action":
            if (fault := seat.place.act(message)) is not None:
                self._ack(kind, ok=False, reason=fault)
        elif kind == "feedback":
            # Storing one may take a while, in which the person goes on acting.
            task = asyncio.ensure_future(self._judge(seat, message))
            self._judging.add(task)
            task.add_done_callback(self._judging.discard)
        elif kind == "pause":
            seat.place.pause(on=message["on"])
        elif kind == "leave":
            await seat.place.leave()

    async def _judge(self, seat: Seat, message: dict[str, Any]) -> None:
        try:
            given = await seat.place.judge(message, lambda sent: self._viewer.tell(_ack_of(sent)))
        except JudgementError as error:
            self._ack("feedback", ok=False, reason=str(error))
        else:
            self._viewer.tell(_ack_of(given))

    def _ack(self, of: str, **fields: Any) -> None:
        self._viewer.tell(write_message("ack", of=of, **fields))


_SHOWN = 100
"""Judgements that a page is told when it comes back."""


_LOOKS = 20
_RELOAD = 0.5
"""Seconds in which the connection before a reload of the page is seen to close."""


async def _until_free(seat: Seat) -> None:
    """Wait a little for the connection of a seat to close."""
    for _ in range(_LOOKS):
        if seat.viewer is not None:
            await asyncio.sleep(_RELOAD / _LOOKS)


def _ack_of(given: Judgement) -> str:
    known = {} if given.stored is None else {"stored": given.stored}
    return write_message(
        "ack",
        of="feedback",
        ok=True,
        id=given.id,
        tick=given.ticks[-1],
        value=given.value,
        undone=given.undone,
        **known,
    )
