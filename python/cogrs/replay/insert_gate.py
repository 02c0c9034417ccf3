"""A client's side of its server's rate limiter: whether it lets entries in, and the wait for that.

The server tells how many entries may still come in each answer, and publishes it when it changes.
The newest is known by its number. What is known counts for as long as the client has closed nothing
since it told its totals, and for a second at most: then it tells them, and so asks anew. So each
client has inserted at most once without the server's knowledge.

Threads: any may call any method. `_lock` guards what is known; nothing waits while it is held.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from google.protobuf.message import DecodeError

from cogrs.api import replay_pb2 as pb
from cogrs.replay.net.deadline import SLICE, Deadline
from cogrs.replay.pubsub.topic_key import ALLOWANCE
from cogrs.replay.wait_clock import WaitClock
from cogrs.validation import check_count

if TYPE_CHECKING:
    from collections.abc import Callable

    from cogrs.replay.net.transport import Transport
    from cogrs.replay.pubsub.subscriber import Subscriber

_FRESH: Final = 1.0
"""Seconds for which a client goes by what it was told last, and for which it waits for an answer
while it waits to insert."""

_ANSWER: Final = 0.1
"""Seconds for which a call that is not to wait waits for the server's answer."""

_PUSHED: Final = 0.2
"""Seconds after which a client pushes to a starved learner again, if it was told nothing new."""


class GateCalls(NamedTuple):
    """What a gate has its client do; not kept, so that a client that is forgotten closes.

    Fields:
        closed: Returns how many steps the client has closed.
        report: Tells the server that number within so many seconds, and gives the answer to `take`.
        push: Pushes a cache; returns whether there was something to push.
    """

    closed: Callable[[], int]
    report: Callable[[float | None], object]
    push: Callable[[], bool]


class InsertGate:
    """What a client knows of its server's rate limiter."""

    def __init__(self, transport: Transport, subscriber: Subscriber | None) -> None:
        """Create it for a client; without a subscriber the server is asked again and again."""
        self._transport = transport
        self._subscriber = subscriber
        self._lock = threading.Lock()
        self._known: pb.Allowance | None = None
        """None: the server has no rate limiter, as far as it is known."""
        self._told_at = 0.0
        self._told_steps = -1
        """Steps that the server knew of when it answered last."""
        self.clock = WaitClock()
        """Seconds that calls have waited."""

    @property
    def is_limited(self) -> bool:
        """Whether the server has a rate limiter, as far as it is known."""
        return self._known is not None

    def take(self, answer: pb.Header, steps: int | None = None) -> None:
        """Take what an answer tells; `steps` are those that the request had told."""
        with self._lock:
            if steps is not None:
                self._told_steps = steps
            if answer.HasField("allowance"):
                self._take(answer.allowance)
            else:
                self._known = None
                return
        if self._subscriber is not None:
            # From now on, so that the first wait misses nothing.
            self._subscriber.newest(ALLOWANCE, None, 0)

    def forget(self) -> None:
        """Ask the server before the next insert: it is another one, to which totals are new."""
        with self._lock:
            self._told_at, self._told_steps = 0.0, -1

    def may_insert(self, calls: GateCalls, n: int) -> bool:
        """See `ReplayMemoryClient.may_insert`."""
        count = check_count("n", n)
        if not self._is_fresh(calls):
            calls.report(None)
        return self._has_room(count)

    def wait(self, calls: GateCalls, n: int, timeout: float | None) -> bool:
        """See `ReplayMemoryClient.wait_to_insert`."""
        check_count("n", n)
        deadline = Deadline.of("timeout", timeout)
        self._refresh(calls, deadline.within(_FRESH) or _ANSWER)
        if self._is_open(calls):
            return True
        with self.clock.running():
            return self._wait(calls, deadline)

    def _wait(self, calls: GateCalls, deadline: Deadline) -> bool:
        seen: bytes | None = None
        push_due = 0.0
        while not deadline.passed:
            with self._lock:
                is_starved = self._known is not None and self._known.starved
            if is_starved and time.monotonic() >= push_due:
                if not calls.push():
                    return True  # or else learner and actors would wait for each other for ever
                push_due = time.monotonic() + _PUSHED
            seen, before = self._news(seen, deadline.within(SLICE)), seen
            if seen != before:
                push_due = 0.0
            self._refresh(calls, deadline.within(_FRESH))
            if self._is_open(calls):
                return True
        return False

    def _news(self, seen: bytes | None, seconds: float) -> bytes | None:
        """Wait for what the server publishes, and take it."""
        if self._subscriber is None:
            self._transport.wait_closing(seconds)
            self._transport.check()
            with self._lock:
                self._told_at = 0.0
            return seen
        newest = self._subscriber.newest(ALLOWANCE, seen, seconds)
        if newest is not None and newest != seen:
            self._take_message(newest)
        return newest

    def _take_message(self, message: bytes) -> None:
        try:
            header = pb.Header.FromString(message)
        except DecodeError:
            return  # of the user, who has published to this topic
        with self._lock:
            # Only an answer says which server counts: messages of a former one may still be there.
            known = self._known
            if header.HasField("allowance") and known and header.allowance.server == known.server:
                self._take(header.allowance)

    def _take(self, new: pb.Allowance) -> None:
        known = self._known
        if known is None or known.server != new.server or known.number < new.number:
            self._known, self._told_at = new, time.monotonic()

    def _refresh(self, calls: GateCalls, seconds: float) -> None:
        """Ask the server unless what is known is fresh; one that does not answer may return."""
        if not self._is_fresh(calls):
            try:
                calls.report(seconds)
            except TimeoutError:
                self._transport.check()

    def _is_fresh(self, calls: GateCalls) -> bool:
        steps = calls.closed()
        with self._lock:
            if self._known is None:
                return True
            is_new = time.monotonic() - self._told_at < _FRESH
            return is_new and steps == self._told_steps

    def _is_open(self, calls: GateCalls) -> bool:
        return self._is_fresh(calls) and self._has_room(1)

    def _has_room(self, count: int) -> bool:
        with self._lock:
            known = self._known
            return known is None or not known.HasField("inserts") or known.inserts >= count
