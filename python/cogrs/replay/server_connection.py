"""A sampler's connection to one of its servers: its request under way, and the last replies.

At most one request is under way, on a DEALER. It is sent when there is a connection, to which it
then belongs: requests to a server that restarts are lost, so no request is sent twice.

Not thread-safe: the sampler locks.
"""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import zmq

from cogrs._core import cache_layout
from cogrs.api import replay_pb2 as pb
from cogrs.escape import escaped
from cogrs.limits import MOST_SAMPLES, PUBLICATION_PART, SMALL_FRAME
from cogrs.replay.net.deadline import SLICE
from cogrs.replay.net.request_socket import connect
from cogrs.replay.stats import ServerConnectionStats
from cogrs.replay.wire import WireError, decode, digest_of, encode, memory_like

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator

    from cogrs._core import ReplayMemory, SampleMixer
    from cogrs.replay.net.transport import Transport

PAUSE: Final = 0.05
"""Seconds until a server that had too few samples is asked again."""


class CacheLayout(NamedTuple):
    """The properties that all servers share whose samples go into one batch."""

    template: int  # digest of the templates
    flags: int  # of the cache, prev's state lowest
    frame_stack: int
    ids: bool
    nstep: bool

    @classmethod
    def of(cls, memory: ReplayMemory, sizes: pb.Sizes) -> CacheLayout:
        """Return the layout that a server's sizes describe, given the memory like its own."""
        flags, frame_stack, _ = cache_layout(memory)
        return cls(digest_of(memory), flags, frame_stack, sizes.ids, sizes.nstep)


class _Publication(NamedTuple):
    """A message to publish, of which each part goes when the one before has arrived."""

    number: int  # of the reply
    head: bytes  # of each part
    message: bytes


