"""Environments in Python as a vector: made in order, moved by the caller or by threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cogrs.collector.environments.factory import gymnasium_module
from cogrs.collector.environments.observations import batcher_of
from cogrs.collector.environments.remote import RemoteEnvs
from cogrs.collector.environments.serial import SerialEnvs
from cogrs.collector.environments.threaded import ThreadedEnvs
from cogrs.collector.environments.vector_description import EnvMaker
from cogrs.conversion import convert

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cogrs.collector.environments.factory import Factories
    from cogrs.collector.environments.restarts import Restarts
    from cogrs.collector.environments.serial import Begin, Columns
    from cogrs.collector.environments.vector_description import VectorDescription

    Infos = Sequence[tuple[int, dict[str, Any]]]
    """Infos that are not empty, with the numbers of their environments."""

_REFUSALS = (TypeError, ValueError, OverflowError)
"""Errors of observations that are not in their space."""


class PythonVector:
    """The environments in Python of a `VectorEnv`; see there for errors and arrays.

    Attributes:
        description: What they have in common.
    """

    def __init__(
        self,
        factories: Factories,
        count: int,
        description: VectorDescription,
        *,
        num_threads: int,
        processes: int,
        same_step: bool,
        restarts: Restarts,
        timeout: float | None = None,
    ) -> None:
        """Make the environments, in the order of their numbers.

        With a `timeout` they are moved by threads of their own, or processes.

        Raises:
            TypeError: A factory made something other than an environment with spaces.
            RuntimeError: Two environments do not agree.
        """
        self._count = count
        self.description = description
        make = EnvMaker(factories, description).make

        def share(numbers: range) -> SerialEnvs | RemoteEnvs:
            if processes:
                return RemoteEnvs(
                    factories,
                    description,
                    numbers,
                    same_step=same_step,
                    restarts=restarts,
                    timeout=timeout,
                )
            return SerialEnvs(make, numbers, same_step=same_step, restarts=restarts)

        threads = min(processes or num_threads or 1, count)
        if threads == 1 and not processes and timeout is None:
            self._moved: SerialEnvs | RemoteEnvs | ThreadedEnvs = share(range(count))
        else:
            # A process that hangs is ended, so that the thread that talks to it returns.
            limit = None if processes else timeout
            self._moved = ThreadedEnvs(share, count, threads, limit)
        try:
            for at in range(count):
                self._moved.make(at)
        except BaseException:
            self._moved.close()
            raise
        self._batch_observations = batcher_of(description.observation_space)
        self._describe_actions()

    def _describe_actions(self) -> None:
        gymnasium = gymnasium_module()
        spaces, space = gymnasium.spaces, self.description.action_space
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
        moved = self._moved.reset(begins)
        batch, (_, infos) = self._batch(list(zip(*moved, strict=True)))
        return batch, _numbered(infos)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, Infos]:
        """Take an action in each; a wrong one is refused before an environment moves."""
        batch, columns = self._batch(self._moved.step(self._listed(actions)))
        _, rewards, terminated, truncated, infos = columns
        return (
            batch,
            np.array(rewards, np.float64),
            np.array(terminated, np.bool_),
            np.array(truncated, np.bool_),
            _numbered(infos) if any(infos) else (),
        )

    def _batch(self, columns: Columns | list[Any]) -> tuple[Any, Columns | list[Any]]:
        """Return the observations, which come first, as one, and all columns.

        An environment whose observation is not in its space has failed: its row is replaced by that
        of a new one, as the policy allows.
        """
        try:
            return self._batch_observations(columns[0]), columns
        except _REFUSALS:
            columns = [list(column) for column in columns]
        for number in range(self._count):
            while (error := self._refusal(columns[0][number])) is not None:
                shown, *others, info = self._moved.cut_short(number, error)
                row = (shown, *(others if len(columns) > 2 else ()), info)
                for column, value in zip(columns, row, strict=True):
                    column[number] = value
        return self._batch_observations(columns[0]), columns

    def _refusal(self, shown: Any) -> Exception | None:
        try:
            self._batch_observations([shown])
        except _REFUSALS as error:
            return error
        return None

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

    def call(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return an attribute of each environment, or the results of a method."""
        return tuple(self._moved.call(name, args, kwargs))

    def set_attr(self, name: str, values: Sequence[Any]) -> None:
        """Set an attribute of each environment."""
        self._moved.set_attr(name, values)

    def close(self) -> None:
        """Close the environments, each in the thread that it belongs to."""
        self._moved.close()


def _numbered(infos: Iterable[dict[str, Any]]) -> Infos:
    return [(number, info) for number, info in enumerate(infos) if info]
