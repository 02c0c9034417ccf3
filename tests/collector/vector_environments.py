"""Environments for tests of vectors, which worker processes import too.

So they import no pytest: it would double the time that a process takes to start.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from copy import deepcopy
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from tests.collector.sample_environments import Free

Info = dict[str, Any]
_LONG = 60.0
"""Seconds that a hanging environment hangs."""


class Rich(gymnasium.Env[Any, Any]):
    """Shows a number of its own, the seed and the step, and has infos of many types."""

    observation_space = spaces.Box(-1e9, 1e9, (3,), np.float32)
    action_space = spaces.Discrete(5)
    metadata: Info = {"render_modes": ["rgb_array"], "render_fps": 7}  # noqa: RUF012

    def __init__(self, number: int, *, length: int = 4, render_mode: str | None = None) -> None:
        self.number = number
        self.length = length
        self.render_mode = render_mode
        self.steps = self.seed = 0
        self.taken: deque[int] = deque(maxlen=3)
        self.pid = os.getpid()

    def shown(self) -> Any:
        return np.array([self.number, self.seed, self.steps], np.float32)

    def infos(self) -> Info:
        return {
            "int": self.steps,
            "float": self.steps / 3,
            "text": f"step {self.steps}",
            "none": None,
            "array": np.arange(3) + self.steps,
            "number": np.float32(self.steps),
            "flag": np.bool_(self.steps % 2),
            "list": [1, (2, {"x": np.int16(3)})],
            "inner": {"a": self.steps, "deep": {"b": np.zeros((2, 2), np.uint8)}},
            **({"odd": self.steps} if self.steps % 2 else {}),
        }

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, Info]:
        super().reset(seed=seed)
        self.seed = int(self.np_random.integers(1_000))
        self.steps = 0
        return self.shown(), {**self.infos(), "options": str(options), "first": True}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        self.steps += 1
        self.taken.append(int(action))
        over = self.steps == self.length + self.number % 2
        cut = over and self.number % 3 == 0
        return self.shown(), action / 7, over and not cut, cut, self.infos()

    def render(self) -> Any:
        return np.full((6, 8, 3), self.steps, np.uint8)

    def add(self, first: int, *, second: int = 0) -> int:
        return self.number + first + second

    def refuse(self) -> None:
        raise LookupError("there is nothing", 3)

    def thread(self) -> Any:
        return threading.get_ident()

    def made_of(self) -> Any:
        return object()


class Sized(Rich):
    """Has bounds of its own."""

    def __init__(self, number: int, *, wide: bool = False, **more: Any) -> None:
        super().__init__(number, **more)
        shape = (4,) if wide else (3,)
        self.observation_space = spaces.Box(-1e9 * (1 + number), 1e9, shape, np.float32)


class Moody(Free):
    """Fails as the action says: 2 raises, 3 ends the process, 4 hangs."""

    def __init__(self, number: int) -> None:
        super().__init__(length=50)
        self.number = number
        self.pid = os.getpid()

    def step(self, action: Any) -> Any:
        if action == 2:
            raise ZeroDivisionError("told to")
        if action == 3:
            os._exit(7)
        if action == 4:
            time.sleep(1_000)
        return super().step(action)


class Words(Free):
    """Shows text."""

    observation_space = spaces.Text(5)  # type: ignore[assignment]

    def shown(self) -> Any:
        return "word"


class Telling(Free):
    """Has an info that cannot travel between processes."""

    def step(self, action: Any) -> Any:
        *rest, info = super().step(action)
        return *rest, ({"odd": object()} if action == 2 else info)


def rich_frame(number: int) -> Rich:
    return Rich(number, render_mode="rgb_array")


class Random(gymnasium.Env[Any, Any]):
    """Has observations, rewards, ends, masks and other infos of chance, and may raise."""

    SPACES = (
        spaces.Box(-1, 1, (2, 3), np.float32),
        spaces.Discrete(4, start=-2),
        spaces.MultiDiscrete(np.array([[3, 4], [2, 2]])),
        spaces.Dict({"a": spaces.MultiBinary((2, 2)), "s.t": spaces.Tuple((spaces.Discrete(3),))}),
    )

    def __init__(self, number: int, *, space: int = 0, fails: float = 0.0) -> None:
        self.number, self.fails = number, fails
        # Their own, since seeds of spaces belong to one environment.
        self.observation_space = self.action_space = deepcopy(self.SPACES[space])
        self.steps = 0

    def shown(self) -> Any:
        self.observation_space.seed(int(self.np_random.integers(2**31)))
        return self.observation_space.sample()

    def infos(self) -> Info:
        chance = self.np_random
        values: Info = {
            "int": self.steps,
            "float": float(chance.random()),
            "text": f"step {self.steps}",
            "action_mask": chance.integers(0, 2, 4).astype("bf"[self.number % 2]),
            "nested": (chance.integers(0, 2, 3), chance.integers(0, 2, 2)),
            "inner": {"deep": chance.random(2)},
        }
        return {key: value for key, value in values.items() if chance.random() < 0.6}

    def fail(self, what: str) -> None:
        if self.np_random.random() < self.fails:
            raise RuntimeError(f"{what} of {self.number}")

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, Info]:
        super().reset(seed=seed)
        self.steps = 0
        self.fail("reset")
        return self.shown(), {**self.infos(), "options": str(options)}

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Info]:
        assert self.action_space.contains(action)
        self.steps += 1
        self.fail("step")
        reward = (1.5, 2, np.float32(0.3), True)[self.np_random.integers(4)]
        over, cut = self.np_random.random(2) < 0.15
        return self.shown(), reward, bool(over), cut, {**self.infos(), "action": str(action)}


class Strange(Free):
    """Shows something that is not in its space after action 3, and at first where told to."""

    def __init__(self, number: int, always: bool = False) -> None:
        super().__init__(length=50)
        self.always = always
        self.number = number

    def step(self, action: Any) -> Any:
        shown, *rest = super().step(action)
        return (np.zeros(3) if action == 3 else "no" if action == 4 else shown), *rest

    def reset(self, **given: Any) -> Any:
        shown, info = super().reset(**given)
        return (np.zeros(5) if self.always and self.number == 1 else shown), info


HANGS = 3
"""The action after which an environment hangs."""


class Hanging(Free):
    """Hangs when it takes `HANGS`, until `released`, or in `reset` with option "hang"."""

    released = threading.Event()
    made: list[Hanging] = []  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.made.append(self)

    def step(self, action: Any) -> Any:
        if action == HANGS:
            self.released.wait(_LONG)
        return super().step(action)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if (options or {}).get("hang"):
            self.released.wait(_LONG)
        return super().reset(seed=seed)


class Frees(Free):
    """Has what `HangsElsewhere` has, and does not hang."""

    odd = 0

    def hangs(self) -> None: ...

    def render(self) -> Any: ...


class HangsElsewhere(Frees):
    """Hangs in a method of its own, in `render` or where an attribute is set."""

    def hangs(self) -> None:
        time.sleep(_LONG)

    def render(self) -> Any:
        self.hangs()

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "odd":
            self.hangs()
        super().__setattr__(name, value)


class Paying(Free):
    """Step k pays (k, -k), and uses the same memory for each reward."""

    reward_space = spaces.Box(-100, 100, (2,), np.float32)

    def __init__(self, odd: str = "", **options: Any) -> None:
        super().__init__(**options)
        self.odd = odd
        self.memory = np.zeros(2, np.float32)

    def step(self, action: Any) -> Any:
        shown, reward, *ends = super().step(action)
        self.memory[:] = reward, -reward
        odd = {
            "number": 1.0,
            "none": None,
            "long": np.zeros(3),
            "text": ["a", "b"],
            "list": [reward, -reward],
        }
        return shown, odd.get(self.odd, self.memory), *ends


class Square(Paying):
    """Pays a matrix."""

    reward_space = spaces.Box(-100, 100, (2, 3), np.float32)

    def step(self, action: Any) -> Any:
        shown, reward, *ends = super().step(action)
        return shown, np.multiply.outer(reward, [1.0, 2.0, 3.0]), *ends


class Summed(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Makes rewards numbers, and says so."""

    reward_space = None

    def step(self, action: Any) -> Any:
        shown, reward, *ends = self.env.step(action)
        return shown, float(reward @ [3.0, 1.0]), *ends


def summed() -> Any:
    return Summed(Paying())


def long(index: int) -> Any:
    return Square() if index else Paying()
