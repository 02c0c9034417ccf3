"""Environments with the interface of Gymnasium as games.

`s` is the observation, in the dtype and shape of its space; the parts of a Dict or Tuple space are
keys of their own, by their names (nested ones joined by dots). `a` is an int64 for Discrete actions
(one of the space's own numbers), else of the dtype and shape of the action space. `action_mask`
(int8) is `info["action_mask"]` in the flat form of `cogrs.action_mask`; without a mask everything
is legal. A Text is uint32 (max_length,): code points, with zeros after the end. `info_keys` makes
other infos keys. Each episode begins by `env.reset(seed=)` with a seed of 32 bits, which `co.seed`,
the game and the episode determine.

All calls of an environment come from one thread, and environments are made in the order of their
numbers. `co.num_threads` env workers, each a thread, have ranges of games; 0 is one, since Python
runs one thread at a time. With 0, where all games wait for one batch and the first `Run` has no
timeout, the thread that calls this `Run` is the env worker from then on, and nothing is handed over
between threads. With `processes` (POSIX only) the environments live in so many processes, each
stepped by the env worker that waits for it. Moves and their outcomes are rows of a step buffer; one
call of the core reports about a millisecond's moves and brings the next, so that the interpreter is
taken once per call. An environment that hangs does so in a daemon thread that holds nothing.

With `co.max_num_threads` the method `bind_query` of an environment is given a function
`query(tid, observation)`, which asks actors about other states while `step` or `reset` is under
way, as a search does; see `cogrs.collector.environments.query`. Rows then have the game's `id` and
the query's `tid`. `num_threads` should be the number of games that search at once.
"""

from __future__ import annotations

import contextlib
import math
import os
import weakref
from dataclasses import dataclass, fields
from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from cogrs import _core
from cogrs.collector.context import GameContext as _GameContext
from cogrs.collector.environments.env_worker import EnvWorker, join_all
from cogrs.collector.environments.factory import Factories
from cogrs.collector.environments.first import FirstEnv
from cogrs.collector.environments.inline import InlineEnvWorker
from cogrs.collector.environments.process import RemoteStepper
from cogrs.collector.environments.query import QueryFactory
from cogrs.collector.environments.spaces import spaces_of
from cogrs.collector.environments.step_buffer import OWN_ARRAYS, OWN_BYTES, StepBuffer
from cogrs.collector.environments.stepper import LocalStepper
from cogrs.collector.options import ContextOptions
from cogrs.dtypes import dtype_text
from cogrs.validation import check_integer, check_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cogrs.collector.description import GameSpec
    from cogrs.collector.environments.stepper import Stepper

__all__ = ["ContextOptions", "GameContext", "GameOptions", "GymnasiumContext"]


@dataclass
class GameOptions:
    """Options of the games.

    Attributes:
        processes: Number of processes for the environments, on POSIX systems; 0 is threads of this
            one. Each is a new Python, which imports the callable and shares memory with this one.
        stop_timeout: Seconds that Stop waits for environments before it abandons those that hang,
            or ends their processes.
        start_timeout: Seconds that the first environment of a process may take to be made.
        info_keys: Values of infos that batches have as keys: a dtype by key, or a pair of a dtype
            and a shape; zeros where infos do not have the key. `"episode.r"` is a nested one.
    """

    processes: int = 0
    stop_timeout: float = 0.5
    start_timeout: float = 120.0
    info_keys: Mapping[str, Any] | None = None


_OWN_OPTIONS = tuple(field.name for field in fields(GameOptions))


