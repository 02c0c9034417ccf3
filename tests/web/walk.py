"""A small environment for pages, which programs that tests start import too."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np


class Walk(gymnasium.Env[Any, Any]):
    """Takes three actions, shows a picture per tick, and is over after `length` steps."""

    metadata: ClassVar[Any] = {"render_modes": ["rgb_array"], "render_fps": 30}
    observation_space = gymnasium.spaces.Box(-100, 100, (1,), np.float32)
    action_space: Any = gymnasium.spaces.Discrete(3)
    render_mode = "rgb_array"

    def __init__(self, length: int = 8, taken: list[int] | None = None) -> None:
        self.length = length
        self.taken = [] if taken is None else taken

    def get_keys_to_action(self) -> dict[Any, int]:
        return {(): 2, ("a",): 0, ("d",): 1}

    def reset(self, **_: Any) -> Any:
        self.tick = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self.taken.append(int(action))
        self.tick += 1
        return np.float32([self.tick]), 1.0, self.tick == self.length, False, {}

    def render(self) -> Any:
        return np.full((16, 24, 3), 10 * self.tick % 256, np.uint8)
