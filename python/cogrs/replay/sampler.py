"""`cogrs.ReplaySampler`: batches for a learner from servers that run elsewhere."""

from __future__ import annotations

import logging
import secrets
import threading
import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, cast

import zmq

from cogrs._core import SampleMixer, cache_layout
from cogrs.limits import LARGEST_REPLY, MOST_SAMPLES
from cogrs.replay.batch import BatchT
from cogrs.replay.endpoint import Conn, check_count, check_endpoint
from cogrs.replay.net.curve import Curve
from cogrs.replay.net.deadline import deadline_after, seconds_to
from cogrs.replay.net.transport import Transport
from cogrs.replay.priorities import Priorities
from cogrs.replay.publish_request import PublishRequest, message_for
from cogrs.replay.server_connection import (
    PAUSE,
    CacheLayout,
    ServerConnection,
    ServerConnectionStats,
)
from cogrs.replay.wire import digest_of, encode, row_bytes

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from cogrs.replay.key_pair import KeyPair

_logger = logging.getLogger("cogrs.replay")

_SLICE = 0.1
"""Seconds that a call waits before it looks whether the sampler was closed."""


class ReplaySampler(Generic[BatchT]):
    """Draws batches from several `ReplayMemoryServer`s as if their caches were in one.

    Each row comes from a server that is drawn with probability proportional to the `weight_sum`
    that the servers told last, and is that server's next sample. A server counts once `n_caches`
    caches of its have arrived. Each call asks all servers, together, and each answer renews that
    server's sum, so what a batch is drawn by is about one batch old.

    What a server gave is kept until it is in a batch, whatever happens to the others; and which
    server a row comes from is drawn once, so that one that is late is not drawn less often.

    Nothing is connected before it is used. Any thread may call any method; calls of `get_batch`
    wait for each other. Close the sampler, or use it as a context manager.
    """

    def __init__(
        self,
        endpoints: Sequence[str],
        *,
        timeout: float | None = 30.0,
        skip_down: bool = False,
        seed: int | None = None,
        key: KeyPair | str | os.PathLike[str] | None = None,
        server_key: KeyPair | str | os.PathLike[str] | None = None,
    ) -> None:
        """Do not connect yet.

        Args:
            endpoints: The servers' `rep_endpoint`s, or proxies' with one server behind each.
            timeout: Seconds in which a server has to answer; None for ever.
            skip_down: What happens when one does not: False raises TimeoutError, True goes on with
                the others, which is logged once, until it answers again.
            seed: Makes the draws of servers reproducible.
            key: The learner's key pair, as of `ReplayMemoryClient`.
            server_key: The public key that all the servers have.

        Raises:
            TypeError: An argument is of a wrong type.
            ValueError: There is no endpoint, one is none or is given twice, a number is out of
                range, a key is none, or `key` or `server_key` is given without the other.
            OSError: A file of a key cannot be read.
            RuntimeError: There are keys, and this libzmq was built without CURVE.
        """
        checked = _endpoints(endpoints)
        deadline_after("timeout", timeout)
        if not isinstance(skip_down, bool):
            raise TypeError(f"skip_down: expected True or False, got {type(skip_down).__name__}")
        self._timeout = timeout
        self._skip_down = skip_down
        self._seed = None if seed is None else check_count("seed", seed, 0, (1 << 64) - 1)
        self._transport = Transport(type(self).__name__, Curve.of_client(key, server_key))
        self._sender = secrets.randbits(32)
        self._lock = threading.Lock()
        self._sources = [ServerConnection(self._transport, endpoint) for endpoint in checked]
        self._look: CacheLayout | None = None
        self._mixer: SampleMixer | None = None
        self._first: ServerConnection | None = None
        self._most_rows = 1
        # Nothing of these holds the sampler, so one that is forgotten closes.
        parts = (self._transport, self._lock, self._sources)
        self._finalize: weakref.finalize[..., Any] = weakref.finalize(self, _close, *parts)

    @property
    def weight_sum(self) -> float:
        """The sum over servers of what they told last: `total` of `importance_weights`."""
        self._transport.check_process()
        return sum(source.weight_sum or 0.0 for source in self._sources if not source.down)

    def stats(self) -> tuple[ServerConnectionStats, ...]:
        """Take the figures of each server, in the order of `endpoints`; waits for nothing.

        Raises:
            RuntimeError: In a forked child.
        """
        self._transport.check_process()
        mixer = self._mixer
        kept = mixer.unused if mixer else [0] * len(self._sources)
        return tuple(source.stats(own) for source, own in zip(self._sources, kept, strict=True))

    def get_batch(
        self, batch_size: int, *, wait: float | None = None, out: tuple[Any, ...] | None = None
    ) -> BatchT:
        """Take a batch of samples from the servers: all of them, or none.

        Args:
            batch_size: Rows B, >= 1.
            wait: Seconds to wait for samples when a server has too few; None does not wait for
                more than the servers' answers.
            out: Arrays to fill instead of making new ones, as of `ReplayMemory.get_batch`.

        Returns:
            As `ReplayMemoryServer.get_batch` of these servers.

        Raises:
            TimeoutError: A server did not answer, or after `wait` seconds one still has too few
                samples; the text has its endpoint. What came is kept for the next call.
            RuntimeError: A server has too few samples, or none has `n_caches` caches; one answered
                with what it should not, or not with what the others look like; or the sampler was
                closed. What came is kept.
            ValueError: `batch_size` < 1, `wait` < 0, or an array of `out` is not of the right kind.
            TypeError: `out` is not made as what this call returns.
        """
        self._transport.check()
        rows = check_count("batch_size", batch_size)
        deadline = None if wait is None else deadline_after("wait", wait)
        with self._turn(deadline):
            self._take_answers()
            all_down = all(source.down for source in self._sources)
            for source in self._sources:
                source.begin(self._timeout)
                source.down = source.down and not all_down  # there is nobody else to wait for
            checked = False
            while True:
                self._take_answers()
                self._look_for_late()
                if self._mixer is not None and not checked:
                    self._mixer.check(rows, out=out)
                    checked = True
                lacking = self._ask(rows)
                if self._mixer is not None and lacking is not None and not any(lacking):
                    break
                self._look_for_short(lacking, wait, deadline)
                self._pause(deadline)
            for source in self._sources:
                source.renew(self._sender)
            return cast("BatchT", self._mixer.get_batch(rows, out=out))

    def update_priority(
        self, ids: npt.ArrayLike, sender: npt.ArrayLike, priority: npt.ArrayLike
    ) -> int:
        """Send errors back to the clients by way of the servers; never waits for them.

        Each server passes all of them on, for a client listens to one server whichever its caches
        went to.

        Args:
            ids: As of `ReplayMemoryServer.update_priority`; so are the next two.
            sender: Likewise.
            priority: Likewise.

        Returns:
            How many servers they were not sent to, for there is no connection.

        Raises:
            TypeError: As of `ReplayMemoryServer.update_priority`.
            ValueError: Likewise.
            RuntimeError: The servers have no ids, nothing was drawn yet, the sampler is closed, or
                a server answered an earlier request with what it should not.
        """
        self._transport.check()
        priorities = Priorities.of(ids, sender, priority)
        with self._turn(None):
            if self._look is None or not self._look.ids:
                raise RuntimeError("the servers have no ids: make them with ids=True")
            self._take_answers()  # or else those of earlier priorities fill the connection
            messages = [encode(self._sender, priorities=each) for each in priorities.write()]
            return sum(
                not all(source.tell(message) for message in messages) for source in self._sources
            )

    def pub_bytes(self, topic: str | bytes, message: str | bytes | bytearray | memoryview) -> int:
        """Publish a message from every server, as its own `pub_bytes` would; wait until it has.

        So a learner reaches the actors of servers that run elsewhere, such as `cogrs
        replay-server`, whose clients get it by `sub_bytes`.

        Args:
            topic: As of `ReplayMemoryServer.pub_bytes`.
            message: At most 256 MiB.

        Returns:
            How many servers have not taken it, 0 unless `skip_down`.

        Raises:
            TypeError: Topic or message is neither bytes nor str.
            ValueError: The message is too long.
            TimeoutError: A server did not answer within `timeout`; the text has its endpoint, and
                the others have published. With `skip_down`: none did.
            RuntimeError: A server refused, or answered with what it should not; or the sampler is
                closed.
        """
        digest, body = message_for(topic, message)
        self._transport.check()
        deadline = deadline_after("timeout", self._timeout)
        with self._turn(deadline, "pub_bytes"):
            publishing = PublishRequest(self._sources, self._sender, digest, body)
            while True:
                self._take_answers()
                waiting = publishing.waiting()
                if not waiting or (deadline is not None and seconds_to(deadline) <= 0):
                    break
                self._pause(deadline)
            if waiting and not (self._skip_down and len(waiting) < len(self._sources)):
                where = ", ".join(source.endpoint for source in waiting)
                answered = any(source.answered for source in waiting)
                unsent = not answered and not publishing.asked(*waiting)
                raise self._timed_out(
                    f"no answer from {where}", self._timeout, unsent=unsent, call="pub_bytes"
                )
            return len(waiting)

    def close(self) -> None:
        """Wake all that waits and close all connections. Again: nothing."""
        self._finalize()
        self._transport.wait_closed()

    @contextmanager
    def _turn(self, deadline: float | None, call: str = "get_batch") -> Iterator[None]:
        while not self._lock.acquire(timeout=_SLICE):
            self._transport.check()
            if deadline is not None and seconds_to(deadline) <= 0:
                raise TimeoutError(f"{call}: other calls wait for the servers")
        try:
            self._transport.check()
            yield
        finally:
            self._lock.release()

    def _take_answers(self) -> None:
        for at, source in enumerate(self._sources):
            for samples, columns in source.answers():
                if self._mixer is None or self._look is None:
                    raise RuntimeError(f"{source.endpoint} gave samples before it was known")
                source.check(self._look, samples)
                if samples.weight_sum == 0:
                    self._mixer.forget(at)  # it has not enough caches any more
                if samples.rows > 0:
                    source.keep(self._mixer, at, samples.rows, columns)
                if source.down:
                    source.down = False
                    _logger.warning("%s answers again, and is drawn from", source.endpoint)

    def _look_for_late(self) -> None:
        for at, source in enumerate(self._sources):
            if not source.late(self._timeout):
                continue
            unsent = source.unsent
            source.give_up()
            if not self._skip_down:
                why = f"no answer from {source.endpoint}"
                raise self._timed_out(why, self._timeout, unsent=unsent)
            if not source.down:
                source.down = True
                if self._mixer is not None:
                    self._mixer.forget(at)
                _logger.warning(
                    "%s does not answer; batches go on without it until it does", source.endpoint
                )
        if all(source.down for source in self._sources):
            where = ", ".join(source.endpoint for source in self._sources)
            unsent = not any(source.answered for source in self._sources)
            raise self._timed_out(f"no answer from {where}", self._timeout, unsent=unsent)

    def _ask(self, rows: int) -> list[int] | None:
        """Ask those who are not being asked already for what is not known, or not here.

        Returns:
            How many rows of the batch each has still to give; None while it is not known which are
            to come from whom.
        """
        for source in self._sources:
            source.ask_unknown(self._sender, sums=self._mixer is not None)
        present = [source for source in self._sources if not source.down]
        if self._mixer is None:
            if any(source.sizes is None for source in present):
                return None
            self._know(present)
        for source in present:
            self._check_sizes(source)
        sums = [0.0 if source.down else source.weight_sum for source in self._sources]
        known = [each for each in sums if each is not None]
        if self._mixer is None or len(known) < len(sums) or sum(known) <= 0:
            return None
        self._mixer.plan(rows, known)
        lacking = self._mixer.lacking(rows)
        for source, count in zip(self._sources, lacking, strict=True):
            if count > 0:
                source.ask(self._sender, min(count, self._most_rows))
        return lacking

    def _know(self, present: list[ServerConnection]) -> None:
        """Take it from the servers' sizes what samples look like."""
        sizes = present[0].sizes
        if sizes is None:
            return
        memory = present[0].memory()
        carried = {"ids": sizes.ids, "nstep": sizes.nstep}
        flags, frame_stack, largest = cache_layout(memory, **carried)
        self._look = CacheLayout(digest_of(memory), flags, frame_stack, **carried)
        self._first = present[0]
        most = min(LARGEST_REPLY // max(largest, 1), 2 * LARGEST_REPLY // row_bytes(memory))
        self._most_rows = max(1, min(most, MOST_SAMPLES))
        servers = len(self._sources)
        self._mixer = SampleMixer(memory, servers, seed=self._seed, **carried)

    def _check_sizes(self, source: ServerConnection) -> None:
        """Refuse a server whose samples look otherwise; to be called often, for it looks once."""
        if source.sizes is None or source.agreed:
            return
        memory = source.memory()
        flags, frame_stack, _ = cache_layout(memory)
        sizes = source.sizes
        look = CacheLayout(digest_of(memory), flags, frame_stack, sizes.ids, sizes.nstep)
        if look != self._look:
            first = self._first.endpoint if self._first else "the others"
            source.forget()
            raise RuntimeError(
                f"{source.endpoint} has other templates, cache_flags, frame_stack, ids or nstep "
                f"than {first}"
            )
        source.agreed = True

    def _look_for_short(
        self, lacking: list[int] | None, wait: float | None, deadline: float | None
    ) -> None:
        """Raise when there is nothing to wait for any more."""
        over = deadline is not None and seconds_to(deadline) <= 0
        if wait is not None and not over:
            return
        wanted = lacking or [0] * len(self._sources)
        pairs = list(zip(self._sources, wanted, strict=True))
        short = [
            f"{source.endpoint}: {source.shortage}"
            for source, count in pairs
            if count > 0 and source.shortage
        ]
        present = [source for source in self._sources if not source.down]
        # Without a wait, what was told to an earlier call does not count.
        if all(source.weight_sum == 0 and (source.told or over) for source in present):
            short = ["insufficient caches: no server has n_caches of them"]
        if wait is None:
            if short:
                raise RuntimeError("; ".join(short))
            return
        waiting = [
            source
            for source, count in pairs
            if source.busy and not source.down and (lacking is None or count > 0)
        ]
        if waiting and not short:
            where = ", ".join(source.endpoint for source in waiting)
            unsent = any(source.unsent for source in waiting)
            raise self._timed_out(f"no answer from {where}", wait, unsent=unsent)
        raise TimeoutError(f"get_batch: {'; '.join(short) or 'too few samples'} after {wait:g} s")

    def _pause(self, deadline: float | None) -> None:
        """Wait a moment for answers."""
        left = _SLICE if deadline is None else min(_SLICE, seconds_to(deadline))
        if any(source.rests for source in self._sources):
            left = min(left, PAUSE / 2)
        poller = zmq.Poller()
        for source in self._sources:
            source.register(poller)
        poller.poll(int(left * 1000 + 0.999))
        self._transport.check()

    def _timed_out(
        self, why: str, seconds: float | None, *, unsent: bool, call: str = "get_batch"
    ) -> TimeoutError:
        hint = self._transport.hint if unsent else ""
        return TimeoutError(f"{call}: {why} after {seconds:g} s{hint}")

    def __enter__(self) -> Self:
        """Return the sampler."""
        return self

    def __exit__(self, *_exc: object) -> None:
        """Close it."""
        self.close()

    def __repr__(self) -> str:
        """Tell where it draws from."""
        return f"ReplaySampler({[source.endpoint for source in self._sources]!r})"

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled.

        Raises:
            TypeError: Always.
        """
        raise TypeError("a ReplaySampler cannot be pickled or copied: make one in each process")


def _endpoints(value: object) -> list[str]:
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"endpoints: expected a list of endpoints, got {type(value).__name__}")
    if not value:
        raise ValueError("endpoints: expected at least one, got none")
    checked = [check_endpoint("endpoints", each, Conn) for each in value]
    if len(set(checked)) < len(checked):
        raise ValueError(f"endpoints: expected each once, got {checked}")
    return checked


def _close(transport: Transport, lock: threading.Lock, sources: list[ServerConnection]) -> None:
    if transport.begin_close():
        # Whoever waits sees within a slice that it is closed.
        if lock.acquire(timeout=10 * _SLICE):
            for source in sources:
                source.reset()
            lock.release()
        transport.finish_close()
