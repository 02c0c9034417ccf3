"""Environments of a vector that one thread makes, moves and closes, one after the other."""

from __future__ import annotations

from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from cogrs.collector.environments.env_api import (
    attribute_of,
    close_env,
    error_line,
    set_attribute,
)
from cogrs.collector.environments.outcome import flag_of, reward_of
from cogrs.collector.environments.restarts import Restarts
from cogrs.collector.game_error import GameError
from cogrs.spaces import reward_shape_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Begin = tuple[int | None, Mapping[str, Any] | None]
    """Seed and options of an episode."""
    Step = tuple[Any, Any, Any, Any, dict[str, Any]]
    """What `step` of an environment returns."""
    Columns = tuple[Sequence[Any], ...]
    """The same of several environments, part by part."""

_FLOATS = {float, np.float64}
_FLAGS = {bool, np.bool_}


class SerialEnvs:
    """The environments of a vector that belong to one thread, which makes all calls here.

    An environment that raised, or whose move Ctrl-C broke off, is closed, since its state is
    unknown; its next episode begins in a new one. All others stay where they are.

    Attributes:
        envs: The environments, None where one is to be made.
    """

    def __init__(
        self,
        make: Callable[[int], Any],
        numbers: range,
        *,
        same_step: bool = False,
        restarts: Restarts | None = None,
    ) -> None:
        """Take the numbers of the environments.

        Args:
            make: Makes an environment by its number.
            numbers: Their numbers.
            same_step: Whether the step that ends an episode begins the next one.
            restarts: The policy for environments that fail.
        """
        self._make = make
        self._numbers = numbers
        self._same_step = same_step
        self._restarts = restarts or Restarts()
        self.envs: list[Any] = [None] * len(numbers)
        # The next move of each: its `step`, or the begin of an episode.
        self._begin_moves = [partial(self._begin_instead, at) for at in range(len(numbers))]
        self._moves: list[Callable[[Any], Step]] = list(self._begin_moves)
        # Seeds and options of next episodes, where a reset gave them.
        self._begins: dict[int, Begin] = {}
        self._shown: list[Any] = [None] * len(numbers)
        self._results: list[Any] = list(self._shown)
        self._reward_shape: tuple[int, ...] = ()
        self._no_reward: Any = 0.0

    def make(self, at: int) -> None:
        """Make an environment, by its position here."""
        env = self.envs[at] = self._make(self._numbers[at])
        shape = reward_shape_of(env)
        if shape:
            self._reward_shape, self._no_reward = shape, np.zeros(shape)

    def reset(self, begins: Mapping[int, Begin]) -> list[tuple[Any, dict[str, Any]]]:
        """Start episodes, in these environments by number.

        The next move finishes a reset that was broken off, with the same seeds.

        Returns:
            Each environment's observation and infos, which are empty where it stays.

        Raises:
            GameError: An environment could not be made, or raised.
        """
        for at, number in enumerate(self._numbers):
            if number in begins:
                self._begins[at], self._moves[at] = begins[number], self._begin_moves[at]
        results = self._results = []
        try:
            for at, shown in enumerate(self._shown):
                results.append(self._begin_again(at) if at in self._begins else (shown, {}))
        except BaseException as error:
            self._break_off(len(results), error)
        return results

    def _begin_again(self, at: int) -> tuple[Any, dict[str, Any]]:
        try:
            return self._begin(at)
        except BaseException as error:
            return self._restarted(at, error)

    def step(self, actions: Sequence[Any]) -> Columns:
        """Take an action in each environment; one whose episode is over begins the next instead.

        Returns:
            Observations, rewards, flags `terminated` and `truncated`, infos.

        Raises:
            GameError: An environment raised, and those behind it have not moved; or one returned
                something other than an observation, a reward, two flags and infos.
        """
        results = self._results = []
        add = results.append
        moves = zip(self._moves, actions, strict=True)
        try:
            while len(results) < len(self._moves):
                try:
                    for move, action in moves:
                        add(move(action))
                except BaseException as error:
                    if len(results) == len(self._moves):  # Ctrl-C after the last
                        raise
                    add(self._cut_short(len(results), error))
            return self._columns(results)
        except BaseException as error:
            self._note_ends(results)
            if len(results) < len(self._moves):
                self._break_off(len(results), error)
            raise

    def cut_short(self, at: int, error: Exception) -> Step:
        """Return the step of an environment whose observation was refused, as if it had failed.

        Raises:
            GameError: It may not restart.
        """
        try:
            step = self._cut_short(at, error)
        except BaseException as failed:
            self._break_off(at, failed)
        if not self._same_step:
            self._moves[at] = self._begin_moves[at]
        return step

    def _cut_short(self, at: int, error: BaseException) -> Step:
        """Return the step of an environment that failed: an episode of a new one begins."""
        last = self._shown[at]
        shown, info = self._restarted(at, error)
        if self._same_step:
            info = {"final_obs": last, "final_info": {}, **info}
        return shown, self._no_reward, False, True, info

    def _restarted(self, at: int, error: BaseException) -> tuple[Any, dict[str, Any]]:
        """Return the first state of a new environment; raise the error after the last restart."""
        while self._restarts.take(self._numbers[at], error):
            # Before another is made: it may hold a resource that exists only once.
            self.give_up(at)
            try:
                return self._begin(at)
            except BaseException as again:
                error = again
        raise error

    def _columns(self, results: Sequence[Step]) -> Columns:
        try:
            shown, rewards, terminated, truncated, infos = zip(*results, strict=True)
        except (TypeError, ValueError):  # a result that is not a tuple of five
            plain = False
        else:
            flags = {*map(type, terminated), *map(type, truncated)}
            plain = flags <= _FLAGS and _FLOATS.issuperset(map(type, rewards))
            plain = plain and not self._reward_shape
        if not plain:
            columns = zip(*self._checked(results), strict=True)
            shown, rewards, terminated, truncated, infos = columns
        self._shown = list(shown)
        if not self._same_step and (any(terminated) or any(truncated)):
            for at, (ended, cut) in enumerate(zip(terminated, truncated, strict=True)):
                if ended or cut:
                    self._moves[at] = self._begin_moves[at]
        return shown, rewards, terminated, truncated, infos

    def _checked(self, results: Sequence[Step]) -> list[Step]:
        checked: list[Step] = []
        for result in results:
            try:
                shown, reward, terminated, truncated, info = result
                flags = flag_of("terminated", terminated), flag_of("truncated", truncated)
                checked.append((shown, reward_of(reward, self._reward_shape), *flags, info))
            except Exception as error:
                at = len(checked)
                try:
                    checked.append(self._cut_short(at, error))
                except BaseException as failed:
                    self._break_off(at, failed)
        return checked

    def _note_ends(self, results: Sequence[Step]) -> None:
        """Keep observations and ends of moves whose results get lost."""
        for at, result in enumerate(results):
            try:
                shown, _, terminated, truncated, _ = result
                over = flag_of("terminated", terminated) or flag_of("truncated", truncated)
            except (TypeError, ValueError):
                shown, over = None, True
            self._shown[at] = shown
            if over and not self._same_step:
                self._moves[at] = self._begin_moves[at]

    def starting(self) -> list[bool]:
        """Return whether the next move of each begins an episode."""
        return [move is begin for move, begin in zip(self._moves, self._begin_moves, strict=True)]

    def _begin_instead(self, at: int, _action: Any) -> Step:
        shown, info = self._begin_again(at)
        return shown, self._no_reward, False, False, info

    def _begin(self, at: int) -> tuple[Any, dict[str, Any]]:
        if self.envs[at] is None:
            self.make(at)
        env = self.envs[at]
        if at in self._begins:
            seed, options = self._begins[at]
            shown, info = env.reset(seed=seed, options=options)
            del self._begins[at]
        else:
            shown, info = env.reset()
        self._shown[at] = shown
        self._moves[at] = self._step_of(at)
        return shown, info

    def _step_of(self, at: int) -> Callable[[Any], Step]:
        step: Callable[[Any], Step] = self.envs[at].step
        return partial(self._step_and_begin, at, step) if self._same_step else step

    def _step_and_begin(self, at: int, step: Callable[[Any], Step], action: Any) -> Step:
        """Take a step, and begin the next episode if this one ends by it."""
        result = step(action)
        shown, reward, terminated, truncated, info = result
        if not (flag_of("terminated", terminated) or flag_of("truncated", truncated)):
            return result
        reward = reward_of(reward, self._reward_shape)
        # The environment may use its memory again.
        final = {"final_obs": deepcopy(shown), "final_info": info}
        first, first_info = self._begin_again(at)
        return first, reward, terminated, truncated, {**final, **first_info}

    def _break_off(self, at: int, error: BaseException) -> NoReturn:
        self.give_up(at)
        if isinstance(error, KeyboardInterrupt):
            raise error
        number = self._numbers[at]
        raise failure(number, error, self._restarts.note(number)) from error

    def give_up(self, at: int) -> None:
        """Close an environment, by its position here; its next episode begins in a new one."""
        self._moves[at] = self._begin_moves[at]
        env, self.envs[at] = self.envs[at], None
        if env is not None:
            close_env(env, f"environment {self._numbers[at]}")

    def call(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """Return an attribute of each environment; if it is a method, the result of its call.

        An environment that is to be made is made first.

        Raises:
            AttributeError: An environment has no such attribute.
        """
        found = self._each(lambda at: attribute_of(self._env(at), name))

        def value(at: int) -> Any:
            return found[at](*args, **kwargs) if callable(found[at]) else found[at]

        return self._each(value)

    def set_attr(self, name: str, values: Sequence[Any]) -> None:
        """Set an attribute of each environment, where its wrappers or itself have it."""

        def assign(at: int) -> None:
            set_attribute(self._env(at), name, values[at])
            if self._moves[at] is not self._begin_moves[at]:
                self._moves[at] = self._step_of(at)

        self._each(assign)

    def _each(self, visit: Callable[[int], Any]) -> list[Any]:
        """Return what a function returns for each position, so that `busy` knows which is next."""
        results = self._results = []
        for at in range(len(self.envs)):
            results.append(visit(at))  # noqa: PERF401 (`busy` reads the length meanwhile)
        return results

    def _env(self, at: int) -> Any:
        if self.envs[at] is None:
            self.make(at)
        return self.envs[at]

    def busy(self) -> int | None:
        """Return the number of the environment that moves; None if that is not known."""
        at = len(self._results)
        return self._numbers[at] if at < len(self._numbers) else None

    def doing(self) -> str:
        """Name the environment that moves."""
        number = self.busy()
        return "an environment" if number is None else f"environment {number}"

    def render(self) -> list[Any]:
        """Return the frames of each, None for one that is to be made."""

        def frame(at: int) -> Any:
            env = self.envs[at]
            return None if env is None else env.render()

        return self._each(frame)

    def abandon(self) -> None:
        """Leave the environments to the thread in which one hangs."""

    def close(self) -> None:
        """Close all, also when one of them raises."""
        self._each(self.give_up)


def failure(number: int, error: BaseException, note: str = "") -> GameError:
    """Return the error of an environment that failed, with its number and the reason."""
    return GameError(f"environment {number}: {error_line(error)}{note}", number)
