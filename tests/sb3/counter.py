"""An environment that shows how often it moved."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Counter(gymnasium.Env[Any, Any]):
    """Shows how often it moved; ends as its action says, or is truncated after `limit` steps."""

    metadata = {"render_modes": ["rgb_array", "human"]}  # noqa: RUF012

    def __init__(
        self, limit: int = 4, by_key: bool = False, render_mode: str | None = None
    ) -> None:
        box = spaces.Box(-1000, 1000, (2,), np.float32)
        self.by_key = by_key
        self.observation_space = (
            spaces.Dict({"at": box, "limit": spaces.Discrete(9)}) if by_key else box
        )
        self.action_space = spaces.Discrete(2)
        self.limit, self.render_mode = limit, render_mode
        self.at = 0

    def shown(self) -> Any:
        at = np.array([self.at, self.start], np.float32)
        return {"at": at, "limit": np.int64(self.limit)} if self.by_key else at

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.at = 0
        self.start = int(self.np_random.integers(1000)) if not options else options["start"]
        return self.shown(), {"began": self.start}

    def step(self, action: Any) -> Any:
        self.at += 1
        info = {"at": self.at} if self.at % 2 else {"even": {"deep": np.float32(self.at)}}
        return self.shown(), 0.5 * self.at, bool(action == 1), self.at >= self.limit, info

    def render(self) -> Any:
        return np.full((2, 2, 3), self.at, np.uint8)

    def double(self, number: int, *, plus: int = 0) -> int:
        return 2 * number + plus + self.limit
