"""A game context: many games of one kind, and batches of their states.

Any thread may call any method once it has started. What threads share lies behind the lock of the
core (`_core.CollectorContext`), but for the views of batches, which two threads may make at once:
one of them is kept, and both are right.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from cogrs import _core
from cogrs.collector.batch import BatchBuffer
from cogrs.collector.by_name import CreatesByName
from cogrs.collector.collectors import Collectors, TensorSpec
from cogrs.collector.delivery import Infos, delivery_of, redeliver
from cogrs.collector.game_error import GameError
from cogrs.collector.options import ContextOptions, NotPicklable
from cogrs.collector.summary import collector_summary, summary
from cogrs.collector.tensors import as_tensors
from cogrs.validation import check_kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from cogrs.collector.batch import Batch, Reply
    from cogrs.collector.description import Collector, Description, GameSpec, Value


class GameContext(NotPicklable, metaclass=CreatesByName):
    """Games and the batches that are made of them; `GCWrapper` is the convenient way to use one.

    `GameContext("cartpole", co)` creates the game context of a built-in game, by a name of
    `BUILT_IN`, and `GameContext("gymnasium", co, "CartPole-v1")` that of environments in Python.
    More arguments are those of the class that the game's module has: ContextOptions and
    GameOptions, in any order, and the fields of GameOptions by keyword. GCWrapper gives a game
    context without ContextOptions its own. Collectors are added before Start.

    Raises:
        ValueError: The game does not exist, or an option is out of range.
        TypeError: An argument has the wrong type, an option does not exist, or GameContext itself
            is called without a name.
    """

    _game: str
    _options_type: ClassVar[type[Any]]
    # Of what a state shows, and of `a`, by key, where they are narrower than those of the dtype.
    bounds: ClassVar[Mapping[str, tuple[Any, Any]]] = {}

    def __init__(self, *args: Any) -> None:
        self.co: ContextOptions | None = None
        self.options = self._options_type()
        for arg in args:
            if isinstance(arg, ContextOptions):
                self.co = arg
            elif isinstance(arg, self._options_type):
                self.options = arg
            elif arg is not None:
                raise TypeError(
                    f"expected ContextOptions or {self._options_type.__qualname__}, "
                    f"got {type(arg).__name__}"
                )
        self.check_options()
        self.spec = self.look()
        self._collectors = Collectors(self.spec)
        self._core: _core.CollectorContext | None = None
        self._stopped = False
        self._buffers: dict[tuple[int, int], BatchBuffer] = {}
        self.use_numpy = True

    @property
    def collectors(self) -> list[Collector]:
        """The collectors that were added, in the order of their numbers."""
        return self._collectors.parsed

    # What differs from game to game.

    def check_options(self) -> None:
        """Check the game's own options; ValueError or TypeError for a wrong one."""
        raise NotImplementedError

    def look(self) -> GameSpec:
        """Return keys, action and players of the game."""
        raise NotImplementedError

    def make_core(self, **options: Any) -> _core.CollectorContext:
        """Create the games and their batches, with the options that all games have."""
        raise NotImplementedError

    def started(self) -> None:
        """Start what runs beside the core."""

    def move_and_wait(
        self, core: _core.CollectorContext, gid: int | None, timeout: float | None
    ) -> _core.CollectorDelivery | None:
        """Wait for a batch; see `CollectorContext.wait`."""
        return core.wait(gid, timeout)

    def cause(self, game: int) -> BaseException | None:
        """Return the last exception of a game, if it was one of Python's."""
        del game
        return None

    def bind(self, co: ContextOptions) -> None:
        """Take the options; ValueError if others were given before."""
        check_kind("co", co, ContextOptions, "ContextOptions")
        if self.co is not None and self.co != co:
            raise ValueError(
                "co: expected the game context's own ContextOptions, got another object"
            )
        self.co = co

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Undo changes when the body raises."""
        before = dict(self.__dict__)
        try:
            yield
        except BaseException:
            self.__dict__.update(before)
            raise

    # Descriptions of the batches.

    def AddCollectors(  # noqa: N802
        self, descriptions: Mapping[str, Description]
    ) -> dict[str, int]:
        """Add descriptions of batches, and return the number (gid) of each collector.

        Raises:
            ValueError: A description is wrong; see `GCWrapper`.
            TypeError: The descriptions are not a mapping of pairs of mappings.
            RuntimeError: The batches were made already.
        """
        self._describe(self._collectors.with_collectors(descriptions))
        return self.gids()

    def AddTensor(  # noqa: N802
        self, collector: int | str, key: str, value: Value = "", *, reply: bool = False
    ) -> TensorSpec:
        """Add a key to the input of a collector, or to its reply.

        Raises:
            ValueError: The key or its value is wrong, or the collector does not exist.
            RuntimeError: The batches were made already.
        """
        self._describe(self._collectors.with_key(collector, key, value, reply=reply))
        return self.GetTensorSpec(collector, key, reply=reply)

    def GetTensorSpec(  # noqa: N802
        self, collector: int | str, key: str, *, reply: bool = False
    ) -> TensorSpec:
        """Return dtype and shape of the arrays of a key; ValueError if one does not exist."""
        return self._collectors.tensor_spec(collector, key, reply=reply)

    def gids(self) -> dict[str, int]:
        """Return the number (gid) of each collector, by name."""
        return dict(self._collectors.gids)

    def gid(self, collector: int | str) -> int:
        """Return the number of a collector, given its name or number; ValueError if unknown."""
        return self._collectors.gid(collector)

    def _describe(self, collectors: Collectors) -> None:
        if self._core is not None:
            raise RuntimeError("collectors must be added before the batches are made")
        self._collectors = collectors

    def make_batches(self) -> None:
        """Reserve the memory of all batches; Start does so if this was not called.

        Raises:
            RuntimeError: The context has no options, or no collector.
            ValueError: An option is out of range, or a `_batchsize` larger than `num_games`.
            MemoryError: The batches take more memory than is available.
        """
        if self._core is not None:
            return
        if self.co is None:
            raise RuntimeError("no ContextOptions were given: pass co, or use GCWrapper")
        if not self.collectors:
            raise RuntimeError("no collectors were added")
        self.co.check()
        self.check_options()
        self._core = self.make_core(
            num_games=self.co.num_games,
            num_threads=self.co.threads(),
            num_buffers=self.co.num_collectors or None,
            seed=self.co.drawn_seed(),
            deterministic=bool(self.co.deterministic),
            on_error=self.co.on_error,
            max_restarts=self.co.max_restarts,
            restart_backoff=self.co.restart_backoff,
            queries=self.co.max_num_threads,
        )
        self.co.T = max(self.co.T, *(collector.steps for collector in self.collectors))

    # Running.

    def Start(self) -> None:  # noqa: N802
        """Start the games; RuntimeError if they were started or stopped before."""
        if self._stopped:
            raise RuntimeError("stopped: create a new game context to start again")
        self.make_batches()
        self._running().start()
        self.started()

    def Wait(self, timeout_usec: float = 0) -> Infos:  # noqa: N802
        """Wait for a batch, and step games meanwhile.

        Args:
            timeout_usec: Microseconds to wait at most; 0 means no limit.

        Returns:
            The batch's infos; `Steps` gives the batch back. If the infos are deleted before that,
            the batch is delivered again. gid is -1 after the timeout.

        Raises:
            RuntimeError: The games are not started, or stopped.
            GameError: A game failed, and `co.on_error` is "raise" or its limit is reached.
        """
        return self._wait(None, timeout_usec)

    def WaitGroup(self, collector: int | str, timeout_usec: float = 0) -> Infos:  # noqa: N802
        """Wait for a batch of one collector; see `Wait`."""
        return self._wait(self.gid(collector), timeout_usec)

    def _wait(self, gid: int | None, timeout_usec: float) -> Infos:
        try:
            timeout = timeout_usec / 1e6 or None
        except (TypeError, OverflowError):
            got = type(timeout_usec).__name__
            text = f"timeout_usec: expected a number of microseconds, got {got}"
            raise TypeError(text) from None
        delivery = self.take(gid, timeout)
        return Infos() if delivery is None else self.infos_of(delivery, delivery)

    def take(self, gid: int | None, timeout: float | None) -> _core.CollectorDelivery | None:
        """Wait as `Wait` does, in seconds, and return the delivery; None after the timeout."""
        core = self._running()
        try:
            delivery = self.move_and_wait(core, gid, timeout)
        except RuntimeError as error:
            game = core.failed_game()
            if game is None:
                raise
            raise GameError(str(error), game) from self.cause(game)
        if delivery is not None and self.co and self.co.verbose_collector:
            print(self.infos_of(delivery))
        return delivery

    def infos_of(
        self, delivery: _core.CollectorDelivery, held: _core.CollectorDelivery | None = None
    ) -> Infos:
        """Return the infos of a batch; they keep `held`."""
        gid = delivery.gid
        return Infos(self.collectors[gid].name, gid, delivery.rows, held)

    def batch(self, infos: Infos) -> tuple[Batch, Batch | None]:
        """Return the arrays of a batch: its input, and its reply if it takes one.

        Raises:
            RuntimeError: This batch was given back before.
            ValueError: The infos are those of a wait that timed out.
        """
        delivery = delivery_of(infos)
        self._running().check_out(delivery)
        return self.buffer(delivery.gid, delivery.buffer, delivery.rows)

    def buffer(self, gid: int, buffer: int, rows: int) -> tuple[Batch, Reply | None]:
        """Return the first rows of one of the batches that a collector fills in turn."""
        arrays = self._buffers.get((gid, buffer))
        if arrays is None:
            arrays = self._buffers[gid, buffer] = self._make_buffer(gid, buffer)
        return arrays.views(rows)

    def whole_buffer(self, gid: int, which: int, buffer: int) -> Any:
        """Return all rows of such a batch: of the input (`which` 0), or of the reply (1)."""
        return self.buffer(gid, buffer, self.collectors[gid].batch_size)[which]

    def _make_buffer(self, gid: int, buffer: int) -> BatchBuffer:
        inputs, replies = self._running().batch(gid, buffer)
        if not self.use_numpy:
            inputs = as_tensors(inputs)
            replies = None if replies is None else as_tensors(replies)
        return BatchBuffer(inputs, replies, self.collectors[gid].batch_size)

    def num_buffers(self) -> list[int]:
        """Return how many batches each collector fills in turn."""
        return self._running().num_buffers()

    def memories(self) -> list[tuple[int, int]]:
        """Return the address and the size in bytes of each collector's batches."""
        core = self._running()
        return [core.memory(gid) for gid in range(len(self.collectors))]

    def Steps(self, infos: Infos) -> None:  # noqa: N802
        """Give a batch back: its games take the reply that was written, and go on.

        Does nothing after Stop. Raises the errors of `batch`.
        """
        self.give_back(delivery_of(infos))

    def give_back(self, delivery: _core.CollectorDelivery) -> None:
        """Give a batch back; see `Steps`."""
        self._running().answer(delivery)
        if self.co and self.co.verbose_comm:
            print(f"answered {self.infos_of(delivery)}")

    def put_back(self, infos: Infos) -> None:
        """Return a batch to be delivered again, before all others; errors as of `batch`."""
        self._running().put_back(delivery_of(infos))

    def redeliver(self, delivery: _core.CollectorDelivery) -> None:
        """Return a batch whose callback raised to be delivered again."""
        redeliver(self._running(), delivery)

    def stay(self, game: int) -> None:
        """Show a game's state again, once its batch is given back, instead of a step.

        Raises the errors of `begin`.
        """
        self._running().stay(game)

    def stay_each(self, games: Sequence[int]) -> None:
        """Show the states of these games again; see `stay`."""
        self._running().stay_each(games)

    def begin(self, game: int, seed: int | None = None) -> None:
        """Start an episode of a game, once its batch is given back, instead of a step.

        States of the last episode that listeners have not received are dropped.

        Args:
            game: Its number.
            seed: Replaces `co.seed` from this episode on; in [0, 2**64).

        Raises:
            ValueError: The game does not exist.
            RuntimeError: There are no batches yet.
        """
        self._running().begin(game, seed)

    def Stop(self) -> None:  # noqa: N802
        """End everything: waiting threads get an error, all threads are joined.

        It may be called from any thread, from a callback, and more than once. Arrays stay valid. In
        a forked child it does nothing.
        """
        self._stopped = True
        if self._core is not None:
            self._core.stop()

    @property
    def stopped(self) -> bool:
        """Whether Stop was called."""
        return self._stopped

    # Reports.

    def PrintSummary(self) -> None:  # noqa: N802
        """Print how much the games did and the collectors delivered so far."""
        counts, delivered = self._running().summary()
        print(f"{self._game}: {summary(len(self), counts)}")
        for name, counted in zip(self.gids(), delivered, strict=True):
            print(f"  {name}: {collector_summary(counted)}")

    def Version(self) -> str:  # noqa: N802
        """Return the version of the package."""
        return _core.__version__

    def GetParams(self) -> dict[str, Any]:  # noqa: N802
        """Return the sizes that a model needs.

        Returns:
            `num_action` (number of discrete actions, or length of a continuous one),
            `action_shape`, `action_dtype`, `state_shape`, `state_dtype`, `players`. Where a state
            has no `s`, its shape and dtype are dicts by key.
        """
        return self.spec.params()

    def __len__(self) -> int:
        """The number of games; 0 while there are no options."""
        return 0 if self.co is None else self.co.num_games

    def __bool__(self) -> bool:
        """True, also while there are no games."""
        return True

    def _running(self) -> _core.CollectorContext:
        if self._core is None:
            raise RuntimeError("stopped" if self._stopped else "not started: call Start() first")
        return self._core
