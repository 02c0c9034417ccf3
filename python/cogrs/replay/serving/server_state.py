"""The state of a server: what it does with each request and each pushed message.

`ServerState` knows no sockets; workers carry messages to it (`worker`), so any number of workers
and proxies serve one server. Nothing from the network is trusted: frames are bounded by what the
templates allow, and headers, kinds, templates and sizes are checked before anything is kept.
Columns of a cache stay the frames that ZeroMQ received: Rust checks their sizes and gathers batches
from them (`rust/src/replay/cache_store.rs`). Python handles one header per cache and does no
per-row work.

Threads: any may call any method. `_lock` guards the counters that clients tell and the refusals;
no other lock is taken while it is held. Caches are counted by the store, under the lock of the push
or the batch, so `stats` agrees with itself.
"""

from __future__ import annotations

import contextlib
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
from cogrs.replay.net.authenticator import ANYBODY
from cogrs.replay.net.receive_quota import ReceiveQuota
from cogrs.replay.net.warn_once import WarnOnce
from cogrs.replay.priorities import Priorities
from cogrs.replay.sequence_priority import learned_steps
from cogrs.replay.serving.client_keys import ClientKeys
from cogrs.replay.serving.log_file import LogFile
from cogrs.replay.serving.message_assembler import MessageAssembler
from cogrs.replay.serving.sample_source import SampleSource
from cogrs.replay.serving.server_limiter import ServerLimiter
from cogrs.replay.serving.stats_reporter import StatsReporter
from cogrs.replay.stats import ServerStats, Tally
from cogrs.replay.wire import REASONS, WireError, decode, digest_of, encode, row_bytes, sizes_of
from cogrs.validation import check_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cogrs._core import RateLimiter
    from cogrs.replay.batch import AnyBatch
    from cogrs.replay.net.authenticator import Identity

_NO_CACHES = "this server keeps no caches: create it with n_caches >= 1"

_LARGEST_FRAME = (1 << 63) - 1
"""ZeroMQ's numbers are signed."""

_OF_SAMPLERS = ("samples_request", "priorities", "publish")
"""Requests of clients that may draw."""

_MOST_COUNTERS = 65_536
"""Clients whose totals are remembered, those that told theirs last."""

_NOTHING_TOLD = (0, 0, 0, 0)


