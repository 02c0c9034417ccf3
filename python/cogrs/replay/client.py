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

from cogrs.api import replay_pb2 as pb
from cogrs.replay.endpoint import ClientEndpoints
from cogrs.replay.insert_gate import GateCalls, InsertGate
from cogrs.replay.log_lines import LogLines
from cogrs.replay.net.closeable import Closeable
from cogrs.replay.net.curve import Curve
from cogrs.replay.net.deadline import Deadline
from cogrs.replay.net.push_socket import PushSocket
from cogrs.replay.net.request_socket import RequestSocket
from cogrs.replay.net.transport import Transport
from cogrs.replay.priorities import AppliedPriorities, topic_of
from cogrs.replay.pubsub.subscriber import Subscriber
from cogrs.replay.pubsub.topic_key import topic_bytes
from cogrs.replay.synced_memory import SyncedMemory
from cogrs.replay.wire import encode
from cogrs.validation import check_count, check_flag

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cogrs._core import ReplayMemory
    from cogrs.replay.key_pair import KeyLike

_LARGEST = (1 << 64) - 1

_SOON = 0.2
"""Seconds that a cache for a starved learner waits for room."""


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
        self._endpoints = at = ClientEndpoints.of(sub_endpoint, req_endpoint, push_endpoint)
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
        self._requests = RequestSocket(self._transport, at.req, self._uuid, timeout)
        self._pushes = PushSocket(self._transport, at.push, self._hwm)
        self._subscriber = Subscriber(self._transport, at.sub, sub_hwm)
        self._gate = InsertGate(self._transport, self._subscriber if sub_endpoint else None)
        self._log_lines = LogLines(self._uuid)
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

    def replace(
        self,
        sub_endpoint: str | None = None,
        req_endpoint: str | None = None,
        push_endpoint: str | Sequence[str] | None = None,
        *,
        generation: int | None = None,
    ) -> bool:
        """Go on with a server at other endpoints, also in calls that wait; never waits itself.

        Memory, uuid and topics stay. The server there is told the same running totals, and adds
        what it does not know. Each cache is sent once, to an old endpoint or a new one.

        Args:
            sub_endpoint: As of the constructor, as the other two; None for the present one.
            req_endpoint: Likewise.
            push_endpoint: Likewise.
            generation: As of `ReplaySampler.replace`, and so is what is returned.

        Raises:
            TypeError, ValueError: One is not an endpoint, or the client was created without it.
            OSError: The process has no file descriptors left; nothing is changed.
            RuntimeError: The client is closed.
        """
        self._transport.check()
        with self._sync_lock:
            old = self._endpoints
            new = old.replaced(sub_endpoint, req_endpoint, push_endpoint, generation)
            if new is None:
                return False
            if new.sub != old.sub:
                self._subscriber.replace(new.sub)
            if new.req != old.req:
                self._requests.replace(new.req)
                self._gate.forget()
            if new.push != old.push:
                self._pushes.replace(new.push)
            self._endpoints = new
        return True

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
        if self._synced is not None and self._gate.is_limited:
            # A server that has started since then is not to count what was told to another.
            self._report("sync_sizes")
        reply = self._requests.ask("sync_sizes", "sizes", sizes_request=pb.SizesRequest())
        self._gate.take(reply)
        with self._sync_lock:
            synced = SyncedMemory(reply.sizes, max_step, self._uuid, self._seed, self._synced)
            if synced.ids:
                self._subscriber.subscribe(topic_of(self._uuid))
            self._synced = synced

    def update_counter(self, *, restored: bool = False) -> None:
        """Send the server the totals of closed episodes and steps, and of lost messages.

        Call it after each episode. A call that is repeated or lost does no harm: the next one makes
        up for it. So an actor that is to outlive its server goes on after TimeoutError, here and
        after `push_cache`.

        Args:
            restored: Whether the episodes that were closed since the last call are those of a
                checkpoint, which the server's rate limiter is not to count as inserts.

        Raises:
            TimeoutError: The server does not answer within `timeout`.
            TypeError: `restored` is neither True nor False.
            RuntimeError: Before `sync_sizes`, or the client is closed.
        """
        self._report("update_counter", restored=check_flag("restored", restored))

    def may_insert(self, n: int = 1) -> bool:
        """Return whether the server's rate limiter lets so many entries in now.

        By what it told last; if that is older than a second, or episodes were closed since then,
        the totals are told as by `update_counter`, and the answer counts. Nothing is reserved:
        other clients may be told the same. Entries that are added all the same are not refused.

        Args:
            n: Entries, >= 1. More than a few may never be let in at once; `wait_to_insert` does not
                wait for ever for that reason.

        Returns:
            Whether they may come; always True if the server has no rate limiter.

        Raises:
            TimeoutError: The server was asked, and does not answer within `timeout`.
            TypeError: `n` is not an integer.
            ValueError: `n` < 1.
            RuntimeError: Before `sync_sizes`, or the client is closed.
        """
        self._transport.check()
        self._state()
        return self._gate.may_insert(self._gate_calls(), n)

    def wait_to_insert(self, n: int = 1, timeout: float | None = None) -> bool:
        """Wait until the server's rate limiter lets an entry in; call it before each episode.

        Totals are told first, as by `update_counter`, so there is no need to call both. A server
        that does not answer is waited for too. While a learner lacks nothing but samples, this
        pushes caches to it; if there is nothing to push, the wait is over.

        Args:
            n: Entries that are to come, >= 1. The wait is for one of them: the limiter may never
                let all of them in at once.
            timeout: Seconds to wait; None as long as it takes. With 0 the server is asked all the
                same, unless it has told within the last second; its answer is waited for 0.1 s.

        Returns:
            True, at once if the server has no rate limiter; or False when the time is over.

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: `n` < 1, or `timeout` < 0; or a cache was to be pushed, as of `push_cache`.
            RuntimeError: Before `sync_sizes`, the client was created without a `req_endpoint`, or
                it is closed, also during the wait.
        """
        self._transport.check()
        self._state()
        return self._gate.wait(self._gate_calls(), n, timeout)

    def push_cache(self) -> int:
        """Draw `rem.cache_size` samples and send them to the server.

        Returns:
            0 when they are on their way; -1 when too few entries can be drawn, and then nothing is
            sent: none, or under `max_times_sampled` and samplers that repeat no entry fewer than
            `rem.cache_size`. With `max_times_sampled` entries count as given when they are drawn;
            a cache that the server did not take is sent by the next call.

        Raises:
            TimeoutError: `hwm` caches wait to be sent, and the server takes none; of several
                servers, none takes any.
            ConnectionError: The server has keys and this client none, or the other way round.
                Nothing is sent, and what waited to be sent is lost.
            ValueError: `rem.cache_flags` or `rem.frame_stack` are not those of the server any
                more, or `rem.cache_size` makes frames larger than it takes.
            RuntimeError: Before `sync_sizes`, or the client is closed.
        """
        return self._push_cache(self._timeout)

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
        applied = AppliedPriorities.of(messages, synced.rem)
        with self._sync_lock:
            dropped = self._subscriber.dropped(topic)
            new, self._priorities_dropped = dropped - self._priorities_dropped, dropped
        return applied._replace(dropped=new)

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
        head = self._log_lines.head(log_message)
        self._pushes.send("write_log", head, (), self._timeout)

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

    def _push_cache(self, timeout: float | None) -> int:
        self._transport.check()
        synced = self._state()
        drawn = synced.take_cache()
        if drawn is None:
            return -1
        cache, frames = drawn
        head = encode(self._uuid, cache=cache)
        try:
            self._pushes.send("push_cache", lambda: head, frames, timeout)
        except BaseException:  # Ctrl-C ends the wait too
            synced.keep_cache(drawn)
            raise
        return 0

    def _report(self, call: str, within: float | None = None, *, restored: bool = False) -> None:
        """Send the server the totals; errors as of `update_counter`."""
        self._transport.check()
        episodes, steps = self._state().totals()
        counter = pb.Counter(
            episodes=episodes,
            steps=steps,
            # Computed of numbers that the peer gave.
            dropped=min(self._subscriber.total_dropped(), _LARGEST),
            insert_wait_us=int(self._gate.clock.seconds * 1e6),
            restored=restored,
        )
        reply = self._requests.ask(call, "counter_reply", within=within, counter=counter)
        self._gate.take(reply, steps)

    def _gate_calls(self) -> GateCalls:
        return GateCalls(
            closed=lambda: self._state().totals()[1],
            report=partial(self._report, "wait_to_insert"),
            push=self._push_to_starved,
        )

    def _push_to_starved(self) -> bool:
        """Push a cache soon or not at all; return whether there was one to push."""
        try:
            return any(self._endpoints.push) and self._push_cache(_SOON) == 0
        except (TimeoutError, ConnectionError):
            self._transport.check()
            return True

    def __repr__(self) -> str:
        """Return the class, the uuid and the endpoints."""
        return (
            f"ReplayMemoryClient(uuid=0x{self._uuid:08x}, sub_endpoint={self._endpoints.sub!r}, "
            f"req_endpoint={self._endpoints.req!r}, push_endpoint={list(self._endpoints.push)!r}, "
            f"synced={self._synced is not None})"
        )


def _close(
    transport: Transport, subscriber: Subscriber, *sockets: RequestSocket | PushSocket
) -> None:
    if transport.begin_close():
        subscriber.wake()
        for socket in sockets:
            socket.close()
        transport.finish_close()
