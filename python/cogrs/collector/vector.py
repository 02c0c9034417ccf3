"""`VectorEnv`: games as a vector environment of Gymnasium."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cogrs.collector.convert import convert
from cogrs.collector.environments.factory import gymnasium_module
from cogrs.collector.environments.seat import Seats
from cogrs.collector.games import BUILT_IN
from cogrs.collector.options import ContextOptions, integer

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from cogrs.collector.batch import Arrays
    from cogrs.collector.context import GameContext
    from cogrs.collector.infos import Infos

gymnasium_module()
from gymnasium import error, spaces  # noqa: E402
from gymnasium.vector import AutoresetMode  # noqa: E402
from gymnasium.vector import VectorEnv as _VectorEnv  # noqa: E402

_TOLD = ("last_r", "ended", "cut")
"""What every state says beside what the game shows."""


class VectorEnv(_VectorEnv[Any, Any, Any]):
    """Games side by side with the interface of `gymnasium.vector.VectorEnv`.

    ::

        envs = cogrs.collector.VectorEnv("cartpole", num_envs=16, seed=0)
        states, infos = envs.reset()
        states, rewards, terminated, truncated, infos = envs.step(envs.action_space.sample())

    `metadata["autoreset_mode"]` is NEXT_STEP: the step after the last of an episode ignores its
    action, pays 0 and shows the first state of the next. Arrays that it returns are the caller's.

    Built-in games run in Rust. Their spaces are those of Gymnasium's environments where there is
    one; states of several keys (`action_mask`, `player`) are a Dict. Rewards are float32 in the
    game and float64 here. Any other environment is moved as `cogrs.collector.games.gymnasium` says,
    by the thread that calls `step` while moves are quick; seeds, resets, rewards and infos are
    those of `gymnasium.vector.SyncVectorEnv`.

    Args:
        env: Name of a built-in game (`BUILT_IN`), an id of `gymnasium.make`, a callable that makes
            an environment, or `"package.module:callable"`.
        num_envs: Environments, >= 1.
        seed: What the first `reset` uses when it is given none; None draws from the system.
        num_threads: As in ContextOptions.
        **options: Of the game, such as `max_episode_steps`; or of what makes environments.

    Raises:
        TypeError: An argument is of another kind; or there is no such option.
        ValueError: One is out of range, or a space is none that batches can have.
        ImportError: Gymnasium is not installed.
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
        """Make the game context, and of environments the first; see the class."""
        self._context: GameContext | None = None
        self.num_envs = integer("num_envs", num_envs, 1)
        self._seed = None if seed is None else integer("seed", seed, 0)
        # Sorts rows by game.
        co = ContextOptions(num_games=num_envs, num_threads=num_threads, deterministic=True)
        self._seats: Seats | None = None
        if isinstance(env, str) and env in BUILT_IN:
            module = importlib.import_module(f"cogrs.collector.games.{env}")
            self._context = module.GameContext(co, module.GameOptions(**options))
            self._set_spaces(*_built_in_spaces(self._context))
        else:
            self._seats = Seats(env, options, num_envs)
            module = importlib.import_module("cogrs.collector.games.gymnasium")
            self._context = module.GameContext(co, self._seats)
            first = self._seats.envs[0]
            self._set_spaces(first.observation_space, first.action_space)
            self.metadata = {**getattr(first, "metadata", {}), **VectorEnv.metadata}
            self.render_mode = getattr(first, "render_mode", None)
        keys = _keys(self.single_observation_space)
        shown = dict.fromkeys((*keys, *_TOLD), "")
        self._context.AddCollectors({"step": ({**shown, "_batchsize": num_envs}, {"a": ""})})
        self._context.make_batches()
        self._started = False
        self._infos: Infos | None = None

    def _set_spaces(self, observation: spaces.Space[Any], action: spaces.Space[Any]) -> None:
        batch = gymnasium_module().vector.utils.batch_space
        self.single_observation_space, self.single_action_space = observation, action
        self.observation_space = batch(observation, self.num_envs)
        self.action_space = batch(action, self.num_envs)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Begin episodes.

        Args:
            seed: Environment i is seeded by `seed + i`, or by the i-th of a sequence; None goes on
                with what there is. The same seed gives the same episodes from here on.
            options: `reset_mask`, bool (num_envs,): only these begin an episode, and the others
                stay where they are. More of it goes to `reset` of environments.

        Returns:
            States and infos.

        Raises:
            ValueError: There are not `num_envs` seeds, or an option is none.
            TypeError: A seed is no integer, `options` is no dict, or `reset_mask` is no array of
                bool.
            gymnasium.error.ResetNeeded: The first reset is not of all.
            gymnasium.error.ClosedEnvironmentError: After close.
        """
        context = self._open()
        if not isinstance(options, Mapping | None):
            raise TypeError(f"options: expected a dict or None, got {type(options).__name__}")
        options = None if options is None else dict(options)
        mask = self._mask(options)
        if options and self._seats is None:
            raise ValueError(f"options: expected reset_mask alone, got {sorted(options)}")
        if not self._started and not mask.all():
            raise error.ResetNeeded("reset_mask: the first reset is of all environments")
        if seed is None and not self._started:
            seed = self._seed
        seeds = self._seeds(seed)
        if self._started:
            self._ready()
        for number, begins in enumerate(mask.tolist()):
            if not begins:
                context.stay(number)
            elif self._seats is None:
                context.begin(number, seeds[number])
            else:
                self._seats.begins[number] = seeds[number], options
                context.begin(number)
        if not self._started:
            context.Start()
            self._started = True
            self._ready()
        else:
            self._go_on()
        shown = self._shown()
        return self._observation(shown), self._told()

    def step(
        self, actions: Any
    ) -> tuple[Any, npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], dict[str, Any]]:
        """Take an action in each environment.

        Args:
            actions: One for each, of `action_space`.

        Returns:
            States, rewards (float64), whether they terminated and whether they were cut short
            (bool), infos.

        Raises:
            ValueError: There are not `num_envs` actions of the right shape, or one is no number of
                a Discrete space. No environment moves.
            TypeError: They are of another kind. No environment moves.
            GameError: An environment failed, or refused its action.
            gymnasium.error.ResetNeeded: Before the first reset.
            gymnasium.error.ClosedEnvironmentError: After close.
        """
        context = self._open()
        if not self._started:
            raise error.ResetNeeded("step before the first reset")
        dtype, shape = context.spec.action
        expected = (self.num_envs, *(self.single_action_space.shape or ()))
        given = convert("actions", actions, np.dtype(dtype), expected)
        self._ready()
        assert self._infos is not None
        batch, reply = context.batch(self._infos)
        assert reply is not None
        self._check_numbers(given, batch[0])
        reply[0]["a"][...] = given.reshape((self.num_envs, *shape))
        self._go_on()
        shown = self._shown()
        return self._observation(shown), *self._outcomes(shown), self._told()

    def render(self) -> tuple[Any, ...] | None:
        """What environments render; None for built-in games.

        Raises:
            gymnasium.error.ClosedEnvironmentError: After close.
        """
        self._open()
        if self._seats is None:
            return None
        return tuple(self._seats.envs[number].render() for number in sorted(self._seats.envs))

    def close_extras(self, **_: Any) -> None:
        """Stop the games."""
        if self._context is not None:
            self._context.Stop()

    def _open(self) -> GameContext:
        if self.closed or self._context is None:
            raise error.ClosedEnvironmentError("these environments are closed")
        return self._context

    def _ready(self) -> None:
        """Have the batch that the games wait with: after Ctrl-C it may still be to come."""
        assert self._context is not None
        if self._infos is None:
            self._infos = self._context.Wait()

    def _go_on(self) -> None:
        assert self._context is not None
        infos, self._infos = self._infos, None
        assert infos is not None
        self._context.Steps(infos)
        self._ready()

    def _check_numbers(self, actions: npt.NDArray[Any], shown: Arrays) -> None:
        """Refuse what is no number of a Discrete space, but for those whose action is ignored."""
        space = self.single_action_space
        if not isinstance(space, spaces.Discrete):
            return
        # A negative number is a large one then, so that one look is enough.
        choices = (actions - space.start).view(np.uint64)
        if choices.max() < space.n:
            return
        _, terminated, truncated = self._outcomes(shown)
        wrong = np.flatnonzero((choices >= space.n) & ~(terminated | truncated))
        if wrong.size:
            expected = f"integers in [{space.start}, {space.start + space.n})"
            got = f"{actions[wrong[0]]} for environment {wrong[0]}"
            raise ValueError(f"actions: expected {expected}, got {got}")

    def _shown(self) -> Arrays:
        assert self._context is not None
        assert self._infos is not None
        return self._context.batch(self._infos)[0][0]

    def _observation(self, shown: Arrays) -> Any:
        return _assembled(self.single_observation_space, (), shown)

    def _outcomes(
        self, shown: Arrays
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        seats = self._seats
        rewards, terminated, truncated = (
            (shown["last_r"], shown["ended"], shown["cut"])
            if seats is None
            else (seats.rewards, seats.terminated, seats.truncated)
        )
        return (
            np.array(rewards, np.float64),
            np.array(terminated, np.bool_),
            np.array(truncated, np.bool_),
        )

    def _told(self) -> dict[str, Any]:
        told: dict[str, Any] = {}
        if self._seats is None:
            return told
        infos = self._seats.infos
        for number, info in enumerate(infos):
            if info:
                told = self._add_info(told, info, number)
                infos[number] = {}
        return told

    def _mask(self, options: dict[str, Any] | None) -> npt.NDArray[np.bool_]:
        mask = None if options is None else options.pop("reset_mask", None)
        if mask is None:
            return np.ones(self.num_envs, np.bool_)
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
            got = mask.dtype if isinstance(mask, np.ndarray) else type(mask).__name__
            raise TypeError(f"reset_mask: expected an array of bool, got {got}")
        if mask.shape != (self.num_envs,) or not mask.any():
            raise ValueError(
                f"reset_mask: expected ({self.num_envs},), one of them True at least, got "
                f"{mask.shape} with {int(mask.sum())} True"
            )
        return mask

    def _seeds(self, seed: int | Sequence[int | None] | None) -> list[int | None]:
        if seed is None:
            return [None] * self.num_envs
        if not isinstance(seed, Sequence | np.ndarray):
            first = integer("seed", seed, 0)
            return [first + number for number in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise ValueError(f"seed: expected {self.num_envs} of them, got {len(seed)}")
        return [None if each is None else integer("seed", each, 0) for each in seed]


def _built_in_spaces(context: GameContext) -> tuple[spaces.Space[Any], spaces.Space[Any]]:
    shown: dict[str, spaces.Space[Any]] = {
        key: _box(dtype, shape, context.bounds.get(key))
        for key, (dtype, shape) in context.spec.keys.items()
    }
    observation = shown["s"] if list(shown) == ["s"] else spaces.Dict(shown)
    dtype, shape = context.spec.action
    if np.dtype(dtype).kind == "i":
        return observation, spaces.Discrete(context.spec.num_action)
    # Gymnasium has a vector where the game has a number.
    return observation, _box(dtype, shape or (1,), context.bounds.get("a"))


def _box(dtype: Any, shape: tuple[int, ...], bounds: tuple[Any, Any] | None) -> spaces.Box:
    dtype = np.dtype(dtype)
    if bounds is None and dtype.kind == "f":
        bounds = -np.inf, np.inf
    elif bounds is None:
        bounds = np.iinfo(dtype).min, np.iinfo(dtype).max
    low, high = (np.broadcast_to(np.asarray(each, dtype), shape).copy() for each in bounds)
    return spaces.Box(low, high, shape, dtype.type)


def _keys(space: spaces.Space[Any], path: tuple[str, ...] = ()) -> list[str]:
    if isinstance(space, spaces.Dict):
        return [key for part in space for key in _keys(space[part], (*path, str(part)))]
    if isinstance(space, spaces.Tuple):
        return [key for at, part in enumerate(space) for key in _keys(part, (*path, str(at)))]
    return [".".join(path) or "s"]


def _assembled(space: spaces.Space[Any], path: tuple[str, ...], shown: Arrays) -> Any:
    """Arrays of a batch in the form of a space, copied."""
    if isinstance(space, spaces.Dict):
        return {part: _assembled(space[part], (*path, str(part)), shown) for part in space}
    if isinstance(space, spaces.Tuple):
        parts = enumerate(space)
        return tuple(_assembled(part, (*path, str(at)), shown) for at, part in parts)
    return shown[".".join(path) or "s"].copy()
