"""Rendered frames of an environment, as messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cogrs.sdk.codecs import array_message
from cogrs.sdk.trial import Message

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    FrameEncoder = Callable[[npt.NDArray[Any]], npt.NDArray[Any]]


class FrameSender:
    """Sends what an environment's `render` returns to some actors, with the observations of it."""

    def __init__(self, receivers: Sequence[str], encode: FrameEncoder | None = None) -> None:
        """Send to these receivers, encoded; without receivers, nothing is rendered."""
        if isinstance(receivers, str):
            raise TypeError(f"frames_to: expected a sequence of names, got {receivers!r}")
        if encode is not None and not callable(encode):
            raise TypeError(f"encode_frame: expected a function of an array, got {encode!r}")
        self._receivers = tuple(receivers)
        self._encode = encode
        self._waiting: list[Message] = []

    def capture(self, env: Any, tick: int) -> None:
        """Render the frame of a tick; a ValueError if `render` does not return an array."""
        if not self._receivers:
            return
        frame = env.render()
        if not isinstance(frame, np.ndarray):
            got = type(frame).__name__
            raise ValueError(
                f"render: expected an array, as with render_mode='rgb_array'; got {got}"
            )
        message = array_message(frame if self._encode is None else self._encode(frame))
        self._waiting += [Message(receiver, message, tick) for receiver in self._receivers]

    def drain(self) -> list[Message]:
        """Return the messages to send."""
        waiting, self._waiting = self._waiting, []
        return waiting
