"""What the environments of a vector have in common, by the modes that `SyncVectorEnv` has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cogrs.collector.environments.env_api import check_env, close_env
from cogrs.collector.environments.factory import gymnasium_module
from cogrs.spaces import reward_space_of

if TYPE_CHECKING:
    from cogrs.collector.environments.factory import Factories


class VectorDescription:
    """Spaces of the environments of a vector, which agree as `observation_mode` says.

    Attributes:
        mode: The observation mode.
        observation_space: That of each environment, or the given one.
        action_space: That of each environment.
        reward_space: That of environment 0 where rewards are vectors, None where they are numbers.
        metadata: That of environment 0.
        render_mode: Likewise.
    """

    def __init__(self, observation_mode: Any = "same") -> None:
        """Take the mode: "same", "different", or the batched space and that of one environment.

        Raises:
            ValueError: Another mode.
            TypeError: A pair of something other than spaces.
        """
        space = gymnasium_module().spaces.Space
        self._pair: tuple[Any, Any] | None = None
        if isinstance(observation_mode, tuple) and len(observation_mode) == 2:
            if not all(isinstance(each, space) for each in observation_mode):
                got = " and ".join(type(each).__name__ for each in observation_mode)
                raise TypeError(f"observation_mode: expected a pair of spaces, got {got}")
            self._pair = observation_mode
        elif observation_mode not in ("same", "different"):
            expected = "'same', 'different', or a pair of the batched and the single space"
            raise ValueError(f"observation_mode: expected {expected}, got {observation_mode!r}")
        self.mode = observation_mode
        self._known: dict[int, Any] = {}
        self.observation_space: Any = None
        self.action_space: Any = None
        self.reward_space: Any = None
        self.metadata: dict[str, Any] = {}
        self.render_mode: str | None = None

    def add(self, number: int, about: tuple[Any, Any, Any, Any, Any]) -> None:
        """Take what `description_of` returns for an environment.

        Raises:
            TypeError: They are not spaces of Gymnasium.
            RuntimeError: They do not agree with those of environment 0.
        """
        observation, action, metadata, render_mode, reward = about
        if self.action_space is None:
            for name, space in (("observation_space", observation), ("action_space", action)):
                if not isinstance(space, gymnasium_module().spaces.Space):
                    raise TypeError(f"{name}: expected a space of Gymnasium, got {space!r}")
            self.observation_space = observation if self._pair is None else self._pair[1]
            self.action_space, self.reward_space = action, reward
            self.metadata, self.render_mode = dict(metadata), render_mode
        self._known[number] = observation
        same = self.mode == "same"
        if same and observation != self.observation_space:
            self._refuse("observation_space", number, "that", self.observation_space, observation)
        if not same and not gymnasium_module().spaces.utils.is_space_dtype_shape_equiv(
            observation, self.observation_space
        ):
            expected = "the dtype and shape"
            self._refuse("observation_space", number, expected, self.observation_space, observation)
        if action != self.action_space:
            self._refuse("action_space", number, "that", self.action_space, action)
        if getattr(reward, "shape", ()) != self.reward_shape:
            self._refuse("reward_space", number, "the shape", self.reward_space, reward)

    @property
    def reward_shape(self) -> tuple[int, ...]:
        """Shape of the reward of one environment."""
        return () if self.reward_space is None else tuple(self.reward_space.shape)

    def _refuse(self, name: str, number: int, expected: str, first: Any, space: Any) -> None:
        hint = ""
        if expected == "that" and name == "observation_space":
            hint = "; observation_mode='different' allows other bounds"
        raise RuntimeError(
            f"{name}: expected {expected} of environment 0, {first}, got {space} of environment "
            f"{number}{hint}"
        )

    def batched_observation_space(self, count: int) -> Any:
        """Return the observation space of so many environments."""
        utils = gymnasium_module().vector.utils
        if self._pair is not None:
            return self._pair[0]
        if self.mode == "different":
            first = self.observation_space
            return utils.batch_differing_spaces(
                [self._known.get(number, first) for number in range(count)]
            )
        return utils.batch_space(self.observation_space, count)


def description_of(env: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Return spaces, metadata, render mode, and the space of vector rewards, of an environment."""
    metadata, mode = getattr(env, "metadata", None) or {}, getattr(env, "render_mode", None)
    return env.observation_space, env.action_space, metadata, mode, reward_space_of(env)


class EnvMaker:
    """Makes environments that agree. It does not hold the vector, which may go."""

    def __init__(self, factories: Factories, description: VectorDescription) -> None:
        self._factories = factories
        self._description = description

    def make(self, number: int) -> Any:
        """Make the environment of this number.

        Raises:
            TypeError: The factory made something other than an environment with spaces.
            RuntimeError: It does not agree with environment 0.
        """
        env = self._factories.make(number)
        try:
            check_env(env)
            self._description.add(number, description_of(env))
        except BaseException:
            close_env(env, f"environment {number}")
            raise
        return env
