"""Built-in games as a vector, for `VectorEnv`: a callback turned inside out.

A step fills the reply of the batch that it holds, gives the batch back and waits for the next one.
The columns `ended` and `cut` mark the last state of an episode; the next step shows the first state
of another, as autoreset mode NEXT_STEP has it. With SAME_STEP a second round follows at once, in
which games whose episode goes on stay where they are.
"""

from __future__ import annotations

import importlib
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from gymnasium.spaces import Dict, Discrete

from cogrs.collector.environments.factory import gymnasium_module
from cogrs.collector.game_error import GameError
from cogrs.collector.options import ContextOptions, NotPicklable
from cogrs.collector.vector_options import OWN_OPTIONS
from cogrs.conversion import convert
from cogrs.suggest import check_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from cogrs import _core
    from cogrs.collector.batch import Arrays
    from cogrs.collector.context import GameContext
    from cogrs.collector.environments.vector_description import VectorDescription

_FEW = 32
"""Games up to which a list of their actions is checked faster than an array."""

_OUTCOME = ("last_r", "ended", "cut")
"""The columns of a state beside those of its game."""


class BuiltInVector(NotPicklable):
    """The games of a `VectorEnv`: one batch of all of them, whose replies are the actions."""

    _called = "VectorEnv of a built-in game"

    def __init__(
        self,
        name: str,
        count: int,
        num_threads: int,
        options: Mapping[str, Any],
        description: VectorDescription,
        *,
        same_step: bool,
    ) -> None:
        """Create the games, and add their spaces to the description.

        TypeError or ValueError for a wrong option.
        """
        self._module = importlib.import_module(f"cogrs.collector.games.{name}")
        self._count = count
        self._num_threads = num_threads
        self._same_step = same_step
        known = [field.name for field in fields(self._module.GameOptions)]
        check_options(options, [*known, *OWN_OPTIONS], f"VectorEnv({name!r})")
        self._options = self._module.GameOptions(**options)
        self._make()
        spec = self._context.spec
        observation, action = _spaces(self._context)
        description.add(0, (observation, action, {"render_modes": []}, None, None))
        self._parts = list(observation) if isinstance(observation, Dict) else None
        self._dtype = np.dtype(spec.action[0])
        self._given_shape = (count, *(action.shape or ()))
        self._numbers: range | None = None
        if isinstance(action, Discrete):
            self._numbers = range(int(action.start), int(action.start + action.n))
        self._attributes = {
            "observation_space": observation,
            "action_space": action,
            "metadata": {"render_modes": []},
            "render_mode": None,
            "spec": None,
            **{field: getattr(self._options, field) for field in known},
        }

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
        self._delivery: _core.CollectorDelivery | None = None
        # By the number of the buffer: memory that games write to and read from.
        self._columns: dict[int, _Columns] = {}

    def reset(self, begins: Mapping[int, tuple[int | None, Any]]) -> tuple[Any, dict[str, Any]]:
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
        return self._observation(self._shown()), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take an action in each; a wrong one is refused before a game moves."""
        if (
            type(actions) is not np.ndarray
            or actions.dtype != self._dtype
            or actions.shape != self._given_shape
        ):
            actions = convert("actions", actions, self._dtype, self._given_shape)
        self._ready()
        columns = self._shown()
        if self._numbers is not None:
            self._check_numbers(self._numbers, actions, columns)
        columns.given[:] = actions
        self._go_on()
        columns = self._shown()
        # Copies: the arrays are the caller's.
        rewards = columns.rewards.astype(np.float64)
        terminated, truncated = columns.ended.copy(), columns.cut.copy()
        shown = self._observation(columns)
        if not self._same_step or not (_has_any(terminated) or _has_any(truncated)):
            return shown, rewards, terminated, truncated, {}
        first, infos = self._begin_next(shown, terminated | truncated)
        return first, rewards, terminated, truncated, infos

    def _begin_next(self, shown: Any, over: npt.NDArray[np.bool_]) -> tuple[Any, dict[str, Any]]:
        """Return the states once ended episodes are followed by others, and infos with the last."""
        ends = over.tolist()
        self._context.stay_each([number for number, end in enumerate(ends) if not end])
        self._go_on()
        final = np.empty(self._count, object)
        for number, end in enumerate(ends):
            if end:
                final[number] = self._row(shown, number)
        infos = {"final_obs": final, "_final_obs": over, "final_info": {}}
        return self._observation(self._shown()), {**infos, "_final_info": over.copy()}

    def _row(self, shown: Any, number: int) -> Any:
        if self._parts is None:
            return shown[number]
        return {part: shown[part][number, ...] for part in self._parts}

    def render(self) -> None:
        """Return None: built-in games render nothing."""

    def call(self, name: str, _args: Any, _kwargs: Any) -> tuple[Any, ...]:
        """Return an attribute that all games have; AttributeError for others."""
        if name not in self._attributes:
            expected = f"one of {sorted(self._attributes)} of a built-in game"
            raise AttributeError(f"{name}: expected {expected}")
        return (self._attributes[name],) * self._count

    def set_attr(self, name: str, _values: Any) -> None:
        """Raise an AttributeError: options are given to VectorEnv."""
        raise AttributeError(f"{name}: attributes of built-in games cannot be set")

    def close(self) -> None:
        """Stop the games."""
        self._context.Stop()

    def _ready(self) -> None:
        """Wait for the batch of all games, which after Ctrl-C may not have come yet."""
        if self._delivery is None:
            try:
                self._delivery = self._context.take(None, None)
            except GameError:
                self._failed = True
                raise

    def _go_on(self) -> None:
        delivery, self._delivery = self._delivery, None
        assert delivery is not None
        self._context.give_back(delivery)
        self._ready()

    def _check_numbers(self, numbers: range, actions: npt.NDArray[Any], shown: _Columns) -> None:
        """Refuse numbers outside a Discrete space, except where an action is ignored."""
        if self._count <= _FEW:
            listed = actions.tolist()
            if numbers.start <= min(listed) and max(listed) < numbers.stop:
                return
        # A negative number becomes a large one, so that one comparison is enough.
        elif numbers.start == 0 and actions.view(np.uint64).max() < numbers.stop:
            return
        inside = (actions >= numbers.start) & (actions < numbers.stop)
        wrong = np.flatnonzero(~(inside | shown.ended | shown.cut))
        if wrong.size:
            expected = f"integers in [{numbers.start}, {numbers.stop})"
            got = f"{actions[wrong[0]]} for environment {wrong[0]}"
            raise ValueError(f"actions: expected {expected}, got {got}")

    def _shown(self) -> _Columns:
        delivery = self._delivery
        assert delivery is not None
        columns = self._columns.get(delivery.buffer)
        if columns is None:
            columns = self._columns[delivery.buffer] = self._columns_of(delivery)
        return columns

    def _columns_of(self, delivery: _core.CollectorDelivery) -> _Columns:
        batch, reply = self._context.buffer(delivery.gid, delivery.buffer, self._count)
        assert reply is not None
        shown, actions = batch[0], reply[0]["a"]
        return _Columns(
            {part: shown[part] for part in self._parts or ("s",)},
            shown["last_r"],
            shown["ended"].view(np.bool_),
            shown["cut"].view(np.bool_),
            actions.reshape(self._given_shape),
        )

    def _observation(self, columns: _Columns) -> Any:
        """Return copies of a batch's arrays in the form of the space."""
        if self._parts is None:
            return columns.shown["s"].copy()
        return {part: array.copy() for part, array in columns.shown.items()}


class _Columns(NamedTuple):
    """Arrays of one of the batches that are filled in turn."""

    shown: Arrays
    rewards: npt.NDArray[np.float32]
    ended: npt.NDArray[np.bool_]
    cut: npt.NDArray[np.bool_]
    given: npt.NDArray[Any]
    """Actions, in the shape of the action space."""


def _has_any(flags: npt.NDArray[np.bool_]) -> bool:
    # In small arrays a tenth of the time of `any`; in large ones no slower.
    return 1 in flags.tobytes()


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