class ServerState:
    """The caches, counters, log file and keys of a server."""

    def __init__(
        self,
        memory: ReplayMemory,
        n_caches: int,
        seed: int | None,
        log_seconds: float | None,
        *,
        ids: bool = False,
        nstep: bool = False,
        limiter: RateLimiter | None = None,
    ) -> None:
        """Keep the newest `n_caches` caches of memories like this one; with 0 refuse caches.

        Workers log what arrives every `log_seconds`; None for never.
        """
        self.log_file = LogFile()
        self._n_caches = check_count("n_caches", n_caches, 0)
        self.caches = CacheStore(memory, max(1, self._n_caches), ids=ids, nstep=nstep, seed=seed)
        self.publish: Callable[[bytes, bytes], object] | None = None
        """Publishes priorities, given topic and message; None: they are dropped."""
        self.publish_for_client: Callable[[bytes, bytes], object] | None = None
        """Publishes a message, given digest of the topic and contents; likewise."""
        if limiter is not None and self._n_caches == 0:
            raise ValueError(f"limiter: expected None, for {_NO_CACHES}")
        self.limiter = None if limiter is None else ServerLimiter(limiter, learned_steps(memory))
        self._source = SampleSource(memory, self._n_caches, self.caches, self.limiter)
        self._ids = ids
        self._nstep = nstep
        self._reporter = StatsReporter(log_seconds)
        self._memory = memory
        self._digest = digest_of(memory)
        self._lock = threading.Lock()
        self.total_episodes = self.total_steps = 0  # that clients have closed
        self.total_caches = 0  # that have arrived, whole ones only
        self.total_dropped = 0  # published messages that clients were too slow for
        self.total_refused = 0  # messages that were dropped or refused
        self._refused = dict.fromkeys(REASONS, 0)
        self._counters: dict[int, tuple[int, ...]] = {}
        """The largest totals of each client; the one that has been silent longest comes first.
        With a rate limiter, a client that has asked for sizes begins at 0."""
        self._client_keys = ClientKeys()
        self._assembler = MessageAssembler()
        self._answers_dropped = 0
        self._warn_refused = WarnOnce()
        self._warn_dropped = WarnOnce()

    @cached_property
    def max_frame(self) -> int:
        """Bytes of the largest frame that a client may send, by the settings at the first worker.

        Sockets have to be told when they are made.
        """
        largest = self._largest_row * self._memory.cache_size
        return min(max(SMALL_FRAME, largest), _LARGEST_FRAME)

    @property
    def _largest_row(self) -> int:
        """Bytes of a row in the largest column of a cache."""
        return cache_layout(self._memory, ids=self._ids, nstep=self._nstep)[2]

    def quota(self, hwm: int) -> ReceiveQuota:
        """Return how many bytes of a client's pushes may wait: `hwm` and some of the largest."""
        cache = row_bytes(self._memory) * self._memory.cache_size
        largest = max(cache, SMALL_FRAME) + SMALL_FRAME
        return ReceiveQuota((hwm + 4) * largest + MOST_WAITING_OF_PUSHES, largest=2 * largest)

    def answer(self, frames: list[zmq.Frame], sender: Identity = ANYBODY) -> list[Any]:
        """Return the frames of the reply to a request; a bad one is refused with the reason."""
        try:
            header = _request(frames)
            kind = header.WhichOneof("body")
            if kind in _OF_SAMPLERS and not sender.samples:
                text = f"{kind}: this key may only push, since it is not in allow_samplers"
                raise WireError(text, "key")
            match kind:
                case "publish":
                    source = sender.key, header.sender, header.publish.number
                    return [self._reply(**self._publish(source, header.publish, frames[1:]))]
                case "sizes_request":
                    self._expect(header.sender)
                    sizes = sizes_of(self._memory, self.max_frame, ids=self._ids, nstep=self._nstep)
                    return [self._reply(sizes=sizes)]
                case "counter":
                    self._client_keys.check(header.sender, sender.key)
                    self._count(header.sender, header.counter)
                    return [self._reply(counter_reply=pb.CounterReply())]
                case "samples_request":
                    samples, columns = self._give(header.sender, header.samples_request)
                    return [self._reply(samples=samples), *columns]
                case "priorities":
                    self._publish_priorities(header.priorities)
                    return [self._reply(priorities_reply=pb.PrioritiesReply())]
                case _:
                    raise WireError(f"{kind or 'nothing'} as a request", "kind")
        except WireError as error:
            self.refuse(frames[0] if frames else None, error)
            return [self._reply(refusal=pb.Refusal(reason=str(error)))]

    def take(self, frames: list[zmq.Frame], sender: Identity = ANYBODY) -> None:
        """Take a pushed message; one that is not of this protocol is dropped and counted."""
        try:
            header = _header(frames)
            self._client_keys.check(header.sender, sender.key)
            match header.WhichOneof("body"):
                case "cache":
                    self._take_cache(header.sender, header.cache, frames[1:])
                case "log":
                    line = _only(frames).log
                    self.log_file.add(header.sender, line.stream, line.number, line.text)
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
        self._warn_refused(peer := _peer_of(frame), text, peer, error)

    def count_dropped_answer(self, frame: zmq.Frame) -> None:
        """Count a reply that its peer has no room for; the first of a peer is logged."""
        with self._lock:
            self._answers_dropped += 1
        text = "%s does not read its answers; further ones are dropped"
        self._warn_dropped(peer := _peer_of(frame), text, peer)

    def get_batch(
        self, batch_size: int, wait: float | None, out: tuple[Any, ...] | None
    ) -> AnyBatch:
        """See `ReplayMemoryServer.get_batch`."""
        if self._n_caches == 0:
            raise RuntimeError(f"get_batch: {_NO_CACHES}")
        return self._source.get_batch(batch_size, wait, out)

    def tick(self) -> None:
        """Flush the log file and log the rates when it is time; to be called often."""
        self.log_file.tick()
        self._reporter.tick(self.stats)

    def stats(self, published: int = 0) -> ServerStats:
        """Return the figures of a server that has published so many messages."""
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
            limiter=None if self.limiter is None else self.limiter.stats(),
            published=published,
            publications_dropped=dropped,
            log_lines=self.log_file.total_lines,
            bytes_on_disk=self.caches.bytes_on_disk,
        )

    def told(self) -> dict[str, Any]:
        """Return what clients have told, and the layout of caches, as JSON has it."""
        flags, frame_stack, _ = cache_layout(self._memory, ids=self._ids, nstep=self._nstep)
        with self._lock:
            totals = [self.total_episodes, self.total_steps, self.total_caches, self.total_dropped]
            counters = [[sender, *told] for sender, told in self._counters.items()]
        return {
            "layout": [self._digest, flags, frame_stack, self._ids, self._nstep],
            "totals": totals,
            "counters": counters,
            "limiter": None if self.limiter is None else self.limiter.counts(),
        }

    def resume(
        self,
        told: dict[str, Any],
        caches: Iterable[tuple[int, float, int, int, list[bytes]]],
    ) -> None:
        """Go on with what `told` returned and with caches; a ValueError if they are of others."""
        layout = self.told()["layout"]
        if told["layout"] != layout:
            raise ValueError(
                "expected a server of the same templates, cache_flags, frame_stack, ids and nstep"
            )
        episodes, steps, arrived, dropped = map(int, told["totals"])
        counters = {int(sender): tuple(map(int, each)) for sender, *each in told["counters"]}
        for rows, weight_sum, sender, following, frames in caches:
            self.caches.push(rows, weight_sum, frames, sender=sender, next=following)
        given, discarded, received, others, clients = told["store"]
        sent = [(int(client), counts) for client, counts in clients]
        self.caches.resume(given, discarded, received, others, sent)
        with self._lock:
            self.total_episodes, self.total_steps = episodes, steps
            self.total_caches, self.total_dropped = arrived, dropped
            self._counters = counters
        if self.limiter is not None and told["limiter"] is not None:
            self.limiter.resume(*map(int, told["limiter"]))

    def wake(self) -> None:
        """Wake all calls that wait, for the server is closed."""
        self._source.close()

    def _reply(self, **body: Any) -> bytes:
        """Return the header of a reply."""
        if self.limiter is not None:
            body["allowance"] = self.limiter.allowance()
        return encode(self._memory.uuid, **body)

    def _give(self, sampler: int, request: pb.SamplesRequest) -> tuple[pb.Samples, list[Any]]:
        rows = request.rows
        if rows > MOST_SAMPLES:
            text = f"{rows} samples; one request may ask for at most {MOST_SAMPLES}"
            raise WireError(text, "size")
        largest, whole = rows * self._largest_row, rows * row_bytes(self._memory)
        if largest > LARGEST_REPLY or whole > 2 * LARGEST_REPLY:
            text = f"{rows} samples, more than fit into an answer of {LARGEST_REPLY} bytes"
            raise WireError(text, "size")
        try:
            given = self._source.give(sampler, rows)
        except MemoryError:
            raise WireError(f"{rows} samples: too little memory for them", "cache") from None
        weight_sum, unused, flags, frame_stack, columns, shortage = given
        samples = pb.Samples(
            number=request.number,
            rows=rows if columns else 0,
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

    def _publish_priorities(self, message: pb.Priorities) -> None:
        rows = len(message.ids) // 8
        if rows > MOST_PRIORITY_ROWS:
            text = f"priorities of {rows} rows; one request may have at most {MOST_PRIORITY_ROWS}"
            raise WireError(text, "size")
        priorities = Priorities.read(message)
        if not self._ids or len(priorities.sender) != len(priorities.ids):
            raise WireError("priorities that this server cannot assign to clients", "cache")
        clients = priorities.num_clients
        if clients > MOST_PRIORITY_CLIENTS:
            text = f"priorities for {clients} clients; one request may have at most "
            raise WireError(f"{text}{MOST_PRIORITY_CLIENTS}", "size")
        if self.publish is not None:
            with contextlib.suppress(RuntimeError):  # closed meanwhile
                priorities.publish(self._memory.uuid, self.publish)

    def _publish(
        self, source: tuple[str, int, int], header: pb.Publish, pieces: list[zmq.Frame]
    ) -> dict[str, Any]:
        """Take a part of a message, publish one that is whole, and return the reply's body."""
        part = b"".join(piece.buffer for piece in pieces)
        message, size = self._assembler.add(source, header, part)
        if message is None:
            return {"publish": pb.Publish(number=header.number, size=size)}
        if self.publish_for_client is not None:
            with contextlib.suppress(RuntimeError):  # closed meanwhile
                self.publish_for_client(header.digest, message)
        return {"publish_reply": pb.PublishReply(number=header.number)}

    def _take_cache(self, sender: int, cache: pb.Cache, frames: list[zmq.Frame]) -> None:
        if self._n_caches == 0:
            raise WireError("a cache, but this server keeps no caches", "cache")
        if cache.template != self._digest:
            raise WireError("a cache of other templates", "template")
        for sent, expected, what in (
            (cache.ids, self._ids, "ids"),
            (cache.nstep, self._nstep, "n-step returns"),
        ):
            if sent != expected:
                raise WireError(f"a cache {'with' if sent else 'without'} {what}", "layout")
        layout = cache.flags, cache.frame_stack
        try:
            taken = self.caches.push(
                cache.rows,
                cache.weight_sum,
                frames,
                sender=sender,
                layout=layout,
                compressed=cache.compressed,
                max_frame=self.max_frame,
            )
        except ValueError as error:
            raise WireError(f"an invalid cache: {error}", "cache") from None
        except (OSError, MemoryError) as error:
            raise WireError(f"a cache that could not be stored: {error}", "storage") from None
        if not taken:
            raise WireError("a cache of other cache_flags or frame_stack", "layout")
        with self._lock:
            self.total_caches += 1
        self._source.note_cache()

    def _expect(self, sender: int) -> None:
        """Count all that a client will tell, for the rate limiter: it is new here."""
        if self.limiter is not None:
            with self._lock:
                self._remember(sender, self._counters.get(sender, _NOTHING_TOLD))

    def _count(self, sender: int, counter: pb.Counter) -> None:
        totals = counter.episodes, counter.steps, counter.dropped, counter.insert_wait_us
        with self._lock:
            is_known = sender in self._counters
            known = self._counters.get(sender, _NOTHING_TOLD)
            largest = tuple(map(max, known, totals))
            self._remember(sender, largest)
            new = tuple(now - before for now, before in zip(largest, known, strict=True))
            episodes, steps, dropped, waited = new
            self.total_episodes += episodes
            self.total_steps += steps
            self.total_dropped += dropped
        # What a client has told an earlier server is about samples that were taken there.
        if is_known:
            self._source.note_inserts(0 if counter.restored else steps, waited)

    def _remember(self, sender: int, totals: tuple[int, ...]) -> None:
        """Remember the totals of the client that has told something last; `_lock` is held."""
        self._counters.pop(sender, None)
        self._counters[sender] = totals
        if len(self._counters) > _MOST_COUNTERS:
            del self._counters[next(iter(self._counters))]


def _header(frames: list[zmq.Frame]) -> pb.Header:
    if not frames:
        raise WireError("no frames where a header is expected", "frames")
    if len(frames[0]) > SMALL_FRAME:
        raise WireError(
            f"a header of {len(frames[0])} bytes; at most {SMALL_FRAME} are allowed", "size"
        )
    return decode(frames[0])


def _request(frames: list[zmq.Frame]) -> pb.Header:
    """Read a request: a header, which only the pieces of a message to publish follow."""
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
