"""Environments whose episodes begin as a vector of them says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cogrs.collector.environments.factory import Factory
from cogrs.collector.environments.spaces import spaces_of
from cogrs.collector.environments.stepper import close

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Seats(Factory):
    """Makes the environments of a vector, and has what a batch does not carry.

    Attributes:
        rewards: What the last move of each paid, 0 for a reset; batches have float32.
        terminated: Whether it terminated.
        truncated: Whether it was cut short; perhaps both, of which batches have one.
        infos: What the last move of each said beside.
        begins: Seed and options of the next reset of each; its own affair after that.
        envs: The environments, by number, as far as they are made.
    """

    rewards: list[float]
    terminated: list[bool]
    truncated: list[bool]
    infos: list[dict[str, Any]]
    begins: list[tuple[int | None, dict[str, Any] | None]]
    envs: dict[int, Any]

    def __init__(
        self, source: str | Callable[..., Any], options: Mapping[str, Any], count: int
    ) -> None:
        """For so many environments."""
        super().__init__(source, options)
        kept = {
            "rewards": [0.0] * count,
            "terminated": [False] * count,
            "truncated": [False] * count,
            "infos": [{} for _ in range(count)],
            "begins": [(None, None)] * count,
            "envs": {},
        }
        # What a factory is made of is frozen.
        self.__dict__.update(kept)

    def __call__(self) -> Any:
        """Make the first."""
        seat = self.make(0)
        # Asked about what it lacks, a seat would be blamed.
        spaces_of(self.envs[0])
        return seat

    def make(self, game: int) -> Any:
        """See `Factory`."""
        env = super().make(game)
        self.envs[game] = env
        return Seat(self, game, env)


class Seat:
    """One of them, as the collector moves it."""

    def __init__(self, seats: Seats, number: int, env: Any) -> None:
        """This environment, which is one's own."""
        self._seats = seats
        self._number = number
        self._env = env
        for name in ("observation_space", "action_space"):
            # What has none is refused by the name of what makes it.
            if hasattr(env, name):
                setattr(self, name, getattr(env, name))

    def reset(self, *, seed: int) -> tuple[Any, dict[str, Any]]:
        """Begin an episode as the vector says, not as `seed` does."""
        del seed
        seats, number = self._seats, self._number
        (begin, options), seats.begins[number] = seats.begins[number], (None, None)
        shown, seats.infos[number] = self._env.reset(seed=begin, options=options)
        seats.rewards[number] = 0.0
        seats.terminated[number] = seats.truncated[number] = False
        return shown, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take an action."""
        seats, number = self._seats, self._number
        shown, reward, terminated, truncated, seats.infos[number] = self._env.step(action)
        seats.rewards[number] = reward
        seats.terminated[number], seats.truncated[number] = terminated, truncated
        return shown, reward, terminated, truncated, {}

    def close(self) -> None:
        """Close it."""
        close(self._env)
