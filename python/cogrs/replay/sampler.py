"""`cogrs.ReplaySampler`: batches for a learner from servers that run elsewhere.

`SampleMixer` (Rust) draws which server each row comes from. It keeps that plan until it is carried
out, and samples until they are used; so a call that fails halfway loses no samples and bends no
probabilities. Each `ServerConnection` has at most one request under way.

Threads: any may call any method. One lock is held for a whole call, while it waits for servers too;
calls that wait for the lock or for servers look ten times a second whether the sampler was closed.
"""

from __future__ import annotations

import logging
import secrets
import threading
import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Generic, cast

import zmq

from cogrs._core import SampleMixer, cache_layout
from cogrs.deprecation import renamed_argument
from cogrs.limits import LARGEST_REPLY, MOST_SAMPLES
from cogrs.replay.batch import BatchT
from cogrs.replay.endpoint import check_distinct_endpoints, is_late
from cogrs.replay.net.closeable import Closeable
from cogrs.replay.net.curve import Curve
from cogrs.replay.net.deadline import SLICE, Deadline
from cogrs.replay.net.transport import Transport
from cogrs.replay.priorities import Priorities
from cogrs.replay.publish_request import PublishRequest
from cogrs.replay.sample_shortage import check_shortage, no_answer
from cogrs.replay.sequence_priority import SequencePriority
from cogrs.replay.server_connection import (
    PAUSE,
    CacheLayout,
    ServerConnection,
    close_connections,
)
from cogrs.replay.wire import encode, row_bytes
from cogrs.validation import check_count, check_flag

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from cogrs._core import ReplayMemory
    from cogrs.replay.key_pair import KeyLike
    from cogrs.replay.stats import ServerConnectionStats

_logger = logging.getLogger("cogrs.replay")


