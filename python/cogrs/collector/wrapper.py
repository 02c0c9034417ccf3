"""`GCWrapper`: batches of many games, each answered by a callback.

Any threads may call Run side by side; each has its own state of the Runs that it is inside of. The
game context and its core have the locks.
"""

from __future__ import annotations

import signal
import threading
import warnings
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from cogrs.collector.batch import Buffers
from cogrs.collector.context import GameContext
from cogrs.collector.delivery import Infos
from cogrs.collector.description import overlapping_replies
from cogrs.collector.options import NotPicklable
from cogrs.collector.tensors import DeviceCopy, device_of, has_cuda, pin, torch_module
from cogrs.validation import check_flag, check_kind

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from cogrs import _core
    from cogrs.collector.batch import Batch
    from cogrs.collector.description import Description
    from cogrs.collector.options import ContextOptions

    Callback = Callable[[Batch, Batch, Batch | None], Any]


_NO_BATCH = Infos()


class _RunState:
    """The Runs of a thread."""

    infos: Infos | None = None
    """Those of the batch of its last Run, or of the batch that its callback has."""
    depth = 0
    """Runs that are going on, one within the other."""


class _ThreadState(threading.local):
    def __init__(self) -> None:
        self.runs = _RunState()


class GCWrapper(NotPicklable):
    """Runs many games and gives their states to callbacks, batch by batch.

    ::

        co = cogrs.ContextOptions(num_games=64, num_threads=2)
        GC = cogrs.GameContext("cartpole", co)
        desc = {"actor": (dict(s="", last_r="", _batchsize="64"), dict(a="1"))}
        with cogrs.GCWrapper(GC, co, desc) as games:
            games.reg_callback("actor", act)  # act(input_batch, input_batch_gpu, reply_batch)
            games.Start()
            games.Run()

    A description is a dict of pairs `(input, reply)` of dicts. Their values are arguments of the
    keys: `""` for the default, a number for a length (`pi="2"`) or for so many stacked frames
    (`s="4"`). A collector with a reply is asked about every state, also about the last of an
    episode, whose answer is ignored; the game waits. One without (reply None) listens to histories
    of `_T` states with the replies in them; consecutive histories share one state, and cross the
    ends of episodes.

    Settings of an input: `_batchsize`, `_T` (default 1), `_timeout_usec` (a batch goes out short
    when its first row has waited for so long; default 0, never), `_name` (only the states in which
    this player moves), `_block` ("1": games wait until a listener's batch is given back). When
    every game waits for an answer, the oldest batch goes out short at once.

    Keys, each an array (batchsize, ...), float32 unless said otherwise: `s` (the game's dtype),
    `a` (int64, or the game's), `pi`, `V`, `Q`, `A`, `rv` (int32, version of the reply), `r` (reward
    of leaving the state) and `last_r` (of entering it), `terminal`, `last_terminal`, `truncated`,
    `last_truncated` (uint8), `id`, `tid`, `seq` (int32), and those that the game declares. `r`,
    `terminal` and `truncated` are those of the next state's `last_...`, and 0 in the newest.
    `terminal` marks the last state of an episode that terminated, `truncated` of one that was cut
    short.

    Args:
        GC: A game context that has not started.
        co: Its options.
        descriptions: What to collect.
        use_numpy: Whether batches have NumPy arrays; False gives tensors of PyTorch over the same
            memory, which is page-locked if CUDA is available.
        gpu: Number of the CUDA device to which inputs are copied asynchronously, as the tensors of
            `input_batch_gpu`. With None, and with a warning without CUDA, `input_batch_gpu` is
            `input_batch`.
        params: More entries of the attribute `params`.

    Attributes:
        inputs: For each collector the inputs of the batches that it fills in turn, created when
            they are indexed.
        replies: Likewise the replies, or None.
        name2idx: The number of each collector.
        idx2name: The name of each number.
        params: `GC.GetParams()` and `params`.
        infos: Collector and size of the batch of this thread's last Run; in a callback, those of
            its batch, also after a Run within it.

    Raises:
        ValueError: A description is wrong, an option out of range, the GPU does not exist, or a
            `_batchsize` with a reply is larger than `num_games` and has no `_timeout_usec`.
        ImportError: `use_numpy=False`, and PyTorch is not installed.
        MemoryError: The system refuses the memory.
    """

    def __init__(
        self,
        GC: GameContext,  # noqa: N803
        co: ContextOptions,
        descriptions: Mapping[str, Description],
        use_numpy: bool = True,
        gpu: int | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> None:
        if not check_flag("use_numpy", use_numpy, numbers=True):
            torch_module()
        check_kind("GC", GC, GameContext, "a GameContext")
        check_kind("params", params, Mapping | None, "a mapping")
        self._device = device_of(gpu)
        self._pinned = False
        self.gpu = gpu
        self.GC = GC
        self.co = co
        with GC.all_or_nothing():
            GC.bind(co)
            self.name2idx = GC.AddCollectors(descriptions)
            overlap = overlapping_replies(GC.collectors)
            if overlap:
                which = "; ".join(f"{key!r}: {', '.join(names)}" for key, names in overlap.items())
                text = f"several collectors reply {[*overlap]}: the last one counts ({which})"
                warnings.warn(text, stacklevel=2)
            GC.use_numpy = bool(use_numpy)
            GC.make_batches()
        self.idx2name = {gid: name for name, gid in self.name2idx.items()}
        self.inputs, self.replies = self._buffers()
        if self._device is not None or (not use_numpy and has_cuda()):
            self._pin()
        self.params = {**GC.GetParams(), **(params or {})}
        self._callbacks: dict[int, Callback] = {}
        self._warned: set[int] = set()
        self._known_infos: dict[tuple[int, int], Infos] = {}
        self._thread = _ThreadState()

    def _buffers(self) -> tuple[list[Buffers], list[Buffers | None]]:
        inputs: list[Buffers] = []
        replies: list[Buffers | None] = []
        for gid, count in enumerate(self.GC.num_buffers()):
            make = partial(self.GC.whole_buffer, gid)
            inputs.append(Buffers(count, partial(make, 0)))
            replying = self.GC.collectors[gid].replies is not None
            replies.append(Buffers(count, partial(make, 1)) if replying else None)
        return inputs, replies

    @property
    def infos(self) -> Infos | None:
        """The infos of the batch of this thread's last Run; see the class."""
        return self._thread.runs.infos

    def setup_gpu(self, gpu: int | None) -> None:
        """Choose the device of `input_batch_gpu`, from the next Run on; None is `input_batch`.

        Without CUDA, `input_batch_gpu` stays `input_batch`, with a warning.

        Raises:
            ValueError: The device does not exist.
            TypeError: `gpu` is not an integer.
        """
        self._device = device_of(gpu)
        self.gpu = gpu
        if self._device is not None:
            self._pin()

    def _pin(self) -> None:
        if not self._pinned:
            self._pinned = True
            pin(self.GC, self.GC.memories())

    def reg_callback(self, key: str, cb: Callback) -> bool:
        """Call `cb(input_batch, input_batch_gpu, reply_batch)` with the batches of a collector.

        Batches are valid until the callback returns. The values that it writes into the arrays of
        `reply_batch` (`reply_batch[0]["a"][:] = x`) are the reply, 0 where it writes nothing. A
        callback that raises leaves its batch pending: the next Run delivers it again. Another
        callback may replace it at any time.

        Returns:
            False if no collector has this name.

        Raises:
            TypeError: `cb` is not callable.
        """
        if not callable(cb):
            raise TypeError(f"cb: expected a callable, got {type(cb).__name__}")
        gid = self.name2idx.get(key)
        if gid is None:
            return False
        self._callbacks[gid] = cb
        return True

    def reg_callback_if_exists(self, key: str, cb: Callback) -> bool:
        """Call `reg_callback`, for descriptions that may or may not have the key."""
        return self.reg_callback(key, cb)

    def reg_has_callback(self, key: str) -> bool:
        """Return whether a callback is registered for this collector."""
        return self.name2idx.get(key) in self._callbacks

    def reg_sig_int(self) -> None:
        """Stop the games on Ctrl-C before it interrupts the program; for the main thread."""

        def stop(_signal: int, _frame: FrameType | None) -> None:
            self.Stop()
            raise KeyboardInterrupt

        signal.signal(signal.SIGINT, stop)

    def Start(self) -> None:  # noqa: N802
        """Start the games; RuntimeError if they were started or stopped before."""
        self.GC.Start()

    def Run(self, timeout: float | None = None) -> Any:  # noqa: N802
        """Wait for a batch of any collector and call its callback.

        Any number of threads may call it at once. A collector without a callback has its batch
        consumed, with a reply of zeros, and one warning.

        Args:
            timeout: Seconds to wait at most; None means no limit.

        Returns:
            The callback's return value; None when no batch came in time.

        Raises:
            RuntimeError: Before Start, or after Stop.
            GameError: A game failed, and `co.on_error` ends the run.
        """
        return self._run(None, timeout)

    def RunGroup(self, key: str, timeout: float | None = None) -> Any:  # noqa: N802
        """Run for the batches of one collector; ValueError if it does not exist."""
        return self._run(self.GC.gid(key), timeout)

    def _run(self, gid: int | None, timeout: float | None) -> Any:
        runs = self._thread.runs
        outer, nested = runs.infos, runs.depth > 0
        delivery = None
        runs.depth += 1
        try:
            delivery = self.GC.take(gid, timeout)
            if delivery is None:
                runs.infos = _NO_BATCH
                return None
            # Infos do not hold the batch, so that it is delivered again if it gets lost.
            runs.infos = self._infos(delivery)
            value = self._call(delivery)
            self.GC.give_back(delivery)
        except BaseException:
            if delivery is not None:
                self.GC.redeliver(delivery)
            raise
        finally:
            runs.depth -= 1
            if nested:
                runs.infos = outer
        return value

    def _infos(self, delivery: _core.CollectorDelivery) -> Infos:
        key = delivery.gid, delivery.rows
        infos = self._known_infos.get(key)
        if infos is None:
            infos = self._known_infos[key] = self.GC.infos_of(delivery)
        return infos

    def _call(self, delivery: _core.CollectorDelivery) -> Any:
        gid = delivery.gid
        callback = self._callbacks.get(gid)
        if callback is not None:
            batch, reply = self.GC.buffer(gid, delivery.buffer, delivery.rows)
            if self._device is None:
                return callback(batch, batch, reply)
            copy = DeviceCopy(batch, self._device)
            value = callback(batch, copy.batch, reply)
            # Games write to this memory once the batch is given back.
            copy.wait()
            return value
        if gid not in self._warned:
            self._warned.add(gid)
            text = f"no callback for {self.idx2name[gid]!r}: its batches are consumed unseen"
            warnings.warn(text, stacklevel=4)
        return None

    def Stop(self) -> None:  # noqa: N802
        """Stop the games, from any thread or callback; in a forked child it does nothing."""
        self.GC.Stop()

    def PrintSummary(self) -> None:  # noqa: N802
        """Print how much the games did and the collectors delivered so far."""
        self.GC.PrintSummary()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.Stop()
