"""`cogrs.ReplayMemoryClient`: an actor's memory, and its way to the learner's server.

Columns of a cache go from the block that Rust filled to ZeroMQ without a copy; small ones are
packed into one frame.

Threads: any may call any method. Each socket is used in turns; `_sync_lock` guards the exchange of
the memory, and the count of dropped priorities.
"""

from __future__ import annotations

import secrets
import threading
import weakref
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from cogrs._core import ReplayMemory, cache_layout, draw_cache
from cogrs.api import replay_pb2 as pb
from cogrs.limits import LONGEST_LINE
from cogrs.replay.endpoint import Conn, check_endpoint
from cogrs.replay.net.closeable import Closeable
from cogrs.replay.net.curve import Curve
from cogrs.replay.net.deadline import Deadline
from cogrs.replay.net.push_socket import PushSocket
from cogrs.replay.net.request_socket import RequestSocket
from cogrs.replay.net.transport import Transport
from cogrs.replay.priorities import AppliedPriorities, Priorities, topic_of
from cogrs.replay.pubsub.subscriber import Subscriber
from cogrs.replay.pubsub.topic_key import topic_bytes
from cogrs.replay.synced_memory import SyncedMemory
from cogrs.replay.wire import SMALL_CACHE, WireError, encode
from cogrs.validation import check_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cogrs.replay.key_pair import KeyLike

_LARGEST = (1 << 64) - 1