class ReplaySampler(Closeable, Generic[BatchT]):
    """Draws batches from several `ReplayMemoryServer`s as if their caches were in one.

    Each row comes from a server that is drawn with probability proportional to the `weight_sum`
    that the servers told last, and is that server's next sample. A server takes part as soon as
    `n_caches` caches have arrived there. Each call asks all servers, together, and each answer
    renews that server's sum, so a batch is drawn by sums that are about one batch old.

    Samples that a server gave are kept until they are in a batch, also when others fail; and the
    server of a row is drawn only once, so that slow servers are not drawn less often. A server's
    rate limiter counts samples when it gives them; a batch waits for each server that it has rows
    of, and more rows than a limiter can allow at once come one part after the other.

    Each connection is made when it is first used. Any thread may call any method; calls of
    `get_batch` wait for each other. Close the sampler, or use it as a context manager.
    """

    _instead: ClassVar[str] = "make one in each process"

    def __init__(
        self,
        endpoints: Sequence[str],
        *,
        timeout: float | None = 30.0,
        skip_down: bool = False,
        ahead: int = 0,
        seed: int | None = None,
        key: KeyLike | None = None,
        server_key: KeyLike | None = None,
    ) -> None:
        """Do not connect yet.

        Args:
            endpoints: The servers' `rep_endpoint`s, or proxies' with one server behind each.
            timeout: Seconds in which a server has to answer; None for ever.
            skip_down: Whether to go on with the others, which is logged once, until a server that
                did not answer answers again; False raises TimeoutError.
            ahead: Batches, >= 0, whose rows are asked for together with those of a batch, and so
                drawn earlier, where servers have them. It pays with several servers and small rows.
            seed: Makes the draws of servers reproducible.
            key: The learner's key pair, as of `ReplayMemoryClient`.
            server_key: The public key that all the servers have.

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: `endpoints` is empty, has an item twice or one that is not an endpoint; a
                number is out of range, a key is not valid, or `key` or `server_key` is given
                without the other.
            OSError: A file of a key cannot be read.
            RuntimeError: There are keys, and this libzmq was built without CURVE.
        """
        checked = check_distinct_endpoints("endpoints", endpoints)
        Deadline.of("timeout", timeout)
        self._timeout = timeout
        self._skip_down = check_flag("skip_down", skip_down)
        self._ahead = check_count("ahead", ahead, 0, MOST_SAMPLES)
        self._seed = None if seed is None else check_count("seed", seed, 0, (1 << 64) - 1)
        self._transport = Transport(type(self).__name__, Curve.of_client(key, server_key))
        self._sender = secrets.randbits(32)
        self._lock = threading.Lock()
        self._servers = [ServerConnection(self._transport, endpoint) for endpoint in checked]
        self._layout: CacheLayout | None = None
        self._mixer: SampleMixer | None = None
        self._sequences: SequencePriority | None = None
        self._first: ServerConnection | None = None
        self._like: ReplayMemory | None = None
        self._most_rows = 1
        self._endpoints = checked
        """Those given last; servers move there when the call that has the turn looks."""
        self._generation = -1
        self._endpoints_lock = threading.Lock()
        parts = (self._transport, self._lock, self._servers)
        self._finalize = weakref.finalize(self, close_connections, *parts)

    def replace(self, endpoints: Sequence[str], *, generation: int | None = None) -> bool:
        """Draw from other endpoints from now on, also in calls that wait; never waits itself.

        A server whose endpoint differs gets a new connection, and is asked anew for its templates
        and its sum. Samples that it gave stay for the next batches, and counts go on.

        Args:
            endpoints: As of the constructor, as many as there: the i-th is of the same server.
            generation: A number >= 0 that grows with each change. A call whose number is not
                larger than the largest one before changes nothing: it came late. None: no check.

        Returns:
            Whether these endpoints are in force.

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: As of the constructor, or it is another number of endpoints.
            RuntimeError: The sampler is closed.
        """
        checked = check_distinct_endpoints("endpoints", endpoints)
        if len(checked) != len(self._servers):
            expected = f"{len(self._servers)} endpoints, as many as before"
            raise ValueError(f"endpoints: expected {expected}, got {len(checked)}")
        self._transport.check()
        with self._endpoints_lock:
            if is_late(generation, self._generation):
                return False
            self._generation = self._generation if generation is None else int(generation)
            self._endpoints = checked
        return True

    @property
    def weight_sum(self) -> float:
        """Sum of the servers' latest `weight_sum`: `total` of `importance_weights`."""
        self._transport.check_process()
        return sum(server.weight_sum or 0.0 for server in self._servers if not server.down)

    @property
    def rem(self) -> ReplayMemory | None:
        """A memory without room that has the servers' templates and settings; None before a batch.

        The settings are those of the first server's first answer.
        """
        return self._like

    def stats(self) -> tuple[ServerConnectionStats, ...]:
        """Return the metrics of each server, in the order of `endpoints`; never waits.

        Raises:
            RuntimeError: In a forked child.
        """
        self._transport.check_process()
        mixer = self._mixer
        kept = mixer.unused if mixer else [0] * len(self._servers)
        return tuple(server.stats(own) for server, own in zip(self._servers, kept, strict=True))

    def get_batch(
        self, batch_size: int, *, wait: float | None = None, out: tuple[Any, ...] | None = None
    ) -> BatchT:
        """Take a batch of samples from the servers: all rows or nothing.

        Args:
            batch_size: Rows B, >= 1.
            wait: Seconds to wait for samples when a server has too few, or its rate limiter allows
                no more; None waits only for the servers' answers, but as long as it takes if one of
                them has a rate limiter.
            out: Arrays to fill instead of making new ones, as of `ReplayMemory.get_batch`.

        Returns:
            As `ReplayMemoryServer.get_batch` of these servers.

        Raises:
            TimeoutError: A server did not answer, or after `wait` seconds one still has too few
                samples; the text has its endpoint. Samples that came are kept for the next call.
            RuntimeError: A server has too few samples, or no server has `n_caches` caches, while
                `wait` is None and no server has a rate limiter; an answer is not valid or of
                another layout than the others', or the sampler was closed. Samples that came are
                kept.
            ValueError: `batch_size` < 1, `wait` < 0, or an array of `out` does not fit the batch.
            TypeError: `out` does not have the structure of a batch of this call.
        """
        self._transport.check()
        rows = check_count("batch_size", batch_size)
        deadline = Deadline.of("wait", wait)  # without one, the servers have their own
        with self._turn(deadline):
            self._take_replies()
            all_down = all(server.down for server in self._servers)
            for server in self._servers:
                server.begin_call(self._timeout)
                server.down = server.down and not all_down  # there is nobody else to wait for
            checked = False
            while True:
                self._take_replies()
                self._give_up_late()
                if self._mixer is not None and not checked:
                    self._mixer.check(rows, out=out)
                    checked = True
                lacking = self._ask(rows)
                if self._mixer is not None and lacking is not None and not any(lacking):
                    break
                check_shortage(self._servers, lacking, wait, deadline, self._transport.hint)
                self._pause(deadline)
            # Rows that came ahead need no sums.
            if self._ahead == 0 or any(server.told for server in self._servers):
                for server in self._servers:
                    server.refresh(self._sender)
            return cast("BatchT", self._mixer.get_batch(rows, out=out))

    @renamed_argument("ids", "id")
    def update_priority(
        self,
        id: npt.ArrayLike,
        sender: npt.ArrayLike,
        priority: npt.ArrayLike,
        *,
        absolute: bool = False,
        mask: npt.ArrayLike | None = None,
    ) -> int:
        """Send errors back to the clients by way of the servers; never waits for them.

        Each server passes all of them on, because a client listens to one server only, even if its
        caches went to others.

        Args:
            id: As of `ReplayMemoryServer.update_priority`; so are the next three.
            sender: Likewise.
            priority: Likewise.
            absolute: Likewise.
            mask: Likewise.

        Returns:
            Number of servers that the errors were not sent to, for lack of a connection.

        Raises:
            TypeError: As of `ReplayMemoryServer.update_priority`.
            ValueError: Likewise.
            RuntimeError: The servers have no ids, nothing was drawn yet, the sampler is closed, or
                a server's answer to an earlier request is not valid.
        """
        self._transport.check()
        priorities = Priorities.of(
            id, sender, priority, absolute=absolute, mask=mask, sequences=self._sequences
        )
        with self._turn(Deadline(None)):
            if self._layout is None or not self._layout.ids:
                raise RuntimeError("the servers have no ids: make them with ids=True")
            self._take_replies()  # or else those of earlier priorities fill the connection
            messages = [encode(self._sender, priorities=each) for each in priorities.requests()]
            return sum(
                not all(server.send(message) for message in messages) for server in self._servers
            )

    def pub_bytes(self, topic: str | bytes, message: str | bytes | bytearray | memoryview) -> int:
        """Publish a message from every server, as its own `pub_bytes` would; wait until it has.

        So a learner reaches the actors of servers that run elsewhere, such as `cogrs
        replay-server`, whose clients get it by `sub_bytes`.

        Args:
            topic: As of `ReplayMemoryServer.pub_bytes`.
            message: At most 256 MiB.

        Returns:
            Number of servers that have not taken the message, 0 unless `skip_down`. Those that
            batches go on without are not waited for.

        Raises:
            TypeError: Topic or message is neither bytes nor str.
            ValueError: The message is too long.
            TimeoutError: A server did not answer within `timeout`; the text has its endpoint, and
                the others have published. With `skip_down`: no server did.
            RuntimeError: A server refused, its answer is not valid, or the sampler is closed.
        """
        request = PublishRequest(self._servers, self._sender, topic, message)
        self._transport.check()
        deadline = Deadline.of("timeout", self._timeout)
        with self._turn(deadline, "pub_bytes"):
            while True:
                self._take_replies()
                waiting = request.send()
                left_out = all(server.down for server in waiting)
                if deadline.passed or (left_out and len(waiting) < len(self._servers)):
                    break
                self._pause(deadline)
            if waiting and not (self._skip_down and len(waiting) < len(self._servers)):
                answered = any(server.answered for server in waiting)
                unsent = not answered and not request.was_sent_to(*waiting)
                raise self._no_answer(waiting, unsent=unsent, call="pub_bytes")
            return len(waiting)

    @contextmanager
    def _turn(self, deadline: Deadline, call: str = "get_batch") -> Iterator[None]:
        while not self._lock.acquire(timeout=SLICE):
            self._transport.check()
            if deadline.passed:
                raise TimeoutError(f"{call}: other calls wait for the servers")
        try:
            self._transport.check()
            yield
        finally:
            self._lock.release()

    def _take_replies(self) -> None:
        for server, endpoint in zip(self._servers, self._endpoints, strict=True):
            if server.endpoint != endpoint:
                server.replace(endpoint)
        for at, server in enumerate(self._servers):
            for samples, columns in server.replies():
                if self._mixer is None or self._layout is None:
                    raise RuntimeError(
                        f"{server.endpoint} gave samples before its layout was known"
                    )
                server.check_layout(self._layout, samples)
                if samples.weight_sum == 0:
                    self._mixer.forget(at)  # it has not enough caches any more
                if samples.rows > 0:
                    server.push_to(self._mixer, at, samples.rows, columns)
                if server.down:
                    server.down = False
                    _logger.warning(
                        "%s answers again: batches have its samples too", server.endpoint
                    )

    def _give_up_late(self) -> None:
        for at, server in enumerate(self._servers):
            if not server.is_late(self._timeout):
                continue
            unsent = server.unsent
            server.give_up()
            if not self._skip_down:
                raise self._no_answer([server], unsent=unsent)
            if not server.down:
                server.down = True
                if self._mixer is not None:
                    self._mixer.forget(at)
                _logger.warning(
                    "%s does not answer; batches go on without it until it does", server.endpoint
                )
        if all(server.down for server in self._servers):
            unsent = not any(server.answered for server in self._servers)
            raise self._no_answer(self._servers, unsent=unsent)

    def _ask(self, rows: int) -> list[int] | None:
        """Ask servers that are not being asked already for what is not known, or not here.

        Returns:
            How many rows of the batch each has still to give; None while it is not known which row
            is to come from which server.
        """
        for server in self._servers:
            server.ask_missing(self._sender, sums=self._mixer is not None)
        present = [server for server in self._servers if not server.down]
        if self._mixer is None:
            if any(server.sizes is None for server in present):
                return None
            self._create_mixer(present[0])
        for server in present:
            self._check_layout(server)
        sums = [0.0 if server.down else server.weight_sum for server in self._servers]
        known = [each for each in sums if each is not None]
        if self._mixer is None or len(known) < len(sums) or sum(known) <= 0:
            return None
        self._mixer.plan(rows, known)
        lacking = self._mixer.lacking(rows)
        if any(lacking):
            later = rows * (1 + self._ahead)
            self._mixer.plan(later, known)
            planned = self._mixer.lacking(later)
            for server, now, total in zip(self._servers, lacking, planned, strict=True):
                server.ask_planned(self._sender, now, total, self._most_rows)
        return lacking

    def _create_mixer(self, first: ServerConnection) -> None:
        """Create the mixer for samples of the layout that a server told."""
        sizes = first.sizes
        if sizes is None:
            return
        memory = first.empty_memory()
        carried = {"ids": sizes.ids, "nstep": sizes.nstep}
        _, _, largest = cache_layout(memory, **carried)
        self._layout = CacheLayout.of(memory, sizes)
        self._first, self._like = first, memory
        most = min(LARGEST_REPLY // max(largest, 1), 2 * LARGEST_REPLY // row_bytes(memory))
        self._most_rows = max(1, min(most, MOST_SAMPLES))
        self._sequences = SequencePriority.of(memory)
        self._mixer = SampleMixer(memory, len(self._servers), seed=self._seed, **carried)

    def _check_layout(self, server: ServerConnection) -> None:
        """Refuse a server with samples of another layout; each is checked once."""
        if server.sizes is None or server.agreed:
            return
        if CacheLayout.of(server.empty_memory(), server.sizes) != self._layout:
            first = self._first.endpoint if self._first else "the others"
            server.forget_sizes()
            raise RuntimeError(
                f"{server.endpoint} has other templates, cache_flags, frame_stack, ids, nstep "
                f"or sequences than {first}"
            )
        server.agreed = True

    def _pause(self, deadline: Deadline) -> None:
        """Wait a moment for replies."""
        left = deadline.within(SLICE)
        if any(server.rests for server in self._servers):
            left = min(left, PAUSE / 2)
        poller = zmq.Poller()
        for server in self._servers:
            server.register(poller)
        poller.poll(int(left * 1000 + 0.999))
        self._transport.check()

    def _no_answer(
        self, servers: Sequence[ServerConnection], *, unsent: bool, call: str = "get_batch"
    ) -> TimeoutError:
        return no_answer(call, servers, self._timeout, self._transport.hint if unsent else "")

    def __repr__(self) -> str:
        """Return the class and the endpoints."""
        return f"ReplaySampler({self._endpoints!r})"