class ServerConnection:
    """A connection to a server's REP endpoint."""

    def __init__(self, transport: Transport, endpoint: str) -> None:
        """Do not connect yet."""
        self._transport = transport
        self.endpoint = endpoint
        self.sizes: pb.Sizes | None = None
        """The templates and settings of its memory; None before its first reply."""
        self.weight_sum: float | None = None  # of its last reply; None before
        self.unused = 0  # likewise
        self.shortage = ""  # why it gave nothing when it was last asked; empty if it did
        self.exact = False  # whether it had too few in the present call for rows ahead
        self.timeouts = 0  # requests that were given up
        self.published = 0  # the largest number of a message that it has published
        self.answered = False  # whether it ever did
        self.down = False  # whether batches are drawn without it
        self.agreed = False  # whether its layout was compared with that of the others
        self.told = False  # whether it told a sum in the present call
        self.limited = False  # whether it has a rate limiter
        self.most_samples = MOST_SAMPLES  # that it can ever give at once
        self._samples = 0
        self._socket: zmq.Socket[bytes] | None = None
        self._numbers = itertools.count(1)
        self._number = 0
        self._rows = 0
        self._more = 0
        """Those of them that are for later batches."""
        self._unsent: bytes | None = None
        self._since: float | None = None
        self._again = 0.0
        self._publication: _Publication | None = None
        self._sent = 0
        """Bytes of that."""

    @property
    def busy(self) -> bool:
        """Whether a request is under way."""
        return self._since is not None

    @property
    def unsent(self) -> bool:
        """Whether the request under way waits for a connection, and there never was a reply."""
        return self._unsent is not None and not self.answered

    @property
    def rests(self) -> bool:
        """Whether it had too few samples a moment ago."""
        return time.monotonic() < self._again

    def is_late(self, timeout: float | None) -> bool:
        """Return whether the request under way is older than so many seconds."""
        return (
            timeout is not None
            and self._since is not None
            and time.monotonic() - self._since >= timeout
        )

    def begin_call(self, timeout: float | None) -> None:
        """Start a call, in which the server has told nothing yet."""
        if self.is_late(timeout) and self._rows == 0:
            self.disconnect()  # asked long ago, and nothing is lost by asking again
        self.told = self.exact = False
        self.shortage = ""

    def ask_missing(self, sender: int, *, sums: bool) -> None:
        """Ask for its sizes, or if wanted for its sum, unless that is known."""
        if self.busy or self.rests:
            return
        if self.sizes is None:
            self._ask(encode(sender, sizes_request=pb.SizesRequest()), 0)
        elif sums and (not self.weight_sum or self.down):
            self.ask(sender, 0)

    def refresh(self, sender: int) -> None:
        """Ask for its sum unless it told that in this call, or is being asked."""
        if self.sizes is not None and not self.told:
            self.ask(sender, 0)

    def ask(self, sender: int, rows: int, more: int = 0) -> None:
        """Ask for so many samples, 0 for the sum alone, unless it is being asked or rests.

        `more` are asked for with them, unless the server has just had too few for that.
        """
        if self.busy or self.rests:
            return
        self._number = next(self._numbers)
        self._more = 0 if self.exact else more
        rows += self._more
        request = pb.SamplesRequest(rows=rows, number=self._number)
        self._ask(encode(sender, samples_request=request), rows)

    def ask_planned(self, sender: int, now: int, total: int, most: int) -> None:
        """Ask for the rows that a batch lacks, and with them for those of later batches.

        Args:
            sender: The sampler.
            now: Rows that the batch lacks.
            total: The same of all batches that are planned.
            most: Rows of one answer, at most.
        """
        most = min(most, self.most_samples)
        first = min(now, most)
        if first > 0 or (total > 0 and not self.exact):
            self.ask(sender, first, min(total, most) - first)

    def empty_memory(self) -> ReplayMemory:
        """Return a memory without room that is otherwise like the server's.

        Raises:
            RuntimeError: No memory can have its sizes; it will be asked for them again.
        """
        try:
            return memory_like(self.sizes or pb.Sizes(), 0, None, None)
        except RuntimeError as error:
            self.forget_sizes()
            raise RuntimeError(f"{self.endpoint}: {error}") from None

    def check_layout(self, layout: CacheLayout, samples: pb.Samples) -> None:
        """Refuse samples of another layout: disconnect, and raise a RuntimeError."""
        given = samples.template, samples.flags, samples.frame_stack, samples.ids, samples.nstep
        if given != layout:
            self.disconnect()
            raise RuntimeError(
                f"{self.endpoint} gives samples of other templates, cache_flags, frame_stack, ids "
                "or nstep than the first server had: make a new sampler"
            )

    def push_to(self, mixer: SampleMixer, at: int, rows: int, columns: list[Any]) -> None:
        """Give samples of server `at` to the mixer; disconnect, with a RuntimeError, if unsound."""
        try:
            mixer.push(at, rows, columns)
        except ValueError as error:
            self.disconnect()
            raise RuntimeError(f"{self.endpoint} gave invalid samples: {error}") from None
        self._samples += rows

    def send(self, *message: bytes) -> bool:
        """Send something without the bookkeeping of `ask`; return whether there was room."""
        try:
            self._connected().send_multipart((b"", *message), zmq.NOBLOCK, copy=False)
        except zmq.Again:
            return False
        except BaseException:
            self.disconnect()  # Ctrl-C may come between two parts
            raise
        return True

    def publish(self, sender: int, digest: bytes, message: bytes) -> int | None:
        """Ask the server to publish a message; return the number of the reply.

        None when it cannot be asked: it is not connected, or its sizes are not known.
        """
        if self.sizes is None:
            return None
        number = next(self._numbers)
        header = pb.Publish(digest=digest, size=len(message), number=number)
        self._publication = _Publication(number, encode(sender, publish=header), message)
        return number if self._send_part(0) else None

    def register(self, poller: zmq.Poller) -> None:
        """Register the socket with a poller, which then waits until this connection can go on."""
        if self._socket is not None:
            events = zmq.POLLIN if self._unsent is None else zmq.POLLIN | zmq.POLLOUT
            poller.register(self._socket, events)

    def replies(self) -> Iterator[tuple[pb.Samples, list[zmq.Frame]]]:
        """Send the request that waits, take the replies that came, and yield their samples.

        Raises:
            RuntimeError: A reply is not sound; the connection is given up.
        """
        self._send_unsent()
        while self._socket is not None:
            try:
                frames = self._transport.receive(self._socket)
            except zmq.Again:
                return
            except BaseException:
                self.disconnect()  # half a message is left there
                raise
            try:
                given = self._read(frames)
            except WireError as error:
                self.disconnect()
                raise RuntimeError(f"{self.endpoint} answered with {error}") from None
            if given is not None:
                yield given

    def give_up(self) -> None:
        """Give up the request under way, and count it."""
        self.timeouts += 1
        self.disconnect()

    def forget_sizes(self) -> None:
        """Disconnect, and ask for the sizes of its memory again next time."""
        self.disconnect()
        self.sizes = self.weight_sum = None
        self.agreed = False

    def replace(self, endpoint: str) -> None:
        """Ask another endpoint from now on, of which nothing is known; counts go on."""
        self.forget_sizes()
        self.endpoint = endpoint
        self.answered = self.told = self.limited = False
        self.shortage, self.most_samples, self._again = "", MOST_SAMPLES, 0.0

    def disconnect(self) -> None:
        """Give up the connection, and the request under way."""
        if self._socket is not None:
            self._socket.close(linger=0)
        self._socket = self._unsent = self._since = self._publication = None

    def stats(self, kept: int) -> ServerConnectionStats:
        """Return its figures."""
        return ServerConnectionStats(
            endpoint=self.endpoint,
            weight_sum=self.weight_sum,
            unused=self.unused,
            samples=self._samples,
            kept=kept,
            timeouts=self.timeouts,
            down=self.down,
        )

    def _ask(self, message: bytes, rows: int) -> None:
        self._connected()
        self._rows = rows
        self._unsent = message
        self._since = time.monotonic()
        self._send_unsent()

    def _send_unsent(self) -> None:
        if self._unsent is not None:
            message = self._unsent
            # Before it is sent: Ctrl-C may come in between, and nothing is to be asked twice.
            self._unsent = None
            if not self.send(message):
                self._unsent = message

    def _send_part(self, first: int) -> bool:
        """Send the next part of a message to publish; return whether there was room."""
        if self._publication is None or self.sizes is None:
            return False
        _, head, message = self._publication
        self._sent = end = min(first + PUBLICATION_PART, len(message))
        # Larger pieces would end the connection; every server takes pieces of a small frame.
        size = max(self.sizes.max_frame, SMALL_FRAME)
        pieces = [message[at : min(at + size, end)] for at in range(first, end, size)]
        return self.send(head, *pieces)

    def _connected(self) -> zmq.Socket[bytes]:
        if self._socket is None:
            self._socket = connect(zmq.DEALER, self._transport, "endpoints", self.endpoint)
        return self._socket

    def _read(self, frames: list[zmq.Frame]) -> tuple[pb.Samples, list[zmq.Frame]] | None:
        if len(frames) < 2 or len(frames[0]) > 0:
            raise WireError("something that is not an answer of cogrs")
        header = decode(frames[1])
        self.answered = True
        self._note_allowance(header)
        kind = header.WhichOneof("body")
        if kind == "refusal":
            self.disconnect()
            raise RuntimeError(f"{self.endpoint} refused: {escaped(header.refusal.reason)}")
        if kind == "priorities_reply":
            return None
        if kind in ("publish", "publish_reply"):
            self._continue_publishing(header)
            return None
        if kind not in ("sizes", "samples") or not self.busy:
            raise WireError(f"{kind or 'nothing'} that was not asked for")
        if kind == "sizes":
            self.sizes, self._since = header.sizes, None
            return None
        return self._read_samples(header.samples, len(frames) - 2), frames[2:]

    def _note_allowance(self, header: pb.Header) -> None:
        self.limited = header.HasField("allowance")
        most = header.allowance.most_samples if self.limited else 0
        self.most_samples = min(most, MOST_SAMPLES) or MOST_SAMPLES

    def _continue_publishing(self, header: pb.Header) -> None:
        """Send the next part of a message to publish, or note that it is published."""
        publication = self._publication
        if header.HasField("publish_reply"):
            self.published = max(self.published, header.publish_reply.number)
            if publication is not None and publication.number <= self.published:
                self._publication = None
        elif publication is not None and header.publish.number == publication.number:
            if header.publish.size != self._sent or self._sent == len(publication.message):
                raise WireError("a part of a message to publish that was not sent")
            self._send_part(self._sent)

    def _read_samples(self, samples: pb.Samples, columns: int) -> pb.Samples:
        expected = 0 if samples.shortage else self._rows
        told = samples.number, samples.rows, columns > 0
        if told != (self._number, expected, expected > 0):
            raise WireError("samples that were not asked for")
        # NaN compares as False.
        if not 0 <= samples.weight_sum < float("inf"):
            raise WireError("an invalid sum of weights")
        self._since, self.told = None, True
        self.weight_sum, self.unused = samples.weight_sum, samples.unused
        if samples.shortage and self._more > 0:
            self.exact = True  # it may have enough for this batch
            return samples
        self.shortage = escaped(samples.shortage) if self._rows > 0 else ""
        if self.shortage or samples.weight_sum == 0:
            self._again = time.monotonic() + PAUSE
        return samples


def close_connections(
    transport: Transport, lock: threading.Lock, servers: list[ServerConnection]
) -> None:
    """Close the connections of a sampler, whose calls hold the lock, and its transport."""
    if transport.begin_close():
        # Calls that wait see within a slice that it is closed.
        if lock.acquire(timeout=10 * SLICE):
            for server in servers:
                server.disconnect()
            lock.release()
        transport.finish_close()
