"""Built-in games as a vector, for `VectorEnv`: a callback turned inside out.

A step fills the reply of the batch that it holds, gives the batch back and waits for the next one.
The columns `ended` and `cut` mark the last state of an episode; the next step shows the first state
of another, as autoreset mode NEXT_STEP has it.
"""

from __future__ import annotations

import importlib
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from cogrs.collector.convert import convert
from cogrs.collector.environments.factory import gymnasium_module
from cogrs.collector.game_error import GameError
from cogrs.collector.options import ContextOptions, NotPicklable
from cogrs.suggest import check_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from cogrs.collector.batch import Arrays
    from cogrs.collector.context import GameContext
    from cogrs.collector.delivery import Infos

    Outcomes = tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]

_OUTCOME = ("last_r", "ended", "cut")
"""The columns of a state beside those of its game."""


class BuiltInVector(NotPicklable):
    """The games of a `VectorEnv`: one batch of all of them, whose replies are the actions.

    Attributes:
        observation_space: That of each game.
        action_space: Likewise.
    """

    _called = "VectorEnv of a built-in game"

    def __init__(self, name: str, count: int, num_threads: int, options: Mapping[str, Any]) -> None:
        """Create the games; TypeError or ValueError for a wrong option."""
        self._module = importlib.import_module(f"cogrs.collector.games.{name}")
        self._count = count
        self._num_threads = num_threads
        known = [field.name for field in fields(self._module.GameOptions)]
        check_options(options, [*known, "num_envs", "seed", "num_threads"], f"VectorEnv({name!r})")
        self._options = self._module.GameOptions(**options)
        self._make()
        spec = self._context.spec
        self.observation_space, self.action_space = _spaces(self._context)
        self._dtype, self._shape = np.dtype(spec.action[0]), tuple(spec.action[1])
        self._given_shape = (count, *(self.action_space.shape or ()))

    def _make(self) -> None:
        # Sorts rows by game.
        co = ContextOptions(
            num_games=self._count, num_threads=self._num_threads, deterministic=True
        )
        self._context: GameContext = self._module.GameContext(co, self._options)
        shown = dict.fromkeys((*self._context.spec.keys, *_OUTCOME), "")
        self._context.AddCollectors({"step": ({**shown, "_batchsize": self._count}, {"a": ""})})
        self._context.make_batches()
        self._started = self._failed = False
        self._infos: Infos | None = None

    def reset(self, begins: Mapping[int, tuple[int | None, Any]]) -> tuple[Any, list[Any]]:
        """Start episodes of these numbers, with their seeds; the others stay where they are."""
        if self._failed:
            self._context.Stop()
            self._make()
        if self._started:
            self._ready()
        for number in range(self._count):
            if number in begins:
                self._context.begin(number, begins[number][0])
            else:
                self._context.stay(number)
        if self._started:
            self._go_on()
        else:
            self._context.Start()
            self._started = True
            self._ready()
        return self._observation(self._shown()), []

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, list[Any]]:
        """Take an action in each; a wrong one is refused before a game moves."""
        given = convert("actions", actions, self._dtype, self._given_shape)
        self._ready()
        assert self._infos is not None
        batch, reply = self._context.batch(self._infos)
        assert reply is not None
        self._check_numbers(given, batch[0])
        reply[0]["a"][...] = given.reshape((self._count, *self._shape))
        self._go_on()
        shown = self._shown()
        return self._observation(shown), *_outcomes(shown), []

    def render(self) -> None:
        """Return None: built-in games render nothing."""

    def close(self) -> None:
        """Stop the games."""
        self._context.Stop()

    def _ready(self) -> None:
        """Wait for the batch of all games, which after Ctrl-C may not have come yet."""
        if self._infos is None:
            try:
                self._infos = self._context.Wait()
            except GameError:
                self._failed = True
                raise

    def _go_on(self) -> None:
        infos, self._infos = self._infos, None
        assert infos is not None
        self._context.Steps(infos)
        self._ready()

    def _check_numbers(self, actions: npt.NDArray[Any], shown: Arrays) -> None:
        """Refuse numbers outside a Discrete space, except where an action is ignored."""
        space = self.action_space
        if not isinstance(space, gymnasium_module().spaces.Discrete):
            return
        # A negative number becomes a large one, so that one comparison is enough.
        choices = (actions - space.start).view(np.uint64)
        if choices.max() < space.n:
            return
        _, terminated, truncated = _outcomes(shown)
        wrong = np.flatnonzero((choices >= space.n) & ~(terminated | truncated))
        if wrong.size:
            expected = f"integers in [{space.start}, {space.start + space.n})"
            got = f"{actions[wrong[0]]} for environment {wrong[0]}"
            raise ValueError(f"actions: expected {expected}, got {got}")

    def _shown(self) -> Arrays:
        assert self._infos is not None
        return self._context.batch(self._infos)[0][0]

    def _observation(self, shown: Arrays) -> Any:
        """Return copies of a batch's arrays in the form of the space."""
        if isinstance(self.observation_space, gymnasium_module().spaces.Dict):
            return {part: shown[part].copy() for part in self.observation_space}
        return shown["s"].copy()


def _outcomes(shown: Arrays) -> Outcomes:
    return (
        np.array(shown["last_r"], np.float64),
        np.array(shown["ended"], np.bool_),
        np.array(shown["cut"], np.bool_),
    )


def _spaces(context: GameContext) -> tuple[Any, Any]:
    spaces = gymnasium_module().spaces
    shown = {
        key: _box(dtype, shape, context.bounds.get(key))
        for key, (dtype, shape) in context.spec.keys.items()
    }
    observation = shown["s"] if list(shown) == ["s"] else spaces.Dict(shown)
    dtype, shape = context.spec.action
    if np.dtype(dtype).kind == "i":
        return observation, spaces.Discrete(context.spec.num_action)
    # Gymnasium has a vector where the game has a number.
    return observation, _box(dtype, shape or (1,), context.bounds.get("a"))


def _box(dtype: Any, shape: tuple[int, ...], bounds: tuple[Any, Any] | None) -> Any:
    dtype = np.dtype(dtype)
    if bounds is None and dtype.kind == "f":
        bounds = -np.inf, np.inf
    elif bounds is None:
        bounds = np.iinfo(dtype).min, np.iinfo(dtype).max
    low, high = (np.broadcast_to(np.asarray(each, dtype), shape).copy() for each in bounds)
    return gymnasium_module().spaces.Box(low, high, shape, dtype.type)
