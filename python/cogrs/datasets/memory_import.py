"""Episodes of data sets into a memory: all of them or, after an error, nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cogrs._core import ReplayMemory
from cogrs.replay.convert import convert, refuse_flags
from cogrs.validation import check_kind, check_timeout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import numpy.typing as npt

_STAGED = 1 << 30
"""Bytes of entries that are checked and kept before they are stored; more are read twice."""


class Imported(NamedTuple):
    """What a data set has put into a memory.

    Fields:
        episodes: Episodes stored.
        steps: Actions stored.
        left_out: Actions that could not be stored, because what they led to is not known.
    """

    episodes: int
    steps: int
    left_out: int = 0


class ImportedEpisode(NamedTuple):
    """An episode of a data set, whose arrays fit the memory.

    Fields:
        where: Its name in errors.
        states: (T, *state), records where the memory has them.
        final_state: The state after the last action.
        actions: (T, *action).
        rewards: float32 (T, *reward), finite.
        terminated: Whether the environment ended it there; otherwise it was cut short.
    """

    where: str
    states: npt.NDArray[Any]
    final_state: npt.NDArray[Any]
    actions: npt.NDArray[Any]
    rewards: npt.NDArray[np.float32]
    terminated: bool


class MemoryImport:
    """Stores episodes of a data set in a memory."""

    def __init__(self, memory: Any, bootstrap: Any, wait: float | None) -> None:
        """Store nothing yet.

        Args:
            memory: The memory.
            bootstrap: Value of the last observation of episodes that were cut short, of reward's
                shape, or a function that returns it for an observation; None: no such episodes are
                taken.
            wait: As of `ReplayMemory.add_episode`, for each episode.

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: `wait` is negative, or the memory stores recurrent states.
        """
        check_kind("memory", memory, ReplayMemory, "a ReplayMemory")
        check_timeout("wait", wait)
        if memory.recurrent is not None:
            raise ValueError("memory: expected one without recurrent states, got one with them")
        self._memory: ReplayMemory = memory
        self._bootstrap = bootstrap
        self._wait = wait
        self._template = memory.reward_buf
        if bootstrap is not None and not callable(bootstrap):
            self._value("bootstrap", bootstrap)

    def check_room(self, episodes: int, entries: int) -> None:
        """Refuse a data set that the memory cannot hold as a whole, with a ValueError."""
        most, memory = self._memory.max_episode, self._memory
        if entries > memory.max_step:
            expected = f"max_step of at least {entries}, last observations included"
            raise ValueError(f"memory: expected {expected}, got {memory.max_step}")
        if 0 < most < episodes:
            raise ValueError(f"memory: expected max_episode of at least {episodes}, got {most}")

    def store(self, read: Callable[[], Iterable[ImportedEpisode]], entries: int) -> tuple[int, int]:
        """Store all episodes that `read` returns, which is called again if there are many.

        Returns:
            Episodes and steps.

        Raises:
            ValueError: An episode was cut short and there is no bootstrap value, or the value is
                not finite. Nothing is stored.
        """
        checked: Iterable[tuple[ImportedEpisode, Any]]
        if entries * self._memory.entry_size <= _STAGED:
            checked = list(self._checked(read()))
        else:
            for _ in self._checked(read()):
                pass
            checked = self._checked(read())
        count = steps = 0
        has_values = (
            self._memory.value_buf.size == self._memory.qvest_buf.size == (self._template.size)
        )
        info, value = self._memory.info_buf, self._memory.value_buf
        for episode, bootstrap in checked:
            length = len(episode.rewards)
            self._memory.add_episode(
                *(episode.states, episode.actions, episode.rewards, np.ones(length, np.float32)),
                np.zeros((length, *value.shape), np.float32),
                np.zeros((length, *info.shape), info.dtype),
                1.0,
                do_update_value=has_values,
                do_update_weight=has_values,
                bootstrap_value=bootstrap,
                final_state=episode.final_state,
                wait=self._wait,
            )
            count, steps = count + 1, steps + length
        return count, steps

    def _checked(
        self, episodes: Iterable[ImportedEpisode]
    ) -> Iterator[tuple[ImportedEpisode, npt.NDArray[Any] | None]]:
        for episode in episodes:
            if episode.terminated:
                yield episode, None
                continue
            given = self._bootstrap
            if given is None:
                expected = "a value, or a function of the observation"
                why = f"as {episode.where} was truncated"
                raise ValueError(f"bootstrap: expected {expected}, {why}, got None")
            if callable(given):
                given = given(_shown(episode.final_state))
            yield episode, self._value(f"bootstrap of {episode.where}", given)

    def _value(self, name: str, given: Any) -> npt.NDArray[Any]:
        refuse_flags(name, given)
        made = convert(name, given, self._template.dtype, self._template.shape)
        if not np.isfinite(made).all():
            raise ValueError(f"{name}: expected finite numbers, got other numbers")
        return made


def column(name: str, given: Any, template: npt.NDArray[Any], rows: int) -> npt.NDArray[Any]:
    """Return a column of a data set as the memory stores it; copied only if its dtype differs.

    Raises:
        ValueError: The shape differs, or the memory's dtype does not hold a number.
        TypeError: The dtype cannot be converted.
    """
    shape = (rows, *template.shape)
    if isinstance(given, np.ndarray) and (given.dtype, given.shape) == (template.dtype, shape):
        return given
    return convert(name, given, template.dtype, shape)


def rewards_of(
    name: str, given: Any, template: npt.NDArray[Any], rows: int
) -> npt.NDArray[np.float32]:
    """Return rewards likewise; a ValueError if one of them is not finite in float32."""
    made = column(name, given, template, rows)
    if not np.isfinite(made).all():
        step = int(np.argwhere(~np.isfinite(made))[0][0])
        raise ValueError(f"{name}: expected finite numbers, got {made[step]} at step {step}")
    return made


def _shown(state: npt.NDArray[Any]) -> Any:
    """Return a state as samples have it: a dict or tuple where it is a record of these."""
    from cogrs.nested import apart

    return apart(state)
