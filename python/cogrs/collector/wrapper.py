"""`GCWrapper`: batches of many games, each answered by a callback."""

from __future__ import annotations

import contextlib
import signal
import warnings
from typing import TYPE_CHECKING, Any, Self

from cogrs.collector import description
from cogrs.collector.batch import Batch, Fields
from cogrs.collector.context import Infos

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import FrameType, TracebackType

    from cogrs.collector.context import GameContext
    from cogrs.collector.description import Description
    from cogrs.collector.options import ContextOptions

    Callback = Callable[[Batch, Batch, Batch | None], Any]


class GCWrapper:
    """Runs many games and gives their states to callbacks, batch by batch.

    ::

        co = cogrs.ContextOptions(num_games=64, num_threads=2)
        GC = cogrs.GameContext("cartpole", co)
        desc = {"actor": (dict(s="", last_r="", _batchsize="64"), dict(a="1"))}
        with cogrs.GCWrapper(GC, co, desc) as games:
            games.reg_callback("actor", act)  # act(input_batch, input_batch_gpu, reply_batch)
            games.Start()
            games.Run()

    A description is a dict of pairs `(input, reply)`. Each dict of a pair has keys with what the
    game is to make of them: `""` for its default, a number for a length (`pi="2"`) or for so many
    stacked frames (`s="4"`). A collector with a reply is asked about every state, also about the
    last of an episode, whose answer is ignored; the game waits. One without (reply None) listens to
    histories of `_T` states, which share one state each with the next, cross the ends of episodes,
    and show what the game was answered.

    Settings of an input: `_batchsize`, `_T` (default 1), `_timeout_usec` (after its first row has
    waited so long a batch goes out short; default 0, never), `_name` (only the states in which this
    player moves). When every game waits for an answer, the oldest batch goes out short at once.

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
        use_numpy: Only True is supported yet.
        gpu: Only None is supported yet.
        params: Anything a model has to know, beside what the game says.

    Attributes:
        inputs: For each collector the inputs of the batches that it fills in turn.
        replies: Likewise the replies, or None.
        name2idx: The number of each collector.
        idx2name: The name of each number.
        params: `GC.GetParams()` and `params`.
        infos: What the batch of the last Run was.

    Raises:
        ValueError: A description is wrong, an option out of range or not supported yet, or a
            `_batchsize` with a reply is larger than `num_games` and has no `_timeout_usec`.
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
        """Check the descriptions and reserve the memory; see the class."""
        if not use_numpy:
            raise ValueError("use_numpy=False is not supported yet: use use_numpy=True")
        self.gpu: int | None = None
        self.setup_gpu(gpu)
        self.GC = GC
        self.co = co
        GC.bind(co)
        self.name2idx = GC.AddCollectors(descriptions)
        self.idx2name = {gid: name for name, gid in self.name2idx.items()}
        overlap = description.overlaps(GC.collectors)
        if overlap:
            text = f"several collectors reply {sorted(overlap)}: the last described one counts"
            warnings.warn(text, stacklevel=2)
        GC.make_batches()
        self.inputs, self.replies = self._buffers()
        self.params = {**GC.GetParams(), **(params or {})}
        self.infos: Infos | None = None
        self._callbacks: dict[int, Callback] = {}
        self._warned: set[int] = set()

    def _buffers(self) -> tuple[list[list[Batch]], list[list[Batch] | None]]:
        inputs: list[list[Batch]] = []
        replies: list[list[Batch] | None] = []
        for gid, count in enumerate(self.GC.num_buffers()):
            rows = self.GC.collectors[gid].batch_size
            pairs = [self.GC.buffer(gid, buffer) for buffer in range(count)]
            inputs.append([Batch.of(given, rows, dict) for given, _ in pairs])
            answers = [Batch.of(reply, rows, Fields) for _, reply in pairs if reply is not None]
            replies.append(answers or None)
        return inputs, replies

    def setup_gpu(self, gpu: int | None) -> None:
        """Choose the device of `input_batch_gpu`.

        Raises:
            ValueError: Any but None: not supported yet.
        """
        if gpu is not None:
            raise ValueError(f"gpu={gpu!r} is not supported yet: use gpu=None")

    def reg_callback(self, key: str, cb: Callback) -> bool:
        """Call `cb(input_batch, input_batch_gpu, reply_batch)` with the batches of a collector.

        Batches are valid until the callback returns. What it writes into the arrays of
        `reply_batch` (`reply_batch[0]["a"][:] = x`) is the answer; what it does not write is 0. A
        callback that raises leaves its batch pending: the next Run delivers it again. It may be
        changed at any time.

        Returns:
            False when there is no collector of this name.

        Raises:
            TypeError: `cb` cannot be called.
        """
        if not callable(cb):
            raise TypeError(f"cb: expected a callable, got {type(cb).__name__}")
        gid = self.name2idx.get(key)
        if gid is None:
            return False
        self._callbacks[gid] = cb
        return True

    def reg_callback_if_exists(self, key: str, cb: Callback) -> bool:
        """As `reg_callback`, for descriptions that may or may not have the key."""
        return self.reg_callback(key, cb)

    def reg_has_callback(self, key: str) -> bool:
        """Whether a callback is registered for this collector."""
        return self.name2idx.get(key) in self._callbacks

    def reg_sig_int(self) -> None:
        """Have Ctrl-C stop the games before it interrupts the program; for the main thread."""

        def stop(_signal: int, _frame: FrameType | None) -> None:
            self.Stop()
            raise KeyboardInterrupt

        signal.signal(signal.SIGINT, stop)

    def Start(self) -> None:  # noqa: N802
        """Let the games go.

        Raises:
            RuntimeError: Started or stopped before.
        """
        self.GC.Start()

    def Run(self, timeout: float | None = None) -> Any:  # noqa: N802
        """Wait for a batch of any collector and call its callback.

        Any threads may do so side by side. A collector without a callback has its batch consumed,
        with a reply of zeros, and one warning.

        Args:
            timeout: Seconds to wait at most; None is without a limit.

        Returns:
            What the callback returns; None when no batch came in time.

        Raises:
            RuntimeError: Before Start, after Stop, or a game failed.
        """
        return self._run(None, timeout)

    def RunGroup(self, key: str, timeout: float | None = None) -> Any:  # noqa: N802
        """As `Run`, for the batches of one collector.

        Raises:
            ValueError: There is no such collector.
        """
        return self._run(self.GC.gid(key), timeout)

    def _run(self, gid: int | None, timeout: float | None) -> Any:
        infos = Infos()
        try:
            self.infos = infos = self.GC.wait(gid, timeout)
            if infos.gid < 0:
                return None
            value = self._call(infos)
            self.GC.Steps(infos)
        except BaseException:
            # The exception holds on to the batch. It is over when Ctrl-C came after Steps.
            with contextlib.suppress(RuntimeError, ValueError):
                self.GC.put_back(infos)
            raise
        return value

    def _call(self, infos: Infos) -> Any:
        callback = self._callbacks.get(infos.gid)
        if callback is not None:
            batch, reply = self.GC.batch(infos)
            return callback(batch, batch, reply)
        if infos.gid not in self._warned:
            self._warned.add(infos.gid)
            text = f"no callback for {infos.name!r}: its batches are consumed unseen"
            warnings.warn(text, stacklevel=4)
        return None

    def Stop(self) -> None:  # noqa: N802
        """End the games: from any thread, from a callback, and as often as one likes."""
        self.GC.Stop()

    def PrintSummary(self) -> None:  # noqa: N802
        """Print what the games did and what the collectors delivered so far."""
        self.GC.PrintSummary()

    def __enter__(self) -> Self:
        """`self`."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop."""
        self.Stop()
