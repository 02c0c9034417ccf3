"""Pictures of an environment, as messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cogrs.sdk.codecs import array_message
from cogrs.sdk.trial import Message

if TYPE_CHECKING:
    from collections.abc import Sequence


class FrameSender:
    """Sends what an environment's `render` returns to whoever wants it.

    The first observations travel without messages, so their picture comes with the next ones.
    """

    def __init__(self, receivers: Sequence[str]) -> None:
        """Send to these; to nobody, and render nothing, if there are none."""
        if isinstance(receivers, str):
            raise TypeError(f"frames_to: expected a sequence of names, got {receivers!r}")
        self._receivers = tuple(receivers)
        self._waiting: list[Message] = []

    def take(self, env: Any, tick: int) -> None:
        """Keep the picture of a tick.

        Raises:
            ValueError: The environment makes no pictures.
        """
        if not self._receivers:
            return
        frame = env.render()
        if not isinstance(frame, np.ndarray):
            got = type(frame).__name__
            raise ValueError(f"render: expected an array, as of render_mode='rgb_array'; got {got}")
        message = array_message(frame)
        self._waiting += [Message(receiver, message, tick) for receiver in self._receivers]

    def give(self) -> list[Message]:
        """Return what is to be sent."""
        waiting, self._waiting = self._waiting, []
        return waiting
