"""The connections that watch one place, and what a new one is shown first."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from cogrs.web.picture import PictureEncoder
from cogrs.web.reasons import LAST
from cogrs.web.wire import write_message

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from cogrs.web.viewer import Viewer

_logger = logging.getLogger("cogrs.web")


class Audience:
    """Shows all viewers of a place its state, its ticks, and the latest picture."""

    def __init__(self) -> None:
        """Create an audience of nobody."""
        self.state = "waiting"
        self.has_pictures = False
        """Whether this trial has shown one."""
        self._viewers: set[Viewer] = set()
        self.reason = ""
        """Why it is so, in words for people."""
        self._trial = ""
        self._score = 0.0
        self._state_text = write_message("state", state="waiting", reason="", trial="", score=0.0)
        self._tick: str | None = None
        self._picture: bytes | None = None
        self._encoder: PictureEncoder | None = None
        self._pending: tuple[int, npt.NDArray[np.uint8]] | None = None
        self._encoding: asyncio.Task[None] | None = None

    def add(self, viewer: Viewer) -> None:
        """Show a viewer all that there is to see now, and from now on."""
        self._viewers.add(viewer)
        viewer.tell(self._state_text)
        if self._tick is not None:
            viewer.show_tick(self._tick)
        if self._picture is not None:
            viewer.show_picture(self._picture)

    def remove(self, viewer: Viewer) -> None:
        """Show a viewer nothing more."""
        self._viewers.discard(viewer)

    def begin(self, trial: str) -> None:
        """Note that a trial begins."""
        self._trial, self._tick, self._picture, self._pending = trial, None, None, None
        self.has_pictures = False
        self.set_state("waiting", "", 0.0)

    def set_state(self, state: str, reason: str = "", score: float = 0.0) -> None:
        """Send the state to all, if it has changed."""
        changed = (state, reason) != (self.state, self.reason)
        self.state, self.reason, self._score = state, reason, score
        text = write_message("state", state=state, reason=reason, trial=self._trial, score=score)
        if changed or text != self._state_text:
            tells = changed or state != "playing"
            self._state_text = text
            for viewer in self._viewers if tells else ():
                viewer.tell(text)

    def say_last(self, score: float) -> None:
        """Add to the reason that no further trial follows."""
        if self.state == "ended":
            self.set_state("ended", f"{self.reason} {LAST}", score)

    def show_tick(self, text: str) -> None:
        """Show a tick."""
        self._tick = text
        for viewer in self._viewers:
            viewer.show_tick(text)

    def show_picture(self, tick: int, pixels: Any) -> None:
        """Show a picture once it is encoded; one that waits for that gives way to it."""
        self.has_pictures = True
        self._pending = (tick, pixels)
        if self._encoding is None:
            self._encoding = asyncio.ensure_future(self._encode())

    async def _encode(self) -> None:
        try:
            while self._pending is not None:
                (tick, pixels), self._pending = self._pending, None
                if self._encoder is None:
                    self._encoder = PictureEncoder()
                picture = await asyncio.to_thread(self._encoder.encode, tick, pixels)
                self._picture = picture
                for viewer in self._viewers:
                    viewer.show_picture(picture)
        except (ImportError, ValueError) as error:
            _logger.warning("no pictures are shown: %s", error)
            self.set_state(self.state, "The pictures of this game cannot be shown.", self._score)
        finally:
            self._encoding = None
