"""Environments in Python as a vector: made in order, moved by the caller or by threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cogrs.collector.convert import convert
from cogrs.collector.environments.factory import gymnasium_module
from cogrs.collector.environments.observations import Observations, observations_of
from cogrs.collector.environments.serial import SerialEnvs, failure
from cogrs.collector.environments.stepper import close
from cogrs.collector.environments.threaded import ThreadedEnvs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy.typing as npt

    from cogrs.collector.environments.factory import Factory
    from cogrs.collector.environments.serial import Begin

    Told = Sequence[tuple[int, dict[str, Any]]]
    """Infos that are not empty, with the numbers of their environments."""
    Results = tuple[Any, npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], Told]


class VectorizedEnvs:
    """Environments of one vector.

    Attributes:
        observation_space: That of each environment.
        action_space: Likewise.
        batched_action_space: That of all together.
        metadata: What the first environment says of itself.
        render_mode: Likewise.
    """

    observation_space: Any
    action_space: Any
    metadata: Mapping[str, Any]
    render_mode: Any

    def __init__(self, factory: Factory, count: int, num_threads: int) -> None:
        """Make the environments, in the order of their numbers.

        Raises:
            TypeError: What was made is not an environment with spaces.
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
        assert maker.spaces is not None
        self.observation_space, self.action_space = maker.spaces
        first = self._moved.envs[0]
        self.metadata = getattr(first, "metadata", None) or {}
        self.render_mode = getattr(first, "render_mode", None)
        self._describe_actions()
        self._observations: Observations = observations_of(self.observation_space)

    def _describe_actions(self) -> None:
        gymnasium = gymnasium_module()
        spaces, space = gymnasium.spaces, self.action_space
        self.batched_action_space = gymnasium.vector.utils.batch_space(space, self._count)
        self._numbers: range | None = None
        if isinstance(space, spaces.Discrete):
            self._numbers = range(int(space.start), int(space.start) + int(space.n))
        arrays = spaces.Box | spaces.Discrete | spaces.MultiBinary | spaces.MultiDiscrete
        self._dtype = np.dtype(space.dtype) if isinstance(space, arrays) else None
        self._shape = (self._count, *(space.shape or ()))

    @property
    def envs(self) -> list[Any]:
        """The environments, by number; None for one that failed, until it begins again."""
        return self._moved.envs

    def reset(self, begins: Mapping[int, Begin]) -> tuple[Any, Told]:
        """Start episodes of these numbers, with their seeds and options; the others stay.

        Raises:
            GameError: An environment could not be made, or raised.
        """
        shown, infos = zip(*self._moved.reset(begins), strict=True)
        return self._batch(shown), _told(infos)

    def step(self, actions: Any) -> Results:
        """Take an action in each.

        Raises:
            ValueError: Actions are not of the space. No environment has moved.
            TypeError: Likewise.
            GameError: An environment raised, or returned something that is not of its spaces.
        """
        shown, rewards, terminated, truncated, infos = self._moved.step(self._listed(actions))
        return (
            self._batch(shown),
            np.array(rewards, np.float64),
            np.array(terminated, np.bool_),
            np.array(truncated, np.bool_),
            _told(infos) if any(infos) else (),
        )

    def _batch(self, shown: Sequence[Any]) -> Any:
        try:
            return self._observations.batch(shown)
        except (TypeError, ValueError, OverflowError):
            for number, each in enumerate(shown):
                self._check_observation(number, each)
            raise

    def _check_observation(self, number: int, shown: Any) -> None:
        try:
            self._observations.batch([shown])
        except (TypeError, ValueError, OverflowError) as error:
            self._moved.give_up(number)
            raise failure(number, error) from error

    def _listed(self, actions: Any) -> Sequence[Any]:
        if self._dtype is None:
            return self._parts(actions)
        if (
            type(actions) is not np.ndarray
            or actions.dtype != self._dtype
            or actions.shape != self._shape
        ):
            actions = convert("actions", actions, self._dtype, self._shape)
        if self._numbers is not None:
            numbers = actions.tolist()
            if min(numbers) < self._numbers.start or max(numbers) >= self._numbers.stop:
                self._check_numbers(numbers)
        # NumPy's own numbers: spaces of Gymnasium look at them faster than at Python's.
        return list(actions)

    def _check_numbers(self, numbers: Sequence[int]) -> None:
        """Refuse what is no number of a Discrete space, but for those whose action is ignored."""
        assert self._numbers is not None
        for at, (number, starts) in enumerate(zip(numbers, self._moved.starting(), strict=True)):
            if number not in self._numbers and not starts:
                expected = f"integers in [{self._numbers.start}, {self._numbers.stop})"
                raise ValueError(f"actions: expected {expected}, got {number} for environment {at}")

    def _parts(self, actions: Any) -> Sequence[Any]:
        """Actions of a space that is not one array, one for each environment."""
        iterate = gymnasium_module().vector.utils.iterate
        try:
            listed = list(iterate(self.batched_action_space, actions))
        except (LookupError, TypeError, ValueError) as error:
            raise ValueError(
                f"actions: expected values of {self.batched_action_space}: "
                f"{type(error).__name__}: {error}"
            ) from error
        if len(listed) != self._count:
            raise ValueError(f"actions: expected {self._count} of them, got {len(listed)}")
        return listed

    def render(self) -> tuple[Any, ...]:
        """Return what each environment renders, None for one that failed."""
        return tuple(self._moved.render())

    def close(self) -> None:
        """Close the environments, each in the thread that it belongs to."""
        self._moved.close()


class _Maker:
    """Makes environments of the same spaces. It does not hold the vector, which may go."""

    def __init__(self, factory: Factory) -> None:
        self._factory = factory
        self.spaces: tuple[Any, Any] | None = None

    def make(self, number: int) -> Any:
        """Make an environment by its number."""
        env = self._factory.make(number)
        try:
            self._check(env, number)
        except BaseException:
            close(env)
            raise
        return env

    def _check(self, env: Any, number: int) -> None:
        for name in ("reset", "step", "observation_space", "action_space"):
            if not hasattr(env, name):
                got = type(env).__name__
                raise TypeError(
                    f"env: expected an environment of Gymnasium, got {got} without {name}"
                )
        if self.spaces is None:
            for name in ("observation_space", "action_space"):
                space = getattr(env, name)
                if not isinstance(space, gymnasium_module().spaces.Space):
                    raise TypeError(f"{name}: expected a space of Gymnasium, got {space!r}")
            self.spaces = env.observation_space, env.action_space
        for name, space in zip(("observation_space", "action_space"), self.spaces, strict=True):
            if getattr(env, name) != space:
                raise RuntimeError(
                    f"{name}: expected that of environment 0, {space}, got "
                    f"{getattr(env, name)} of environment {number}"
                )


def _told(infos: Iterable[dict[str, Any]]) -> Told:
    return [(number, info) for number, info in enumerate(infos) if info]
