"""Environments in Python as a vector: made in order, moved by the caller or by threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cogrs.collector.convert import convert
from cogrs.collector.environments.env_api import check_env, close_env
from cogrs.collector.environments.factory import gymnasium_module
from cogrs.collector.environments.observations import batcher_of
from cogrs.collector.environments.serial import SerialEnvs, failure
from cogrs.collector.environments.threaded import ThreadedEnvs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cogrs.collector.environments.factory import Factory
    from cogrs.collector.environments.serial import Begin

    Infos = Sequence[tuple[int, dict[str, Any]]]
    """Infos that are not empty, with the numbers of their environments."""

_SPACES = ("observation_space", "action_space")


class PythonVector:
    """The environments in Python of a `VectorEnv`; see there for errors and arrays.

    Attributes:
        observation_space: That of each environment.
        action_space: Likewise.
        metadata: That of the first environment.
        render_mode: Likewise.
    """

    def __init__(self, factory: Factory, count: int, num_threads: int) -> None:
        """Make the environments, in the order of their numbers.

        Raises:
            TypeError: The factory made something other than an environment with spaces.
            RuntimeError: The spaces of two environments differ.
        """
        self._count = count
        maker = _Maker(factory)
        threads = min(num_threads, count)
        self._moved = (
            ThreadedEnvs(maker.make, range(count), threads)
            if threads > 1
            else SerialEnvs(maker.make, range(count))
        )
        try:
            for at in range(count):
                self._moved.make(at)
        except BaseException:
            self._moved.close()
            raise
        self.observation_space, self.action_space = maker.spaces
        first = self._moved.envs[0]
        self.metadata: Mapping[str, Any] = getattr(first, "metadata", None) or {}
        self.render_mode = getattr(first, "render_mode", None)
        self._batch_observations = batcher_of(self.observation_space)
        self._describe_actions()

    def _describe_actions(self) -> None:
        gymnasium = gymnasium_module()
        spaces, space = gymnasium.spaces, self.action_space
        self._batched_space = gymnasium.vector.utils.batch_space(space, self._count)
        self._numbers: range | None = None
        if isinstance(space, spaces.Discrete):
            self._numbers = range(int(space.start), int(space.start) + int(space.n))
        arrays = spaces.Box | spaces.Discrete | spaces.MultiBinary | spaces.MultiDiscrete
        self._dtype = np.dtype(space.dtype) if isinstance(space, arrays) else None
        self._shape = (self._count, *(space.shape or ()))

    @property
    def envs(self) -> list[Any]:
        """The environments by number, None for one that failed until it begins again."""
        return self._moved.envs

    def reset(self, begins: Mapping[int, Begin]) -> tuple[Any, Infos]:
        """Start episodes of these numbers, with their seeds and options; the others stay."""
        shown, infos = zip(*self._moved.reset(begins), strict=True)
        return self._batch(shown), _numbered(infos)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, Infos]:
        """Take an action in each; a wrong one is refused before an environment moves."""
        shown, rewards, terminated, truncated, infos = self._moved.step(self._listed(actions))
        return (
            self._batch(shown),
            np.array(rewards, np.float64),
            np.array(terminated, np.bool_),
            np.array(truncated, np.bool_),
            _numbered(infos) if any(infos) else (),
        )

    def _batch(self, shown: Sequence[Any]) -> Any:
        try:
            return self._batch_observations(shown)
        except (TypeError, ValueError, OverflowError):
            for number, each in enumerate(shown):
                self._check_observation(number, each)
            raise

    def _check_observation(self, number: int, shown: Any) -> None:
        try:
            self._batch_observations([shown])
        except (TypeError, ValueError, OverflowError) as error:
            self._moved.give_up(number)
            raise failure(number, error) from error

    def _listed(self, actions: Any) -> Sequence[Any]:
        if self._dtype is None:
            return self._split(actions)
        if (
            type(actions) is not np.ndarray
            or actions.dtype != self._dtype
            or actions.shape != self._shape
        ):
            actions = convert("actions", actions, self._dtype, self._shape)
        if self._numbers is not None:
            numbers = actions.tolist()
            if min(numbers) < self._numbers.start or max(numbers) >= self._numbers.stop:
                self._check_numbers(self._numbers, numbers)
        # NumPy's own numbers: spaces of Gymnasium check them faster than Python's.
        return list(actions)

    def _check_numbers(self, choices: range, numbers: Sequence[int]) -> None:
        for at, (number, starts) in enumerate(zip(numbers, self._moved.starting(), strict=True)):
            if number not in choices and not starts:  # where an episode starts it is ignored
                expected = f"integers in [{choices.start}, {choices.stop})"
                raise ValueError(f"actions: expected {expected}, got {number} for environment {at}")

    def _split(self, actions: Any) -> Sequence[Any]:
        """Return the actions of a space that is not one array, one for each environment."""
        try:
            listed = list(gymnasium_module().vector.utils.iterate(self._batched_space, actions))
        except (LookupError, TypeError, ValueError) as error:
            got = f"{type(error).__name__}: {error}"
            raise ValueError(f"actions: expected values of {self._batched_space}: {got}") from error
        if len(listed) != self._count:
            raise ValueError(f"actions: expected {self._count} actions, got {len(listed)}")
        return listed

    def render(self) -> tuple[Any, ...]:
        """Return the frames of each environment, None for one that failed."""
        return tuple(self._moved.render())

    def close(self) -> None:
        """Close the environments, each in the thread that it belongs to."""
        self._moved.close()


class _Maker:
    """Makes environments of the same spaces. It does not hold the vector, which may go."""

    def __init__(self, factory: Factory) -> None:
        self._factory = factory
        self.spaces: tuple[Any, ...] = ()

    def make(self, number: int) -> Any:
        env = self._factory.make(number)
        try:
            check_env(env)
            self._check_spaces(env, number)
        except BaseException:
            close_env(env, f"environment {number}")
            raise
        return env

    def _check_spaces(self, env: Any, number: int) -> None:
        spaces = tuple(getattr(env, name) for name in _SPACES)
        for name, space in zip(_SPACES, spaces, strict=True):
            if not self.spaces and not isinstance(space, gymnasium_module().spaces.Space):
                raise TypeError(f"{name}: expected a space of Gymnasium, got {space!r}")
        self.spaces = self.spaces or spaces
        for name, space, first in zip(_SPACES, spaces, self.spaces, strict=True):
            if space != first:
                raise RuntimeError(
                    f"{name}: expected that of environment 0, {first}, got {space} of environment "
                    f"{number}"
                )


def _numbered(infos: Iterable[dict[str, Any]]) -> Infos:
    return [(number, info) for number, info in enumerate(infos) if info]