class GymnasiumContext(_GameContext):
    """Many environments: `GameContext(co, "CartPole-v1")`, or without `co` for GCWrapper to give.

    The first environment is made at once, since it defines the game's keys; the others after Start.
    Each game has one of its own, and a new one after a failure. With `num_threads` in a `co` given
    here the first one is made by its env worker; if another thread moves it in the end it is
    closed, and game 0 gets a new one.

    Args:
        *args: In any order `env`, ContextOptions and GameOptions. `env` is an id of
            `gymnasium.make`, a callable that makes an environment, or `"package.module:callable"`.
        **kwargs: The fields of GameOptions by keyword, unless None. All others are arguments of the
            callable, for example `max_episode_steps`.

    Raises:
        TypeError: `env` is missing, or makes something other than an environment of arrays.
        ValueError: An option is out of range, or other processes cannot import `env`.
        ImportError: Gymnasium is not installed.
    """

    _options_type = GameOptions
    _of_agents: ClassVar[bool] = False
    options: GameOptions

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Make the first environment; see the class."""
        known = (ContextOptions, GameOptions, type(None))
        makers = [arg for arg in args if not isinstance(arg, known)]
        if len(makers) != 1:
            raise TypeError(f"env: expected one id or callable, got {len(makers)}")
        given = {name: kwargs.pop(name, None) for name in _OWN_OPTIONS}
        self._given = {name: value for name, value in given.items() if value is not None}
        self._factory = Factories.of(makers[0], kwargs, _OWN_OPTIONS, of_agents=self._of_agents)
        self._game = self._factory.name
        self._causes: dict[int, BaseException] = {}
        self._env_workers: list[EnvWorker] = []
        self._inline: InlineEnvWorker | None = None
        self._resources = _Resources()
        self._finalizer = weakref.finalize(self, self._resources.end)
        super().__init__(*(arg for arg in args if isinstance(arg, known)))

    def check_options(self) -> None:
        """See `GameContext`."""
        for name, value in self._given.items():
            setattr(self.options, name, value)
        check_integer("processes", self.options.processes, 0, 2**16 - 1)
        check_seconds("stop_timeout", self.options.stop_timeout)
        check_seconds("start_timeout", self.options.start_timeout)

    def look(self) -> GameSpec:
        """See `GameContext`."""
        if self.options.processes:
            first = RemoteStepper(self._factory, 0, self.options.start_timeout)
            self._resources.steppers.append(first)
            spaces = first.describe()
        else:
            self._resources.first = self._make_first()
            try:
                spaces = self._resources.first.look(spaces_of)
            except BaseException:
                self._resources.first.close()
                raise
        try:
            self._spaces = spaces.with_infos(self.options.info_keys or {})
        except BaseException:
            self._resources.end()
            raise
        return self._spaces.game_spec()

    def _make_first(self) -> FirstEnv:
        """Make the first environment in the thread that will move it, as far as that is known."""
        if self.co is not None:
            apart = bool(self.co.num_threads or self.co.max_num_threads)
            return FirstEnv.of(self._factory, apart=apart)
        try:
            return FirstEnv.of(self._factory, apart=True)
        except Exception:  # perhaps because only this thread may make it
            return FirstEnv.of(self._factory, apart=False)

    def make_core(self, **options: Any) -> _core.CollectorContext:
        """See `GameContext`."""
        co = self.co
        assert co is not None
        self._factory.check_count("num_games", co.num_games)
        columns = {tensor.column for each in self.collectors for tensor in each.inputs}
        self._used = [key for key in self.spec.columns if key in columns]
        if self.options.processes and co.max_num_threads:
            raise ValueError("max_num_threads: expected 0 for games in other processes")
        number = self.options.processes or co.num_threads or 1
        self._count = min(number, co.num_games)
        with contextlib.ExitStack() as undo:
            if self.options.processes:
                for worker in range(len(self._resources.steppers), self._count):
                    stepper = RemoteStepper(self._factory, worker, self.options.start_timeout)
                    undo.callback(self._resources.forget, stepper)
                    self._resources.steppers.append(stepper)
                for remote in self._resources.steppers:
                    remote.memory.grow(self._step_buffer_size())
            game = self._core_game()
            # Environments have limits of their own.
            core = _core.CollectorContext(game, self.collectors, max_episode_steps=1, **options)
            undo.pop_all()
        return core

    def _core_game(self) -> SimpleNamespace:
        """Return the description of the game that the core reads: only keys that are used."""
        keys = {key: self.spec.columns[key] for key in self._used}
        files: list[int | None] = [None] * self._count
        if self.options.processes:
            files = [stepper.memory.descriptor for stepper in self._resources.steppers]
        return SimpleNamespace(**{**vars(self.spec), "keys": keys}, files=files)

    def _step_buffer_size(self) -> int:
        """Return enough bytes for a step buffer: each array begins at a multiple of 64."""
        assert self.co is not None
        fields = [self.spec.columns[key] for key in self._used] + [self.spec.action]
        row = sum(int(dtype.itemsize) * math.prod(shape) for dtype, shape in fields) + OWN_BYTES
        games = min(-(-self.co.num_games // self._count), 256)
        return row * games + 64 * (len(fields) + OWN_ARRAYS)

    def started(self) -> None:
        """See `GameContext`."""
        assert self._core is not None
        assert self.co is not None
        games, count = self.co.num_games, self._count
        self._resources.timeout = self.options.stop_timeout
        for number in range(count):
            arrays, offsets = self._core.step_buffer(number)
            # The games that the core gives to this env worker.
            mine = range(-(-number * games // count), -(-(number + 1) * games // count))
            stepper = self._stepper(number, mine, arrays, offsets)
            self._env_workers.append(self._env_worker(number, stepper))
        for env_worker, following in pairwise(self._env_workers):
            env_worker.next = following
        self._resources.env_workers, self._resources.core = self._env_workers, self._core
        for env_worker in self._env_workers:
            env_worker.start(self._resources.first if env_worker is self._env_workers[0] else None)

    def _env_worker(self, number: int, stepper: Stepper) -> EnvWorker:
        assert self._core is not None
        failed = self._causes.__setitem__
        if not self._waits_for_all() or not isinstance(stepper, LocalStepper):
            return EnvWorker(self._core, number, stepper, failed)
        self._inline = InlineEnvWorker(self._core, number, stepper, failed)
        return self._inline

    def _waits_for_all(self) -> bool:
        """Return whether all games wait for one batch, so that nothing runs beside it."""
        co = self.co
        assert co is not None
        return not (self.options.processes or co.num_threads or co.max_num_threads) and any(
            each.replies is not None and each.player is None and each.batch_size >= co.num_games
            for each in self.collectors
        )

    def move_and_wait(
        self, core: _core.CollectorContext, gid: int | None, timeout: float | None
    ) -> _core.CollectorDelivery | None:
        """See `GameContext`."""
        if self._inline is None:
            return core.wait(gid, timeout)
        return self._inline.wait(gid, timeout)

    def _stepper(
        self, number: int, games: range, arrays: Sequence[Any], offsets: Sequence[int]
    ) -> Stepper:
        if not self.options.processes:
            step_buffer = StepBuffer.of(arrays, self._used)
            return LocalStepper(
                self._factory, self._spaces, step_buffer, games, self._query_factory()
            )
        assert self.co is not None
        remote = self._resources.steppers[number]
        tables = {
            "arrays": [
                (dtype_text(array.dtype), array.shape, offset)
                for array, offset in zip(arrays, offsets, strict=True)
            ],
            "keys": self._used,
            "spaces": self._spaces.as_json(),
            "games": (games.start, games.stop),
        }
        remote.set_up(tables, games, self.co.on_error == "restart")
        return remote

    def _query_factory(self) -> QueryFactory | None:
        assert self._core is not None
        if self.co is None or not self.co.max_num_threads:
            return None
        replies = [reply for each in self.collectors for reply in each.replies or ()]
        kinds = {reply.key: (np.dtype(reply.dtype), reply.shape) for reply in replies}
        return QueryFactory(self._core, self._spaces, kinds)

    def cause(self, game: int) -> BaseException | None:
        """See `GameContext`."""
        return self._causes.get(game)

    def Stop(self) -> None:  # noqa: N802
        """Stop as `GameContext` does; abandon what hangs after `stop_timeout`, with a warning."""
        super().Stop()
        self._resources.end()


GameContext = GymnasiumContext


class _Resources:
    """Objects that end with the game context."""

    def __init__(self) -> None:
        self.core: _core.CollectorContext | None = None
        self.env_workers: list[EnvWorker] = []
        self.steppers: list[RemoteStepper] = []
        self.first: FirstEnv | None = None
        self.timeout = 0.5
        self._pid = os.getpid()

    def forget(self, stepper: RemoteStepper) -> None:
        self.steppers.remove(stepper)
        stepper.close()

    def end(self) -> None:
        if os.getpid() != self._pid:
            return
        if self.core is not None:
            self.core.stop()
        env_workers, self.env_workers = self.env_workers, []
        for env_worker in env_workers:
            env_worker.halt()
        kill: list[Callable[[], None]] = [stepper.kill for stepper in self.steppers]
        join_all(env_workers, self.timeout, kill)
        self.env_workers = [env_worker for env_worker in env_workers if not env_worker.is_over()]
        for stepper in self.steppers:
            stepper.close()
        if self.first is not None:
            self.first.close()
