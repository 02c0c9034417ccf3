"""`VectorEnv`: games as a vector environment of Gymnasium."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cogrs.collector.built_in_vector import BuiltInVector
from cogrs.collector.environments.factory import Factory, gymnasium_module
from cogrs.collector.environments.python_vector import PythonVector
from cogrs.collector.game_error import GameError
from cogrs.collector.games import BUILT_IN
from cogrs.suggest import suggestion
from cogrs.validation import check_integer, check_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy.typing as npt

gymnasium_module()
from gymnasium import error  # noqa: E402
from gymnasium.vector import AutoresetMode  # noqa: E402
from gymnasium.vector import VectorEnv as _VectorEnv  # noqa: E402

_OWN_OPTIONS = ("num_envs", "seed", "num_threads")
_INSTEAD = {
    "processes": "environments live in this process, moved by the caller or by num_threads "
    "threads; GameContext('gymnasium', co, env, processes=k) with GCWrapper has processes",
    "autoreset_mode": "the mode is always AutoresetMode.NEXT_STEP; leave the option out",
    "observation_mode": "all environments have the same spaces; leave the option out",
    "on_error": "an environment that raised is replaced by the next reset(); "
    "ContextOptions of GCWrapper have on_error",
    "env_kwargs": "more keyword arguments of VectorEnv go to each environment as they are",
}
"""What to do instead of giving an option of other vector environments."""


class VectorEnv(_VectorEnv[Any, Any, Any]):
    """Many games at once, with the interface of `gymnasium.vector.VectorEnv`.

    ::

        envs = cogrs.VectorEnv("cartpole", num_envs=16, seed=0)
        states, infos = envs.reset()
        states, rewards, terminated, truncated, infos = envs.step(envs.action_space.sample())

    `gymnasium.make_vec("cogrs/CartPole-v1", num_envs=16)` creates the same, after `import cogrs`.
    `metadata["autoreset_mode"]` is NEXT_STEP: the step after the last of an episode ignores its
    action, pays 0 and shows the first state of the next. Returned arrays are the caller's to keep.

    Built-in games run in Rust. Their spaces are those of Gymnasium's environments where there is
    one; states of several keys (`action_mask`, `player`) are a Dict. Rewards are float32 in the
    game and float64 here.

    Any other environment is made, moved and closed by the calling thread, as
    `gymnasium.vector.SyncVectorEnv` does; seeds, resets, observations, rewards, infos and
    `np_random` are those of that class too. With `num_threads=k`, k >= 2, k threads do so side by
    side, and all calls of an environment come from the same thread. Environments are made in the
    order of their numbers.

    A step or reset that Ctrl-C interrupts leaves the vector usable: the environment that was moving
    begins an episode in a new environment, with the next step; others stay where they are. After
    a GameError `reset` begins again, and replaces the environment that failed.

    Methods are for one thread at a time.

    Args:
        env: Name of a built-in game (`BUILT_IN`), an id of `gymnasium.make`, a callable that makes
            an environment, or `"package.module:callable"`.
        num_envs: Number of environments, >= 1.
        seed: Seed of the first `reset`, unless that is given one; None draws from the system.
        num_threads: Threads that move environments. For environments in Python 0 and 1 mean the
            thread that calls; for built-in games 0 means one thread per core.
        **options: Options of the game, such as `max_episode_steps`, or keyword arguments of the
            callable.

    Raises:
        TypeError: An argument has the wrong type, an option does not exist, or the callable returns
            something other than an environment with spaces.
        ValueError: An argument is out of range.
        RuntimeError: The spaces of two environments differ.
        ImportError: Gymnasium is not installed.
        gymnasium.error.UnregisteredEnv: The game or environment does not exist.

    Exceptions from creating an environment are passed on.
    """

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(
        self,
        env: str | Callable[..., Any],
        num_envs: int = 1,
        *,
        seed: int | None = None,
        num_threads: int = 0,
        **options: Any,
    ) -> None:
        self._games: BuiltInVector | PythonVector | None = None
        self._envs: PythonVector | None = None
        self.num_envs = check_integer("num_envs", num_envs, 1)
        self._seed = None if seed is None else check_integer("seed", seed, 0)
        threads = check_integer("num_threads", num_threads, 0)
        for option in options:
            if option in _INSTEAD:
                raise TypeError(f"{option}: VectorEnv has no such option: {_INSTEAD[option]}")
        if isinstance(env, str) and env in BUILT_IN:
            self._games = BuiltInVector(env, self.num_envs, threads, options)
        else:
            self._envs = _environments(env, options, self.num_envs, threads)
            self._games = self._envs
            self.metadata = {**self._envs.metadata, **VectorEnv.metadata}
            self.render_mode = self._envs.render_mode
        batch = gymnasium_module().vector.utils.batch_space
        self.single_observation_space = self._games.observation_space
        self.single_action_space = self._games.action_space
        self.observation_space = batch(self.single_observation_space, self.num_envs)
        self.action_space = batch(self.single_action_space, self.num_envs)
        self._begun = self._seeded = False
        self._why = "the first reset has to reset all environments"

    @property
    def envs(self) -> list[Any]:
        """The environments, None for each that failed, until reset; [] for built-in games."""
        return [] if self._envs is None else self._envs.envs

    @property
    def np_random(self) -> Any:
        """The random generator of built-in games' vector, or a tuple of the environments' own.

        Built-in games do not use it: a reset with an integer seeds it, for code that uses it.
        """
        if self._envs is None:
            return super().np_random
        return tuple(None if env is None else env.np_random for env in self.envs)

    @np_random.setter
    def np_random(self, value: np.random.Generator) -> None:
        if self._envs is not None:
            raise AttributeError("np_random: each environment has its own, set those of `envs`")
        self._np_random, self._np_random_seed = value, -1

    @property
    def np_random_seed(self) -> Any:
        """The seed of `np_random`, -1 if it is unknown; or a tuple of the environments' own."""
        if self._envs is None:
            return super().np_random_seed
        return tuple(None if env is None else env.np_random_seed for env in self.envs)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Start episodes.

        Args:
            seed: Environment i is seeded by `seed + i`, or by the i-th seed of a sequence; None
                keeps the random generators as they are. The same seed gives the same episodes.
            options: `reset_mask`, bool (num_envs,): only these begin an episode, and the others
                stay where they are. Other entries go to `reset` of environments.

        Returns:
            States and infos.

        Raises:
            ValueError: The number of seeds is not `num_envs`, or an option does not exist.
            TypeError: A seed is not an integer, `options` is not a dict, or `reset_mask` is not an
                array of bool.
            GameError: An environment could not be created again, or its `reset` raised.
            gymnasium.error.ResetNeeded: The first reset, or the first after a GameError, does not
                reset all environments.
            gymnasium.error.ClosedEnvironmentError: After close.
        """
        games = self._open()
        check_kind("options", options, Mapping | None, "a dict or None")
        options = None if options is None else dict(options)
        mask = self._mask(options)
        if options and self._envs is None:
            raise ValueError(f"options: expected reset_mask alone, got {sorted(options)}")
        if not self._begun and not mask.all():
            raise error.ResetNeeded(f"reset_mask: {self._why}")
        if seed is None and not self._seeded:
            seed = self._seed
        seeds = self._seeds(seed)
        begins = {number: (seeds[number], options) for number in np.flatnonzero(mask).tolist()}
        if not isinstance(seed, Sequence | np.ndarray):
            super().reset(seed=seeds[0])
        # The next call finishes a reset that Ctrl-C breaks off.
        self._begun = True
        try:
            shown, infos = games.reset(begins)
        except GameError as failure:
            self._fail(failure)
            raise
        self._seeded = True
        return shown, self._infos(infos)

    def step(
        self, actions: Any
    ) -> tuple[Any, npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], dict[str, Any]]:
        """Take an action in each environment.

        Args:
            actions: One for each environment, of `action_space`.

        Returns:
            States, rewards (float64), flags `terminated` and `truncated` (bool), infos.

        Raises:
            ValueError: The actions have another shape, or one is not in a Discrete space. No
                environment moves.
            TypeError: The actions have the wrong type. No environment moves.
            GameError: An environment raised, refused its action, or returned a reward or flag that
                is not one value. Only `reset` is possible then.
            gymnasium.error.ResetNeeded: Before the first reset, or after a GameError.
            gymnasium.error.ClosedEnvironmentError: After close.
        """
        games = self._open()
        if not self._begun:
            raise error.ResetNeeded(f"step before a reset: {self._why}")
        try:
            shown, rewards, terminated, truncated, infos = games.step(actions)
        except GameError as failure:
            self._fail(failure)
            raise
        return shown, rewards, terminated, truncated, self._infos(infos) if infos else {}

    def render(self) -> tuple[Any, ...] | None:
        """Return the frames that environments render; None for built-in games.

        Raises:
            gymnasium.error.ClosedEnvironmentError: After close.
        """
        return self._open().render()

    def close_extras(self, **_: Any) -> None:
        """Close the environments, or stop the games."""
        if self._games is not None:
            self._games.close()

    def _open(self) -> BuiltInVector | PythonVector:
        if self.closed or self._games is None:
            raise error.ClosedEnvironmentError("these environments are closed")
        return self._games

    def _fail(self, failure: GameError) -> None:
        self._begun = False
        self._why = f"all environments have to be reset after a failure ({failure})"

    def _infos(self, given: Iterable[tuple[int, dict[str, Any]]]) -> dict[str, Any]:
        infos: dict[str, Any] = {}
        for number, info in given:
            infos = self._add_info(infos, info, number)
        return infos

    def _mask(self, options: dict[str, Any] | None) -> npt.NDArray[np.bool_]:
        mask = None if options is None else options.pop("reset_mask", None)
        if mask is None:
            return np.ones(self.num_envs, np.bool_)
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
            got = mask.dtype if isinstance(mask, np.ndarray) else type(mask).__name__
            raise TypeError(f"reset_mask: expected an array of bool, got {got}")
        if mask.shape != (self.num_envs,) or not mask.any():
            raise ValueError(
                f"reset_mask: expected shape ({self.num_envs},) with at least one True, got "
                f"{mask.shape} with {int(mask.sum())} True"
            )
        return mask

    def _seeds(self, seed: int | Sequence[int | None] | None) -> list[int | None]:
        if seed is None:
            return [None] * self.num_envs
        if not isinstance(seed, Sequence | np.ndarray):
            first = check_integer("seed", seed, 0)
            return [first + number for number in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise ValueError(f"seed: expected {self.num_envs} seeds, got {len(seed)}")
        return [None if each is None else check_integer("seed", each, 0) for each in seed]


def _environments(
    env: str | Callable[..., Any], options: Mapping[str, Any], count: int, threads: int
) -> PythonVector:
    try:
        return PythonVector(Factory(env, options, known=_OWN_OPTIONS), count, threads)
    except error.UnregisteredEnv as refusal:
        found = suggestion(env, BUILT_IN)
        if not found:
            raise
        text = f"env: no built-in game is called {env!r}, {found} As an id of Gymnasium: {refusal}"
        raise type(refusal)(text) from refusal
