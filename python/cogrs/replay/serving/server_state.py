"""What reaches a server: requests and pushes of clients, checked before anything is kept."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from functools import cached_property
from typing import TYPE_CHECKING, Any

import zmq

from cogrs._core import CacheStore, ReplayMemory, cache_layout
from cogrs.api import replay_pb2 as pb
from cogrs.escape import escaped
from cogrs.limits import (
    LARGEST_REPLY,
    MOST_PRIORITY_CLIENTS,
    MOST_PRIORITY_ROWS,
    MOST_SAMPLES,
    MOST_WAITING_OF_PUSHES,
    SMALL_FRAME,
)
from cogrs.replay.endpoint import check_count
from cogrs.replay.net.authenticator import ANYBODY
from cogrs.replay.net.connection_monitor import ReceiveQuota
from cogrs.replay.net.deadline import deadline_after, seconds_to
from cogrs.replay.priorities import Priorities
from cogrs.replay.serving.client_keys import ClientKeys
from cogrs.replay.serving.log_file import LogFile
from cogrs.replay.serving.message_assembler import MessageAssembler
from cogrs.replay.serving.stats_reporter import StatsReporter
from cogrs.replay.stats import ServerStats, Tally
from cogrs.replay.wire import REASONS, WireError, decode, digest_of, encode, row_bytes, sizes_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from cogrs.replay.batch import AnyBatch
    from cogrs.replay.net.authenticator import Identity

_logger = logging.getLogger("cogrs.replay")

_NO_CACHES = "this server keeps no caches: create it with n_caches >= 1"

_LARGEST_FRAME = (1 << 63) - 1
"""ZeroMQ's numbers are signed."""

_OF_SAMPLERS = ("samples_request", "priorities", "publish")
"""Requests of clients that may draw."""

_MOST_PEERS = 1000
"""Peers that are remembered because they were warned of."""

_MOST_COUNTERS = 65_536
"""Clients whose totals are remembered, those that told theirs last."""