class ReplayMemoryClient(Closeable):
    """A replay memory like the server's, from which samples are pushed to it.

    Each connection is made when it is first used. A server that starts later, or restarts at the
    same endpoints, is found. Any thread may call any method; calls of one kind wait for each other.
    Close the client, or use it as a context manager.
    """

    _instead: ClassVar[str] = "make one in each process"

    def __init__(
        self,
        sub_endpoint: str,
        req_endpoint: str,
        push_endpoint: str | Sequence[str],
        input_uuid: int = 0,
        *,
        max_step: int | None = None,
        timeout: float | None = 30.0,
        seed: int | None = None,
        hwm: int = 16,
        sub_hwm: int = 16,
        key: KeyLike | None = None,
        server_key: KeyLike | None = None,
    ) -> None:
        """Create a client that connects later; this waits only if `max_step` is given.

        Args:
            sub_endpoint: The server's `pub_endpoint`, for `sub_bytes`. Each of the three endpoints
                can be empty: the calls that need it then raise RuntimeError.
            req_endpoint: The server's `rep_endpoint`, for `sync_sizes` and `update_counter`.
            push_endpoint: The server's `pull_endpoint`, for `push_cache` and `write_log`; or those
                of several servers with the same templates and settings, of which the reachable ones
                get caches and lines in turn. Only the server at `req_endpoint` tells sizes and gets
                counts.
            input_uuid: 32-bit number that names this client in logs and counters; 0 for random.
            max_step: Entries that the client's memory holds. When given, `sync_sizes` is called.
            timeout: Seconds that a call waits for the server; None for ever.
            seed: Makes the draws of caches reproducible; each client has its own if None.
            hwm: Caches that wait to be sent, at most (high-water mark), >= 1.
            sub_hwm: Published messages of a topic that wait for `sub_bytes`, at most, >= 1; beyond
                that the newest replaces the oldest, which is counted. Priorities have a limit of
                their own: see `apply_priorities`.
            key: The client's key pair, or its file `NAME.key_secret`. All sockets then use CURVE.
                A server without keys, with another key, or that does not allow this client's is
                never reached: calls raise TimeoutError. None: no keys.
            server_key: The server's public key, or its file `NAME.key`. Given with `key`.

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: An endpoint or a key is not valid, a number is out of range, or `key` or
                `server_key` is given without the other.
            OSError: A file of a key cannot be read.
            RuntimeError: There are keys, and this libzmq was built without CURVE.
        """
        self._sub_endpoint = _endpoint("sub_endpoint", sub_endpoint)
        self._req_endpoint = _endpoint("req_endpoint", req_endpoint)
        self._push_endpoints = _endpoints(push_endpoint)
        self._uuid = (
            check_count("input_uuid", input_uuid, 0, (1 << 32) - 1) or secrets.randbits(32) or 1
        )
        Deadline.of("timeout", timeout)
        self._timeout = timeout
        self._seed = None if seed is None else check_count("seed", seed, 0, _LARGEST)
        self._hwm = check_count("hwm", hwm)
        sub_hwm = check_count("sub_hwm", sub_hwm)
        if max_step is not None:
            check_count("max_step", max_step, 0, _LARGEST)
        curve = Curve.of_client(key, server_key)
        self._transport = Transport(type(self).__name__, curve)
        self._requests = RequestSocket(self._transport, self._req_endpoint, self._uuid, timeout)
        self._pushes = PushSocket(self._transport, self._push_endpoints, self._hwm)
        self._subscriber = Subscriber(self._transport, self._sub_endpoint, sub_hwm)
        self._stream = secrets.randbits(64)
        self._lines = 0
        self._priorities_dropped = 0
        self._synced: SyncedMemory | None = None
        self._sync_lock = threading.Lock()
        sockets = (self._requests, self._pushes)
        self._finalize = weakref.finalize(self, _close, self._transport, self._subscriber, *sockets)
        if max_step is not None:
            self.sync_sizes(max_step)

    @property
    def rem(self) -> ReplayMemory:
        """The client's memory, to be filled with episodes.

        Raises:
            RuntimeError: `sync_sizes` has not been called.
        """
        return self._state().rem

    @property
    def uuid(self) -> int:
        """32-bit number that names this client."""
        return self._uuid

    def sync_sizes(self, max_step: int) -> None:
        """Create a memory with the templates and settings of the server's.

        A second call makes a new memory; the old one stays usable, and its counts are still
        included.

        Args:
            max_step: Entries that the memory holds, >= 0.

        Raises:
            TimeoutError: The server does not answer.
            ValueError: `max_step` < 0.
            MemoryError: As `ReplayMemory`.
            RuntimeError: The client is closed, or the peer is not a server of this protocol.
        """
        check_count("max_step", max_step, 0, _LARGEST)
        reply = self._requests.ask("sync_sizes", "sizes", sizes_request=pb.SizesRequest())
        with self._sync_lock:
            synced = SyncedMemory(reply.sizes, max_step, self._uuid, self._seed, self._synced)
            if synced.ids:
                self._subscriber.subscribe(topic_of(self._uuid))
            self._synced = synced

    def update_counter(self) -> None:
        """Send the server the totals of closed episodes and steps, and of lost messages.

        Call it after each episode. A call that is repeated or lost does no harm: the next one makes
        up for it. So an actor that is to outlive its server goes on after TimeoutError, here and
        after `push_cache`.

        Raises:
            TimeoutError: The server does not answer within `timeout`.
            RuntimeError: Before `sync_sizes`, or the client is closed.
        """
        self._transport.check()
        episodes, steps = self._state().totals()
        # Computed of numbers that the peer gave.
        dropped = min(self._subscriber.total_dropped(), _LARGEST)
        counter = pb.Counter(episodes=episodes, steps=steps, dropped=dropped)
        self._requests.ask("update_counter", "counter_reply", counter=counter)

    def push_cache(self) -> int:
        """Draw `rem.cache_size` samples and send them to the server.

        Returns:
            0 when they are on their way; -1 when too few entries can be drawn, and then nothing is
            sent: none, or under `max_times_sampled` and samplers that repeat no entry fewer than
            `rem.cache_size`. With `max_times_sampled` entries count as given when they are drawn,
            also if the server takes none.

        Raises:
            TimeoutError: `hwm` caches wait to be sent, and the server takes none; of several
                servers, none takes any.
            ConnectionError: The server has keys and this client none, or the other way round.
                Nothing is sent, and what waited to be sent is lost.
            ValueError: `rem.cache_flags` or `rem.frame_stack` are not those of the server any
                more, or `rem.cache_size` makes frames larger than it takes.
            RuntimeError: Before `sync_sizes`, or the client is closed.
        """
        self._transport.check()
        synced = self._state()
        # Before entries are counted as given.
        synced.check(*cache_layout(synced.rem)[:2], 0)
        drawn = draw_cache(synced.rem, ids=synced.ids, nstep=synced.nstep, pack=SMALL_CACHE)
        if drawn is None:
            return -1
        rows, weight_sum, flags, frame_stack, frames = drawn
        synced.check(flags, frame_stack, max(map(len, frames)))
        cache = pb.Cache(
            rows=rows,
            weight_sum=weight_sum,
            template=synced.digest,
            flags=flags,
            frame_stack=frame_stack,
            ids=synced.ids,
            nstep=synced.nstep,
        )
        head = encode(self._uuid, cache=cache)
        self._pushes.send("push_cache", lambda: head, frames, self._timeout)
        return 0

    def apply_priorities(self, *, timeout: float | None = 0.0) -> AppliedPriorities:
        """Take the errors that the learner has sent back, and compute new weights in `rem` by them.

        Errors that `update_priority` of the server sends after `sync_sizes` are kept for this call,
        however small `sub_hwm` is. Of several errors of one entry the newest counts; errors of
        different entries are not lost while the client is connected. When those of more than 2.7
        million entries wait, the oldest are dropped. Ids of entries that are gone, or of a memory
        before the last `sync_sizes`, are only counted.

        Args:
            timeout: Seconds to wait for the first message when none has come; None for ever.

        Returns:
            How many entries have new weights, and how many could not be used; all 0 when no errors
            came.

        Raises:
            RuntimeError: Before `sync_sizes`, the server has no ids, or the client is closed.
        """
        self._transport.check()
        synced = self._state()
        if not synced.ids:
            raise RuntimeError("the server has no ids: make it with ids=True, and call sync_sizes")
        topic = topic_of(self._uuid)
        messages = self._subscriber.take(topic, timeout)
        entries = stale = refused = 0
        for message in messages:
            try:
                priorities = Priorities.from_message(message)
            except WireError:
                refused += 1
                continue
            gone, bad = priorities.apply(synced.rem)
            entries += len(priorities.ids) - gone - bad
            stale += gone
            refused += bad
        with self._sync_lock:
            dropped = self._subscriber.dropped(topic)
            new, self._priorities_dropped = dropped - self._priorities_dropped, dropped
        return AppliedPriorities(entries, stale, refused, new)

    def write_log(self, log_message: str) -> None:
        """Send a line for the server's log file.

        Args:
            log_message: At most 1,000,000 bytes in UTF-8; newlines and other characters that do not
                print are escaped.

        Raises:
            TimeoutError: As `push_cache`.
            ConnectionError: As `push_cache`.
            TypeError: `log_message` is not a string.
            ValueError: It is too long.
            RuntimeError: Before `sync_sizes`, or the client is closed.
        """
        self._transport.check()
        self._state()
        if not isinstance(log_message, str):
            raise TypeError(f"log_message: expected str, got {type(log_message).__name__}")
        try:
            size = len(log_message.encode())
        except UnicodeEncodeError as error:
            raise ValueError(f"log_message: expected text, got {error}") from None
        if size > LONGEST_LINE:
            expected = f"at most {LONGEST_LINE:,} bytes as UTF-8"
            raise ValueError(f"log_message: expected {expected}, got {size:,}")
        self._pushes.send("write_log", partial(self._line, log_message), (), self._timeout)

    def sub_bytes(
        self, topic: str | bytes, *, timeout: float | None = None, last: bool = False
    ) -> bytes:
        """Wait for the next message of a topic.

        The first call subscribes; messages from before that are missed, except with `last`.

        Args:
            topic: Matched exactly; a str is UTF-8.
            timeout: Seconds to wait; None for ever.
            last: Whether the last message from before counts, if no message of this topic has come
                yet. So an actor that comes late need not wait for the next model.

        Returns:
            The whole message.

        Raises:
            TimeoutError: No message came.
            TypeError: `topic` is neither bytes nor str.
            RuntimeError: The client is closed.
        """
        return self._subscriber.get(topic_bytes(topic), timeout, last)

    def num_dropped(self, topic: str | bytes) -> int:
        """Return how many messages of a topic were lost because this client was too slow."""
        self._transport.check_process()
        return self._subscriber.dropped(topic_bytes(topic))

    @property
    def total_refused(self) -> int:
        """Published messages dropped because they were not of this protocol."""
        self._transport.check_process()
        return self._subscriber.total_refused

    def _state(self) -> SyncedMemory:
        self._transport.check_process()
        if self._synced is None:
            raise RuntimeError("this client has no memory yet: call sync_sizes(max_step) first")
        return self._synced

    def _line(self, text: str) -> bytes:
        log = pb.Log(stream=self._stream, number=self._lines, text=text)
        self._lines += 1
        return encode(self._uuid, log=log)

    def __repr__(self) -> str:
        """Return the class, the uuid and the endpoints."""
        return (
            f"ReplayMemoryClient(uuid=0x{self._uuid:08x}, sub_endpoint={self._sub_endpoint!r}, "
            f"req_endpoint={self._req_endpoint!r}, push_endpoint={list(self._push_endpoints)!r}, "
            f"synced={self._synced is not None})"
        )


def _endpoint(name: str, value: object) -> str:
    """Return an endpoint, which may be empty."""
    return "" if isinstance(value, str) and not value else check_endpoint(name, value, Conn)


def _endpoints(value: str | Sequence[str]) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, (list, tuple)):
        return (_endpoint("push_endpoint", value),)
    if not value:
        raise ValueError("push_endpoint: expected at least one endpoint, got none")
    return tuple(check_endpoint("push_endpoint", each, Conn) for each in value)


def _close(
    transport: Transport, subscriber: Subscriber, *sockets: RequestSocket | PushSocket
) -> None:
    if transport.begin_close():
        subscriber.wake()
        for socket in sockets:
            socket.close()
        transport.finish_close()
