"""Environments for tests, which worker processes import too.

So they import no pytest: it would double the time that a process takes to start.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from itertools import count
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

MADE = count()


class Counting(gymnasium.Env[Any, Any]):
    """Shows seed and step; leaving step k pays k + 1; `length` states an episode."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = spaces.Discrete(5)

    def __init__(self, length: int = 5, cut: bool = False) -> None:
        self.length = length
        self.cut = cut
        self.number = next(MADE)
        self.steps = 0
        self.seed = 0
        self.closed = False

    def shown(self) -> Any:
        return np.array([self.seed, self.steps], np.float64)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        assert seed is not None
        self.seed = seed
        self.steps = 0
        return self.shown(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert action in self.action_space
        self.steps += 1
        over = self.steps == self.length - 1
        return self.shown(), float(self.steps), over and not self.cut, over and self.cut, {}

    def close(self) -> None:
        self.closed = True


class Free(Counting):
    """Takes a reset without a seed, too."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return super().reset(seed=7 if seed is None else seed, options=options)


class Stored(Free):
    """Keeps its steps in a database for one thread alone, and notes the threads that call it."""

    made: list[Stored]

    def __init__(self) -> None:
        super().__init__()
        self.threads = {threading.get_ident()}
        self.calls = 0
        self.order = len(self.made)
        self.made.append(self)
        self.rows = sqlite3.connect(":memory:")
        self.rows.execute("create table steps (step)")
        self.local = threading.local()
        self.local.seen = 0

    def note(self) -> None:
        self.calls += 1
        self.threads.add(threading.get_ident())
        self.local.seen += 1
        self.rows.execute("insert into steps values (?)", (self.steps,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.note()
        return super().reset(seed=seed)

    def step(self, action: Any) -> Any:
        self.note()
        return super().step(action)

    def render(self) -> Any:
        self.note()
        return self.rows.execute("select count(*) from steps").fetchone()[0]

    def close(self) -> None:
        self.note()
        self.rows.close()
        super().close()


def stored() -> type[Stored]:
    """Return the class with a list of its own."""
    return type("Fresh", (Stored,), {"made": []})


class Failing(Counting):
    """Raises when it takes its so many-th action, if `every` divides the episode's seed."""

    def __init__(self, at: int = 3, every: int = 1, exits: bool = False, **more: Any) -> None:
        super().__init__(**more)
        self.at = at
        self.every = every
        self.exits = exits

    def step(self, action: Any) -> Any:
        if self.steps + 1 == self.at and self.seed % self.every == 0:
            if self.exits:
                os._exit(7)
            raise ZeroDivisionError("told to")
        return super().step(action)


class Hanging(Counting):
    """Does not come back from its third step."""

    released = threading.Event()

    def step(self, action: Any) -> Any:
        if self.steps == 2:
            self.released.wait(60)
        return super().step(action)


class Sleeping(Counting):
    """Hangs for ever, in a process that only a signal ends."""

    def step(self, action: Any) -> Any:
        time.sleep(1_000)
        return super().step(action)


class Dicts(Counting):
    """A Dict of an image, a number and a nested Tuple; says which actions are allowed."""

    observation_space = spaces.Dict(
        {
            "image": spaces.Box(0, 255, (3, 4, 2), np.uint8),
            "lives": spaces.Discrete(10),
            "inner": spaces.Tuple([spaces.MultiBinary(3), spaces.MultiDiscrete([4, 5])]),
        }
    )

    def shown(self) -> Any:
        return {
            "image": np.full((3, 4, 2), self.steps, np.uint8),
            "lives": self.steps,
            "inner": (np.array([1, 0, 1], np.int8), np.array([self.steps, 1])),
        }

    def step(self, action: Any) -> Any:
        shown, reward, terminated, truncated, _ = super().step(action)
        mask = np.arange(5) == self.steps
        return shown, reward, terminated, truncated, {"action_mask": mask}


class Many(Counting):
    """Several numbered actions at once."""

    action_space = spaces.MultiDiscrete([3, 4])  # type: ignore[assignment]
    taken: list[Any]

    def step(self, action: Any) -> Any:
        assert action.shape == (2,)
        self.taken = [*getattr(self, "taken", []), action]
        return super().step(action)


class Masked(Counting):
    """Has no mask at first, then the mask of `MASKS` with this name."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.action_space, self.mask = MASKS[name][:2]

    def step(self, action: Any) -> Any:
        *moved, _ = super().step(action)
        return *moved, {"action_mask": self.mask}


MASKS: dict[str, tuple[Any, Any, list[int]]] = {
    "start": (spaces.Discrete(3, start=1), np.array([1, 0, 0], np.int8), [1, 0, 0]),
    "floats": (spaces.Discrete(3), np.array([0.2, 0.0, 0.8]), [1, 0, 1]),
    "booleans": (spaces.Discrete(3), [True, False, True], [1, 0, 1]),
    "wide": (spaces.Discrete(3), np.array([256, 0, -1]), [1, 0, 1]),
    "tuple": (
        spaces.MultiDiscrete([2, 3]),
        (np.array([0, 1], np.int8), np.array([1, 1, 0], np.int8)),
        [0, 1, 1, 1, 0],
    ),
    "nested": (
        spaces.MultiDiscrete([[2, 1], [1, 3]]),
        (([0.0, 0.5], [1.0]), (np.array([1]), [True, False, True])),
        [0, 1, 1, 1, 1, 0, 1],
    ),
    "bits": (spaces.MultiBinary((2, 2)), np.array([[0, 1], [2, 0]], np.int8), [0, 1, 2, 0]),
}


class Searching(Counting):
    """Queries two states, from two threads, before each step, and checks the replies."""

    def bind_query(self, query: Any) -> None:
        self.query = query

    def step(self, action: Any) -> Any:
        answers: dict[int, Any] = {}

        def ask(tid: int) -> None:
            # At the end of the run queries raise.
            with contextlib.suppress(RuntimeError):
                answers[tid] = self.query(tid, np.array([self.seed, self.steps + 10 * tid], float))

        threads = [threading.Thread(target=ask, args=(tid,), daemon=True) for tid in (1, 2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for tid in (1, 2):
            assert answers[tid]["V"].dtype == np.float32
            assert answers[tid]["V"] == self.seed % 1000 + self.steps + 10 * tid
            assert answers[tid]["a"] == tid
        return super().step(action)


class Odd(Counting):
    """Shows something that its space does not have."""

    def __init__(self, shown: str) -> None:
        super().__init__()
        self.odd = {"shape": np.zeros(3), "text": "no", "dtype": np.zeros(2, complex)}[shown]

    def shown(self) -> Any:
        return self.odd if self.steps else super().shown()


class Seeded(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Shows the seed of the episode beside the observation."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        parts = {"shown": env.observation_space, "seed": spaces.Box(0, 2**32, (), np.int64)}
        self.observation_space = spaces.Dict(parts)

    def _shown(self, observation: Any) -> dict[str, Any]:
        return {"shown": observation, "seed": np.int64(self.seed)}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        assert seed is not None
        self.seed = seed
        observation, info = self.env.reset(seed=seed, options=options)
        return self._shown(observation), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._shown(observation), float(reward), terminated, truncated, info


def seeded(name: str) -> Seeded:
    """An environment of Gymnasium, or of a package that registers it there."""
    return Seeded(gymnasium.make(name))


class Logged(Counting):
    """Shows the number of environments made before it, in any process."""

    def __init__(self, log: str) -> None:
        super().__init__()
        with Path(log).open("a+b", buffering=0) as file:
            file.write(b".")
            self.order = file.tell() - 1

    def shown(self) -> Any:
        return np.array([self.order, self.steps], float)


class Rare(Logged):
    """The third that is made raises."""

    def __init__(self, log: str) -> None:
        super().__init__(log)
        if self.order == 2:
            raise OSError("the third")


VALUES: dict[str, Any] = {
    "zeros": np.zeros(2),
    "matrix": np.zeros((1, 3)),
    "empty": np.zeros(0),
    "list": [1, 2],
    "text": "False",
    "number": "1.5",
    "none": None,
    "complex": 1j,
    "masked": np.ma.masked_equal([1], 1),
}


class Returning(Counting):
    """Wraps what its steps return in arrays, or returns one of `VALUES` instead."""

    def __init__(self, shape: str = "", field: str = "", value: str = "") -> None:
        super().__init__(length=4)
        self.shape, self.field, self.value = shape, field, value

    def step(self, action: Any) -> Any:
        shown, reward, terminated, truncated, info = super().step(action)
        outcome: dict[str, Any] = {
            "reward": reward,
            "terminated": terminated,
            "truncated": truncated,
        }
        if self.shape:
            shape = [int(each) for each in self.shape.split()[1:]]
            outcome = {name: np.full(shape, each) for name, each in outcome.items()}
        if self.field:
            outcome[self.field] = VALUES[self.value]
        return shown, *outcome.values(), info


class Informing(Counting):
    """Has infos at odd steps; shows text."""

    observation_space = spaces.Dict(  # type: ignore[assignment]
        {"word": spaces.Text(6), "step": spaces.Discrete(100)}
    )

    def __init__(self, odd: str = "") -> None:
        super().__init__()
        self.odd = odd

    def shown(self) -> Any:
        words = ["", "ab", "\u00e9\U0001f600", "abcdef", "x"]
        word = {"long": "abcdefg", "kind": 3}.get(self.odd, words[self.steps])
        return {"word": word if self.steps else "", "step": self.steps}

    def reset(self, **given: Any) -> Any:
        shown, _ = super().reset(**given)
        return shown, {"won": True, "unknown": object()}

    def step(self, action: Any) -> Any:
        *moved, _ = super().step(action)
        info = {
            "won": self.steps == 3,
            "level": [self.steps, -1],
            "episode": {"r": self.steps / 3},
            "dotted.name": self.steps,
        }
        if self.odd == "info":
            info["level"] = [1, 2, 3]
        return *moved, (info if self.steps % 2 else {"episode": 5})


class Shrinking(gymnasium.Env[Any, Any]):
    """Tries to shrink every file that its process has, at each step."""

    observation_space = gymnasium.spaces.Box(0, 1, (2000,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, **_: Any) -> Any:
        return np.zeros(2000, np.float32), {}

    def step(self, action: int) -> Any:
        for name in os.listdir("/proc/self/fd"):
            link = f"/proc/self/fd/{name}"
            if "memfd:cogrs" in os.readlink(link) if os.path.islink(link) else False:
                try:
                    os.ftruncate(int(name), 0)
                except OSError:
                    continue
                raise RuntimeError("the memory could be shrunk")
        return np.ones(2000, np.float32), 1.0, False, False, {}