class ServerState:
    """The state of a server, whatever sockets it is filled from. Any thread may call any method.

    Attributes:
        caches: The newest caches.
        logbook: The log file.
        total_episodes: Episodes that clients have closed.
        total_steps: Steps of those episodes.
        total_dropped: Published messages that clients were too slow for.
        total_caches: Caches that have arrived, whole ones only.
        total_refused: Messages that were dropped: none of ours, or ones that did not fit.
        publish: Sends priorities, given topic and message, to whoever subscribed; None: nobody.
        publish_for_client: Sends a message, given digest of the topic and contents, likewise.
    """

    def __init__(
        self,
        memory: ReplayMemory,
        n_caches: int,
        seed: int | None,
        log_seconds: float | None,
        *,
        ids: bool = False,
        nstep: bool = False,
    ) -> None:
        """Keep the newest `n_caches` caches of memories like this one.

        They carry ids if `ids`, and n-step returns with their discounts if `nstep`.

        Workers log what arrives every `log_seconds`; None for never. Without caches, those that
        arrive are refused.

        Raises:
            TypeError: `n_caches` is not an integer.
            ValueError: `n_caches` < 0.
        """
        self.logbook = LogFile()
        self._n_caches = check_count("n_caches", n_caches, 0)
        self.caches = CacheStore(memory, max(1, self._n_caches), ids=ids, nstep=nstep, seed=seed)
        self.publish: Callable[[bytes, bytes], object] | None = None
        self.publish_for_client: Callable[[bytes, bytes], object] | None = None
        self._ids = ids
        self._nstep = nstep
        self._reporter = StatsReporter(log_seconds)
        self._closed = False
        self._memory = memory
        self._digest = digest_of(memory)
        self._arrived = threading.Condition()
        self._lock = threading.Lock()
        self.total_episodes = 0
        self.total_steps = 0
        self.total_caches = 0
        self.total_dropped = 0
        self.total_refused = 0
        self._refused = dict.fromkeys(REASONS, 0)
        self._counters: dict[int, tuple[int, int, int]] = {}
        """The largest totals of each client; the one that has been silent longest comes first."""
        self._senders = ClientKeys()
        self._parts = MessageAssembler()
        self._refused_peers: set[str] = set()
        self._answers_dropped = 0
        self._deaf_peers: set[str] = set()

    @cached_property
    def max_frame(self) -> int:
        """Bytes of the largest frame that a client may send, by the settings at the first worker.

        Sockets have to be told when they are made.
        """
        _, _, largest_row = cache_layout(self._memory, ids=self._ids, nstep=self._nstep)
        return min(max(SMALL_FRAME, largest_row * self._memory.cache_size), _LARGEST_FRAME)

    def intake(self, hwm: int) -> ReceiveQuota:
        """Return how much of a client's pushes may wait: `hwm` and some of the largest."""
        cache = row_bytes(self._memory) * self._memory.cache_size
        largest = max(cache, SMALL_FRAME) + SMALL_FRAME
        return ReceiveQuota((hwm + 4) * largest + MOST_WAITING_OF_PUSHES, largest=2 * largest)

    def answer(self, frames: list[zmq.Frame], sender: Identity = ANYBODY) -> list[Any]:
        """Answer a request with frames; a bad one is refused with the reason."""
        uuid = self._memory.uuid
        try:
            header = _request(frames)
            kind = header.WhichOneof("body")
            if kind in _OF_SAMPLERS and not sender.samples:
                text = f"{kind}: this key may push alone, for it is not in allow_samplers"
                raise WireError(text, "key")
            match kind:
                case "publish":
                    of = sender.key, header.sender, header.publish.number
                    return [encode(uuid, **self._publish(of, header.publish, frames[1:]))]
                case "sizes_request":
                    sizes = sizes_of(self._memory, self.max_frame, ids=self._ids, nstep=self._nstep)
                    return [encode(uuid, sizes=sizes)]
                case "counter":
                    self._senders.check(header.sender, sender.key)
                    self._count(header.sender, header.counter)
                    return [encode(uuid, counter_reply=pb.CounterReply())]
                case "samples_request":
                    samples, columns = self._give(header.samples_request)
                    return [encode(uuid, samples=samples), *columns]
                case "priorities":
                    self._spread(header.priorities)
                    return [encode(uuid, priorities_reply=pb.PrioritiesReply())]
                case _:
                    raise WireError(f"{kind or 'nothing'} as a request", "kind")
        except WireError as error:
            self.refuse(frames[0] if frames else None, error)
            return [encode(uuid, refusal=pb.Refusal(reason=str(error)))]

    def take(self, frames: list[zmq.Frame], sender: Identity = ANYBODY) -> None:
        """Take what was pushed; what is none of ours is dropped and counted."""
        try:
            header = _header(frames)
            self._senders.check(header.sender, sender.key)
            match header.WhichOneof("body"):
                case "cache":
                    self._take_cache(header.sender, header.cache, frames[1:])
                case "log":
                    line = _only(frames).log
                    self.logbook.add(header.sender, line.stream, line.number, line.text)
                case kind:
                    raise WireError(f"{kind or 'nothing'} pushed", "kind")
        except WireError as error:
            self.refuse(frames[0] if frames else None, error)

    def refuse(self, frame: zmq.Frame | None, error: WireError) -> None:
        """Count a message that is dropped or refused; the first of a peer is logged."""
        with self._lock:
            self.total_refused += 1
            self._refused[error.reason] += 1
        text = "refused a message from %s: %s; further ones are only counted"
        self._warn(self._refused_peers, text, _peer_of(frame), error)

    def drop_answer(self, frame: zmq.Frame) -> None:
        """Count an answer that its peer has no room for; the first of a peer is logged."""
        with self._lock:
            self._answers_dropped += 1
        text = "%s does not read its answers; further ones are dropped"
        self._warn(self._deaf_peers, text, _peer_of(frame))

    def get_batch(
        self, batch_size: int, wait: float | None, out: tuple[Any, ...] | None
    ) -> AnyBatch:
        """Return a batch; wait so many seconds for enough samples, None not at all.

        Raises:
            TimeoutError: After `wait` seconds there are still too few.
            RuntimeError: There are too few and `wait` is None, the server keeps no caches, or it
                is closed.
        """
        if self._n_caches == 0:
            raise RuntimeError(f"get_batch: {_NO_CACHES}")
        if wait is None:
            return self.caches.get_batch(batch_size, out=out)
        deadline = deadline_after("wait", wait)
        while True:
            self._wait(batch_size, deadline)
            try:
                return self.caches.get_batch(batch_size, out=out)
            except RuntimeError:
                # Unless somebody else took them meanwhile, waiting does not help.
                if self.caches.shortage(batch_size) is None:
                    raise

    def tick(self) -> None:
        """Look after the log file and the log; to be called often."""
        self.logbook.tick()
        self._reporter.tick(self.stats)

    def stats(self, published: int = 0) -> ServerStats:
        """Take the figures of a server that has published so many messages."""
        store = self.caches.stats()
        held, unused, weight_sum, given, discarded, oldest, newest = store[:7]
        received, others, clients = store[7:]
        taken_at = time.monotonic()
        with self._lock:
            episodes, steps, dropped = self.total_episodes, self.total_steps, self.total_dropped
            refused = dict(self._refused)
            answers_dropped = self._answers_dropped
        return ServerStats(
            taken_at=taken_at,
            caches=held,
            n_caches=self._n_caches,
            samples_unused=unused,
            weight_sum=weight_sum,
            oldest_age=oldest,
            newest_age=newest,
            received=Tally(*received),
            clients={uuid: Tally(*sent) for uuid, sent in clients.items()},
            other_clients=Tally(*others),
            samples_given=given,
            samples_discarded=discarded,
            total_episodes=episodes,
            total_steps=steps,
            refused=refused,
            answers_dropped=answers_dropped,
            published=published,
            publications_dropped=dropped,
            log_lines=self.logbook.total_lines,
        )

    def wake(self) -> None:
        """Wake all who wait, for the server is closed."""
        with self._arrived:
            self._closed = True
            self._arrived.notify_all()

    def _wait(self, batch_size: int, deadline: float | None) -> None:
        with self._arrived:
            while (shortage := self.caches.shortage(batch_size)) is not None:
                if self._closed:
                    raise RuntimeError("this ReplayMemoryServer is closed")
                left = None if deadline is None else seconds_to(deadline)
                if left == 0:
                    raise TimeoutError(f"get_batch: {shortage}")
                self._arrived.wait(left)

    def _give(self, asked: pb.SamplesRequest) -> tuple[pb.Samples, list[Any]]:
        _, _, largest_row = cache_layout(self._memory, ids=self._ids, nstep=self._nstep)
        if asked.rows > MOST_SAMPLES:
            text = f"{asked.rows} samples, and one request may ask for {MOST_SAMPLES}"
            raise WireError(text, "size")
        largest, whole = asked.rows * largest_row, asked.rows * row_bytes(self._memory)
        if largest > LARGEST_REPLY or whole > 2 * LARGEST_REPLY:
            text = f"{asked.rows} samples, more than fit into an answer of {LARGEST_REPLY} bytes"
            raise WireError(text, "size")
        try:
            weight_sum, unused, flags, frame_stack, columns, shortage = self.caches.give(asked.rows)
        except MemoryError:
            raise WireError(f"{asked.rows} samples: there is no memory for them", "cache") from None
        samples = pb.Samples(
            number=asked.number,
            rows=asked.rows if columns else 0,
            weight_sum=weight_sum,
            unused=unused,
            template=self._digest,
            flags=flags,
            frame_stack=frame_stack,
            ids=self._ids,
            nstep=self._nstep,
            shortage=_NO_CACHES if shortage and self._n_caches == 0 else shortage or "",
        )
        return samples, columns

    def _spread(self, told: pb.Priorities) -> None:
        rows = len(told.ids) // 8
        if rows > MOST_PRIORITY_ROWS:
            text = f"priorities of {rows} rows, and one request may have {MOST_PRIORITY_ROWS}"
            raise WireError(text, "size")
        priorities = Priorities.read(told)
        if not self._ids or len(priorities.sender) != len(priorities.ids):
            raise WireError("priorities for nobody", "cache")
        clients = priorities.num_clients
        if clients > MOST_PRIORITY_CLIENTS:
            text = f"priorities for {clients} clients, and one request may have "
            raise WireError(f"{text}{MOST_PRIORITY_CLIENTS}", "size")
        if self.publish is not None:
            with contextlib.suppress(RuntimeError):  # closed meanwhile
                priorities.publish(self._memory.uuid, self.publish)

    def _publish(
        self, of: tuple[str, int, int], told: pb.Publish, pieces: list[zmq.Frame]
    ) -> dict[str, Any]:
        """Take a part of a message, publish what is whole, and return the answer."""
        part = b"".join(piece.buffer for piece in pieces)
        message, size = self._parts.add(of, told, part)
        if message is None:
            return {"publish": pb.Publish(number=told.number, size=size)}
        if self.publish_for_client is not None:
            with contextlib.suppress(RuntimeError):  # closed meanwhile
                self.publish_for_client(told.digest, message)
        return {"publish_reply": pb.PublishReply(number=told.number)}

    def _take_cache(self, sender: int, cache: pb.Cache, frames: list[zmq.Frame]) -> None:
        if self._n_caches == 0:
            raise WireError("a cache, where none are kept", "cache")
        if cache.template != self._digest:
            raise WireError("a cache of other templates", "template")
        if cache.ids != self._ids:
            with_or_without = "without" if self._ids else "with"
            raise WireError(f"a cache {with_or_without} ids", "layout")
        if cache.nstep != self._nstep:
            with_or_without = "without" if self._nstep else "with"
            raise WireError(f"a cache {with_or_without} n-step returns", "layout")
        layout = cache.flags, cache.frame_stack
        try:
            taken = self.caches.push(
                cache.rows, cache.weight_sum, frames, sender=sender, layout=layout
            )
        except ValueError as error:
            raise WireError(f"a cache that cannot be: {error}", "cache") from None
        if not taken:
            raise WireError("a cache of other cache_flags or frame_stack", "layout")
        with self._lock:
            self.total_caches += 1
        with self._arrived:
            self._arrived.notify_all()

    def _count(self, sender: int, counter: pb.Counter) -> None:
        with self._lock:
            known = self._counters.pop(sender, (0, 0, 0))
            told = counter.episodes, counter.steps, counter.dropped
            self._counters[sender] = largest = (
                max(known[0], told[0]),
                max(known[1], told[1]),
                max(known[2], told[2]),
            )
            if len(self._counters) > _MOST_COUNTERS:
                del self._counters[next(iter(self._counters))]
            self.total_episodes += largest[0] - known[0]
            self.total_steps += largest[1] - known[1]
            self.total_dropped += largest[2] - known[2]

    def _warn(self, told: set[str], text: str, peer: str, *rest: object) -> None:
        """Warn of a peer, unless that was told before."""
        with self._lock:
            if peer in told or len(told) == _MOST_PEERS:
                return
            told.add(peer)
        _logger.warning(text, peer, *rest)


def _header(frames: list[zmq.Frame]) -> pb.Header:
    """Read the first frame of a message."""
    if not frames:
        raise WireError("no frames where a header is expected", "frames")
    if len(frames[0]) > SMALL_FRAME:
        raise WireError(
            f"a header of {len(frames[0])} bytes, at most {SMALL_FRAME} are taken", "size"
        )
    return decode(frames[0])


def _request(frames: list[zmq.Frame]) -> pb.Header:
    """Read a request: a header, which only what is to be published follows."""
    if len(frames) > 1:
        header = _header(frames)
        if header.WhichOneof("body") == "publish":
            return header
    return _only(frames)


def _only(frames: list[zmq.Frame]) -> pb.Header:
    if len(frames) != 1:
        raise WireError(f"{len(frames)} frames where 1 is expected", "frames")
    return _header(frames)


def _peer_of(frame: zmq.Frame | None) -> str:
    try:
        return "an unknown peer" if frame is None else escaped(str(frame.get("Peer-Address")))
    except zmq.ZMQError:
        return "an unknown peer"
