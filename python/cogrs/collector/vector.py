"""`VectorEnv`: games as a vector environment of Gymnasium."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from cogrs.collector.environments.factory import Factories, gymnasium_module
from cogrs.collector.game_error import GameError
from cogrs.collector.games import BUILT_IN
from cogrs.validation import check_flag, check_integer, check_kind, check_text, check_timeout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy.typing as npt

gymnasium_module()
from gymnasium import error  # noqa: E402
from gymnasium.vector import AutoresetMode  # noqa: E402
from gymnasium.vector import VectorEnv as _VectorEnv  # noqa: E402

from cogrs.collector.built_in_vector import BuiltInVector  # noqa: E402
from cogrs.collector.environments.python_vector import PythonVector  # noqa: E402
from cogrs.collector.environments.vector_description import VectorDescription  # noqa: E402
from cogrs.collector.vector_options import (  # noqa: E402
    INSTEAD,
    OWN_OPTIONS,
    autoreset_mode_of,
    game_options,
    restarts_of,
    suggestions,
)


class EpisodeOverError(error.ResetNeeded, AssertionError):
    """A step without a reset after the end of an episode, with AutoresetMode.DISABLED.

    SyncVectorEnv raises an AssertionError there.
    """


class VectorEnv(_VectorEnv[Any, Any, Any]):
    """Many games at once, with the interface of `gymnasium.vector.VectorEnv`.

    ::

        envs = cogrs.VectorEnv("cartpole", num_envs=16, seed=0)
        states, infos = envs.reset()
        states, rewards, terminated, truncated, infos = envs.step(envs.action_space.sample())

    `gymnasium.make_vec("cogrs/CartPole-v1", num_envs=16)` creates the same, after `import cogrs`.
    Returned arrays are the caller's to keep.

    Built-in games run in Rust. Their spaces are those of Gymnasium's environments where there is
    one; states of several keys (`action_mask`, `player`) are a Dict. Rewards are float32 in the
    game and float64 here.

    Any other environment is made, moved and closed by the calling thread, as
    `gymnasium.vector.SyncVectorEnv` does; seeds, resets, observations, rewards, infos and
    `np_random` are those of that class too. With `num_threads=k`, k >= 2, k threads do so side by
    side, and with `processes=k` k processes, in which each environment has one thread. Environments
    are made in the order of their numbers.

    A step or reset that Ctrl-C interrupts leaves the vector usable: the environment that was moving
    begins an episode in a new environment, with the next step; others stay where they are. After
    a GameError `reset` begins again, and replaces the environment that failed.

    Methods are for one thread at a time.

    Args:
        env: Name of a built-in game (`BUILT_IN`), an id of `gymnasium.make`, a callable that makes
            an environment, or `"package.module:callable"`; or a sequence of the last three, one for
            each environment. A callable that needs one positional argument is given the number of
            the environment.
        num_envs: Number of environments, >= 1; None for that of the sequences, or 1.
        seed: Seed of the first `reset`, unless that is given one; None draws from the system.
        num_threads: Threads that move environments. For environments in Python 0 and 1 mean the
            thread that calls; for built-in games 0 means one thread per core.
        processes: Processes that make and move environments in Python, on POSIX systems; with 0
            they live in this one. Each is a new Python, which imports the callable. Nothing is
            pickled: observations, infos, attributes and arguments are numbers, text, arrays,
            spaces and containers.
        env_kwargs: Keyword arguments of the callable: a mapping for all environments, or a sequence
            of mappings, one for each.
        autoreset_mode: `gymnasium.vector.AutoresetMode` or its value. NEXT_STEP: the step after the
            last of an episode ignores its action, pays 0 and shows the first state of the next.
            SAME_STEP: the last step shows that state, and infos have `final_obs` and `final_info`.
            DISABLED: `reset(options={"reset_mask": ended})` begins the next episode.
        observation_mode: "same": all observation spaces are equal; "different": their dtypes and
            shapes are; or a pair of spaces: the batched one, and that of one environment.
        on_error: "raise": an environment that raises ends the step or reset by a GameError.
            "restart": it begins an episode in a new environment; the step pays 0, shows the first
            state, and ends the broken episode with `truncated`.
        max_restarts: Restarts of each environment before a GameError.
        restart_backoff: Seconds before the first of them; doubled each time, up to a minute.
        timeout: Seconds that a step, reset or other call of environments in Python may take; None
            for any time. Then a GameTimeoutError, which is a TimeoutError too, names the
            environment that hangs. A process that hangs is ended, and `on_error` holds for it. A
            thread cannot be ended, and is left with its environments: `reset` makes others. With a
            timeout, num_threads 0 and 1 mean one thread beside the one that calls.
        copy: Accepted as by SyncVectorEnv. Results share no memory with later ones either way.
        **options: Options of the game, such as `max_episode_steps`, or keyword arguments of the
            callable.

    Raises:
        TypeError: An argument has the wrong type, an option does not exist, or the callable returns
            something other than an environment with spaces.
        ValueError: An argument is out of range; or other processes cannot import the callable.
        RuntimeError: The spaces of two environments differ.
        ImportError: Gymnasium is not installed.
        gymnasium.error.UnregisteredEnv: The game or environment does not exist.

    Exceptions from creating an environment are passed on.
    """

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(
        self,
        env: str | Callable[..., Any] | Iterable[str | Callable[..., Any]],
        num_envs: int | None = None,
        *,
        seed: int | None = None,
        num_threads: int = 0,
        processes: int = 0,
        env_kwargs: Mapping[str, Any] | Iterable[Mapping[str, Any]] | None = None,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        observation_mode: str | tuple[Any, Any] = "same",
        on_error: str = "raise",
        max_restarts: int = 3,
        restart_backoff: float = 0.1,
        timeout: float | None = None,
        copy: bool = True,
        **options: Any,
    ) -> None:
        self._games: BuiltInVector | PythonVector | None = None
        for option in options:
            if option in INSTEAD:
                raise TypeError(f"{option}: VectorEnv has no such option: {INSTEAD[option]}")
        self._seed = None if seed is None else check_integer("seed", seed, 0)
        threads = check_integer("num_threads", num_threads, 0)
        check_integer("processes", processes, 0, 2**16 - 1)
        self.copy = check_flag("copy", copy, numbers=True)
        self.autoreset_mode = autoreset_mode_of(autoreset_mode)
        self._disabled = self.autoreset_mode is AutoresetMode.DISABLED
        self.observation_mode = observation_mode
        description = VectorDescription(observation_mode)
        restarts = restarts_of(on_error, max_restarts, restart_backoff)
        timeout = check_timeout("timeout", timeout, above=True)
        same_step = self.autoreset_mode is AutoresetMode.SAME_STEP
        if isinstance(env, str) and env in BUILT_IN:
            given = {**game_options(env_kwargs, processes, on_error, timeout), **options}
            self.num_envs = check_integer("num_envs", 1 if num_envs is None else num_envs, 1)
            self._games = BuiltInVector(
                env, self.num_envs, threads, given, description, same_step=same_step
            )
        else:
            factories = Factories.of(env, options, OWN_OPTIONS, env_kwargs)
            count = (factories.count or 1) if num_envs is None else num_envs
            self.num_envs = check_integer("num_envs", count, 1)
            factories.check_count("num_envs", self.num_envs)
            with suggestions(env):
                self._games = PythonVector(
                    factories,
                    self.num_envs,
                    description,
                    num_threads=threads,
                    processes=processes,
                    same_step=same_step,
                    restarts=restarts,
                    timeout=timeout,
                )
        self._in_python = isinstance(self._games, PythonVector)
        self.metadata = {**description.metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = description.render_mode
        self.single_observation_space = description.observation_space
        self.single_action_space = description.action_space
        self.reward_space = description.reward_space
        self.observation_space = description.batched_observation_space(self.num_envs)
        batch = gymnasium_module().vector.utils.batch_space
        self.action_space = batch(self.single_action_space, self.num_envs)
        self._begun = self._seeded = False
        self._why = "the first reset has to reset all environments"
        self._over = np.zeros(self.num_envs, np.bool_)

    @property
    def envs(self) -> list[Any]:
        """The environments in this process, None for each that failed, until reset."""
        return self._games.envs if isinstance(self._games, PythonVector) else []

    @property
    def np_random(self) -> Any:
        """The random generator of built-in games' vector, or a tuple of the environments' own.

        Built-in games do not use it: a reset with an integer seeds it, for code that uses it.
        """
        return self.get_attr("np_random") if self._in_python else super().np_random

    @np_random.setter
    def np_random(self, value: np.random.Generator) -> None:
        if self._in_python:
            raise AttributeError("np_random: each environment has its own, set those of `envs`")
        self._np_random, self._np_random_seed = value, -1

    @property
    def np_random_seed(self) -> Any:
        """The seed of `np_random`, -1 if it is unknown; or a tuple of the environments' own."""
        return self.get_attr("np_random_seed") if self._in_python else super().np_random_seed

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of each environment, in the thread or process that it belongs to.

        An environment that failed is replaced by a new one first.

        Args:
            name: The method, of a wrapper or of the environment itself. An attribute that is not
                callable is returned as it is.
            *args: Its arguments.
            **kwargs: Its keyword arguments.

        Returns:
            The results, in the order of the environments.

        Raises:
            AttributeError: An environment has no such attribute. Built-in games have spaces,
                `metadata`, `render_mode`, `spec` and their options.
            TypeError: With `processes`, a value that cannot travel between processes.
            GameError: An environment hangs, or its process has ended; see `step`.
            gymnasium.error.ClosedEnvironmentError: After close.

        Exceptions of the method are passed on.
        """
        check_text("name", name)
        return self._watched(self._open().call, name, args, kwargs)  # type: ignore[no-any-return]

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Return an attribute of each environment; see `call`."""
        return self.call(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of each environment, in the wrapper that has it or in the environment.

        Args:
            name: The attribute.
            values: A list or tuple has a value for each environment; anything else is one for all.

        Raises:
            ValueError: The number of values is not `num_envs`.
            AttributeError: The game is built in.
            TypeError: With `processes`, a value that cannot travel between processes.
            GameError: An environment hangs, or its process has ended; see `step`.
            gymnasium.error.ClosedEnvironmentError: After close.
        """
        check_text("name", name)
        given = values if isinstance(values, list | tuple) else [values] * self.num_envs
        if len(given) != self.num_envs:
            raise ValueError(f"values: expected {self.num_envs} values, got {len(given)}")
        self._watched(self._open().set_attr, name, given)

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
        if options and not self._in_python:
            raise ValueError(f"options: expected only reset_mask, got {sorted(options)}")
        if not self._begun and not mask.all():
            raise error.ResetNeeded(f"reset_mask: {self._why}")
        if seed is None and not self._seeded:
            seed = self._seed
        seeds = self._seeds(seed)
        begins = {number: (seeds[number], options) for number in np.flatnonzero(mask).tolist()}
        if not _is_listed(seed):
            super().reset(seed=seeds[0])
        # The next call finishes a reset that Ctrl-C breaks off.
        self._begun = True
        shown, infos = self._watched(games.reset, begins)
        self._seeded = True
        self._over &= ~mask
        return shown, self._infos(infos)

    def step(
        self, actions: Any
    ) -> tuple[Any, npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], dict[str, Any]]:
        """Take an action in each environment.

        Args:
            actions: One for each environment, of `action_space`.

        Returns:
            States, rewards (float64), flags `terminated` and `truncated` (bool), infos. Rewards are
            (num_envs, *reward_shape) where environments have a `reward_space`, else (num_envs,).

        Raises:
            ValueError: The actions have another shape, or one is not in a Discrete space. No
                environment moves.
            TypeError: The actions have the wrong type. No environment moves.
            GameError: An environment raised, refused its action, or returned a reward or flag that
                is not one value. Only `reset` is possible then.
            gymnasium.error.ResetNeeded: Before the first reset, after a GameError, or with mode
                DISABLED after the end of an episode; then it is an AssertionError too.
            gymnasium.error.ClosedEnvironmentError: After close.
        """
        games = self._open()
        if not self._begun:
            raise error.ResetNeeded(f"step before a reset: {self._why}")
        disabled = self._disabled
        if disabled and self._over.any():
            over = np.flatnonzero(self._over).tolist()
            raise EpisodeOverError(
                f"step without a reset of environments whose episode is over: {over}"
            )
        shown, rewards, terminated, truncated, infos = self._watched(games.step, actions)
        if disabled:
            self._over = terminated | truncated
        return shown, rewards, terminated, truncated, self._infos(infos)

    def render(self) -> tuple[Any, ...] | None:
        """Return the frames that environments render; None for built-in games.

        Raises:
            GameError: An environment hangs, or its process has ended; see `step`.
            gymnasium.error.ClosedEnvironmentError: After close.
        """
        return self._watched(self._open().render)  # type: ignore[no-any-return]

    def close_extras(self, **_: Any) -> None:
        """Close the environments, or stop the games."""
        if self._games is not None:
            self._games.close()

    def _open(self) -> BuiltInVector | PythonVector:
        if self.closed or self._games is None:
            raise error.ClosedEnvironmentError("these environments are closed")
        return self._games

    def _watched(self, call: Callable[..., Any], *args: Any) -> Any:
        """Make a call of the games; after a GameError only `reset` is possible."""
        try:
            return call(*args)
        except GameError as failure:
            self._begun = False
            self._why = f"all environments have to be reset after a failure ({failure})"
            raise

    def _infos(
        self, given: dict[str, Any] | Iterable[tuple[int, dict[str, Any]]]
    ) -> dict[str, Any]:
        if isinstance(given, dict):
            return given
        infos: dict[str, Any] = {}
        for number, info in given:
            infos = self._add_info(infos, info, number)
        return infos

    def _mask(self, options: dict[str, Any] | None) -> npt.NDArray[np.bool_]:
        mask = None if options is None else options.pop("reset_mask", None)
        if mask is None:
            return np.ones(self.num_envs, np.bool_)
        if not isinstance(mask, np.ndarray):
            raise TypeError(f"reset_mask: expected an array of bool, got {type(mask).__name__}")
        if mask.shape != (self.num_envs,):
            raise ValueError(f"reset_mask: expected shape ({self.num_envs},), got {mask.shape}")
        if mask.dtype != np.bool_:
            raise TypeError(f"reset_mask: expected an array of bool, got {mask.dtype}")
        if not mask.any():
            raise ValueError("reset_mask: expected an array with at least one True, got none")
        return mask

    def _seeds(self, seed: int | Sequence[int | None] | None) -> list[int | None]:
        if seed is None:
            return [None] * self.num_envs
        if not _is_listed(seed):
            first = check_integer("seed", seed, 0)
            return [first + number for number in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise ValueError(f"seed: expected {self.num_envs} seeds, got {len(seed)}")
        return [None if each is None else check_integer("seed", each, 0) for each in seed]


def _is_listed(seed: Any) -> TypeGuard[Sequence[int | None]]:
    """Return whether a seed is one for each environment."""
    if isinstance(seed, np.ndarray):
        return bool(seed.ndim)
    return isinstance(seed, Sequence) and not isinstance(seed, str | bytes)
