"""Environments of a few games, moved as the rows of a desk say."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from cogrs.collector.convert import convert
from cogrs.collector.environments.spaces import MASK

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt

    from cogrs.collector.environments.factory import Factory
    from cogrs.collector.environments.query import Asking
    from cogrs.collector.environments.spaces import Spaces

    Array = npt.NDArray[Any]

_logger = logging.getLogger("cogrs.collector")


@dataclass(frozen=True)
class Desk:
    """Arrays that a driver shares with the core; row k is the k-th of the games that are to move.

    Attributes:
        games: int64: whose row it is.
        seeds: int64: the seed of the episode to begin, or -1 for a step.
        actions: The actions to take.
        rewards: float64: what those paid.
        ends: uint8: 0 going on, 1 terminated, 2 truncated.
        keys: What the states show, by key.
    """

    games: Array
    seeds: Array
    actions: Array
    rewards: Array
    ends: Array
    keys: Mapping[str, Array]

    @classmethod
    def of(cls, arrays: Sequence[Array], keys: Sequence[str]) -> Desk:
        """A desk of the core's arrays, those of these keys last."""
        games, seeds, actions, rewards, ends, *shown = arrays
        return cls(games, seeds, actions, rewards, ends, dict(zip(keys, shown, strict=True)))


@dataclass(frozen=True)
class Failure:
    """A move that failed.

    Attributes:
        row: Whose.
        text: Why, in a line.
        cause: The exception.
    """

    row: int
    text: str
    cause: BaseException


class Stepper(Protocol):
    """What moves games."""

    def move(self, count: int) -> list[Failure]:
        """Do what the first rows of the desk say, and write there what came of it."""

    def check(self) -> None:
        """Raise what has gone wrong while there was nothing to do."""

    def doing(self) -> str:
        """What it is about, for who waits for it in vain."""

    def close(self) -> None:
        """Close the environments."""


class Shower:
    """Writes observations into rows of arrays."""

    def __init__(self, spaces: Spaces, keys: Mapping[str, Array]) -> None:
        """Those keys that there are arrays for."""
        self._leaves = [
            (leaf.path, _writer(leaf.key, keys[leaf.key]))
            for leaf in spaces.leaves
            if leaf.key in keys
        ]
        shown = {leaf.key for leaf in spaces.leaves}
        self._mask = keys.get(MASK) if MASK not in shown else None

    def show(self, row: int, shown: Any, info: Any) -> None:
        """Write one.

        Raises:
            ValueError: It is of another shape than the space, or does not fit its dtype.
            TypeError: It is of another kind.
        """
        for path, write in self._leaves:
            value = shown
            for part in path:
                value = value[part]
            write(row, value)
        if self._mask is not None:
            self._mask[row] = _mask(info, self._mask.shape[1:])


class LocalStepper:
    """Environments in this process, made when their first episode begins."""

    def __init__(
        self, factory: Factory, spaces: Spaces, desk: Desk, asking: Asking | None = None
    ) -> None:
        """Move games on this desk; `asking` has environments told how to ask."""
        self._factory = factory
        self._spaces = spaces
        self._desk = desk
        self._asking = asking
        self._envs: dict[int, Any] = {}
        self._about: tuple[str, int] | None = None
        self._show = Shower(spaces, desk.keys).show

    def adopt(self, game: int, env: Any) -> None:
        """Use this environment as a game's first."""
        self._envs[game] = env
        if self._asking is not None:
            self._asking.introduce(env, game, self._desk)

    def move(self, count: int) -> list[Failure]:
        """See `Stepper`."""
        desk = self._desk
        games, seeds = desk.games[:count].tolist(), desk.seeds[:count].tolist()
        # Of their own: an environment may keep its action, and the desk is written again.
        actions = desk.actions[:count].copy()
        listed = actions.tolist() if self._spaces.count else actions
        rewards, ends = [0.0] * count, [0] * count
        failures = []
        for row, game in enumerate(games):
            try:
                if seeds[row] < 0:
                    rewards[row], ends[row] = self._step(row, game, listed[row])
                else:
                    self._reset(row, game, seeds[row])
            except BaseException as error:
                failures.append(Failure(row, _line(error), error))
                self._give_up(game)
        desk.rewards[:count], desk.ends[:count] = rewards, ends
        self._about = None
        return failures

    def _step(self, row: int, game: int, action: Any) -> tuple[float, int]:
        self._about = ("step", game)
        spaces = self._spaces
        if spaces.count and not 0 <= action - spaces.start < spaces.count:
            end = spaces.start + spaces.count
            raise ValueError(f"a: expected an integer in [{spaces.start}, {end}), got {action}")
        shown, reward, terminated, truncated, info = self._envs[game].step(action)
        self._show(row, shown, info)
        return float(reward), 1 if terminated else 2 if truncated else 0

    def _reset(self, row: int, game: int, seed: int) -> None:
        self._about = ("reset", game)
        env = self._envs.get(game)
        if env is None:
            env = self._factory()
            self.adopt(game, env)
        shown, info = env.reset(seed=seed)
        self._show(row, shown, info)

    def _give_up(self, game: int) -> None:
        """Make another for the game's next episode: after a failure nobody knows its state."""
        self._about = ("close", game)
        env = self._envs.pop(game, None)
        if env is None:  # none could be made
            return
        try:
            env.close()
        except Exception:  # whatever the environment's own code raises; it is gone in any case
            _logger.warning("close() of the environment of game %d failed", game, exc_info=True)

    def check(self) -> None:
        """See `Stepper`."""

    def doing(self) -> str:
        """See `Stepper`."""
        about = self._about
        return "nothing" if about is None else f"the {about[0]} of game {about[1]}"

    def close(self) -> None:
        """See `Stepper`."""
        for game in list(self._envs):
            self._give_up(game)
        self._about = None


def _writer(key: str, array: Array) -> Callable[[int, Any], None]:
    dtype, shape = array.dtype, array.shape[1:]
    numbers = (int, dtype.type) if shape == () and dtype.kind in "iu" else ()

    def write(row: int, value: Any) -> None:
        kind = type(value)
        fits = kind is np.ndarray and value.dtype == dtype and value.shape == shape
        array[row] = value if fits or kind in numbers else convert(key, value, dtype, shape)

    return write


def _mask(info: Any, shape: tuple[int, ...]) -> Any:
    mask = info.get(MASK)
    if mask is None:
        return 1
    if isinstance(mask, tuple | list) and any(np.ndim(part) for part in mask):
        mask = np.concatenate(mask)
    return convert(MASK, np.asarray(mask).astype(np.int8), np.dtype(np.int8), shape)


def _line(error: BaseException) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
