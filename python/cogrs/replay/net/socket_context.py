"""The sockets of one object: created, entered in loops, and closed, in one place.

Each object that communicates has a ZeroMQ context of its own. The code that created a socket closes
it: loops when the context is terminated, which wakes them; calls when they next look whether their
object is closed, ten times a second. So no call waits without a limit, and Ctrl-C works in all.

Threads: a socket is used by one thread at a time, either in a loop of its own or through a
`SharedSocket`. `closed` is only ever set; `_loops` and the condition `_loop_ended` belong together.
The context is terminated by a thread that waits ready for it, for while the interpreter shuts down
no thread can be started any more.

Calls that need a socket raise RuntimeError when the object is closed, and OSError when the process
has no file descriptors left.
"""

from __future__ import annotations

import itertools
import logging
import os
import threading
import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import zmq

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_logger = logging.getLogger("cogrs.replay")

IDLE_MS: Final = 500
"""Milliseconds that a loop waits for a message before it does other things."""

REQUEST_HWM: Final = 1000
"""Requests, or replies, that wait at a socket for each peer, at most.

A socket that replies drops messages that it has no room for, and counts those as waiting that were
read a moment ago (libzmq reports that in batches). So this is far more than a peer needs that reads
its replies.
"""

_LOOPS_END = 10.0
"""Seconds for loops to see that their context ends, before sockets are closed under them."""

_LINGER_MS = 1000
"""Milliseconds that a closed socket goes on sending.

Never 0 where messages have several frames: libzmq 4.3.5 ends the process when a connection breaks
while such a socket closes with a message half sent (session_base.cpp, clean_pipes).
"""

_KEEPALIVE_SECONDS = 5
"""The system asks a silent peer's machine this often; after three unanswered requests it is gone.

The system does, not ZeroMQ: libzmq 4.3.5 ends the process when a heartbeat is due on a connection
that broke while nobody read from it (stream_engine_base.cpp, out_event).
"""

_LARGEST_FRAME = (1 << 63) - 1
"""ZeroMQ's numbers are signed."""

_MOST_FRAMES = 300
"""No message of ours has more; of a longer one only so many are kept.

The longest is one to publish, in pieces of 1 MiB.
"""

_REQUEST_KINDS = (zmq.REQ, zmq.DEALER, zmq.ROUTER)

_DESCRIPTORS = 16
"""What a context with its first socket needs; libzmq ends the process when it gets fewer."""


class SocketContext:
    """One ZeroMQ context with its sockets."""

    def __init__(self, owner: str, frame_overhead: int = 0) -> None:
        """Create a context for the sockets of a class, the owner, which errors name.

        Frames are larger by `frame_overhead` bytes on their way than as sent.
        """
        self._owner = owner
        self._frame_overhead = frame_overhead
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._pid = os.getpid()
        self._sockets: weakref.WeakSet[zmq.Socket[bytes]] = weakref.WeakSet()
        self._monitors = itertools.count()
        self._loops: set[int] = set()
        self._loop_ended = threading.Condition()
        self._closing = threading.Event()
        self._all_closed = threading.Event()
        self._closer: threading.Thread | None = None
        self.closed = False

    def check_process(self) -> None:
        """Refuse a forked child, where a lock can stay locked for ever, with a RuntimeError."""
        if os.getpid() != self._pid:
            raise RuntimeError(
                f"this {self._owner} was created before a fork and cannot be used in the child: "
                "re-create it here, or start the process with multiprocessing's 'spawn'"
            )

    def check(self) -> None:
        """Refuse to work when closed, or in a forked child, with a RuntimeError."""
        self.check_process()
        if self.closed:
            raise RuntimeError(f"this {self._owner} is closed")

    def socket(
        self, kind: int, *, hwm: int, max_frame: int = -1, linger_ms: int = _LINGER_MS
    ) -> zmq.Socket[bytes]:
        """Create a socket, with at most `hwm` messages that wait in each direction for each peer.

        Sockets of requests have `REQUEST_HWM` instead. A peer that sends a frame of more bytes than
        `max_frame` is disconnected; -1 stands for no limit. A socket goes on sending for
        `linger_ms` after it was closed.
        """
        self.check()
        # Before there is a socket: without it a context ends here, and waits for sockets for ever.
        self._start_closer()
        probe_descriptors()
        try:
            created = self._context.socket(kind)
        except zmq.ZMQError as error:
            self.check()  # closed meanwhile
            raise OSError(error.errno, f"cannot make a socket: {error.strerror}") from None
        try:
            self._sockets.add(created)
            self._start_closer()
            created.set_hwm(REQUEST_HWM if kind in _REQUEST_KINDS else hwm)
            created.setsockopt(zmq.LINGER, linger_ms)
            overhead = self._frame_overhead if max_frame >= 0 else 0
            created.setsockopt(zmq.MAXMSGSIZE, min(max_frame + overhead, _LARGEST_FRAME))
            created.setsockopt(zmq.TCP_KEEPALIVE, 1)
            created.setsockopt(zmq.TCP_KEEPALIVE_IDLE, _KEEPALIVE_SECONDS)
            created.setsockopt(zmq.TCP_KEEPALIVE_INTVL, _KEEPALIVE_SECONDS)
            created.setsockopt(zmq.TCP_KEEPALIVE_CNT, 3)
        except BaseException:  # Ctrl-C, whose traceback would keep it open
            created.close(linger=0)
            raise
        return created

    def monitor(self, socket: zmq.Socket[bytes], events: int) -> zmq.Socket[bytes]:
        """Return a socket that receives events of another, which connects or binds after this call.

        libzmq's thread waits until its events are read, and for room. So the reader is there first
        and has room for all; call `disable_monitor` of the other socket before it is closed.
        """
        try:
            reader = self.socket(zmq.PAIR, hwm=0, linger_ms=0)
            name = f"inproc://cogrs.monitor-{next(self._monitors)}"
            reader.connect(name)
            socket.monitor(name, events)
        except BaseException:
            socket.close(linger=0)
            raise
        return reader

    @contextmanager
    def loop(self) -> Iterator[None]:
        """Register a loop of this thread: closing waits until it has ended."""
        me = threading.get_ident()
        with self._loop_ended:
            self._loops.add(me)
        try:
            yield
        except zmq.ZMQError:
            # Its sockets may be closed before it has begun.
            if not self.closed:
                raise
        finally:
            with self._loop_ended:
                self._loops.discard(me)
                self._loop_ended.notify_all()

    def begin_close(self) -> bool:
        """End all loops and waits; return whether there is something to close.

        A forked child closes nothing: sockets and locks are its parent's.
        """
        mine = os.getpid() == self._pid
        self.closed = self.closed or mine
        return mine

    def finish_close(self) -> None:
        """Wait until all sockets are closed, and have sent their messages or given up.

        The garbage collector may call this in any thread, a loop of this context among them:
        then this does not wait.
        """
        self._closing.set()
        if self._closer is None:
            self._context.term()
            return
        if threading.get_ident() in self._loops:
            return
        with self._loop_ended:
            self._loop_ended.wait_for(lambda: not self._loops, timeout=_LOOPS_END)
        for socket in list(self._sockets):
            socket.close()
        self.wait_closed()

    def abandon(self) -> None:
        """Close all, after the constructor of the owner failed."""
        self.begin_close()
        self.finish_close()

    def wait_closing(self, timeout: float | None) -> bool:
        """Wait until closing begins; return whether it has begun."""
        return self._closing.wait(timeout)

    def wait_closed(self) -> None:
        """Wait until closing is done.

        The wait is bounded, for libzmq's is not: where both sides of a connection close at the
        same time with messages of several frames on their way, 4.3.5 can wait for ever.
        """
        if os.getpid() != self._pid or self._closer is None:
            return
        if not self._all_closed.wait(3 * _LINGER_MS / 1000):
            _logger.warning("%s: ZeroMQ does not end its context; it is left alone", self._owner)

    def _start_closer(self) -> None:
        if self._closer is None:
            # It does not hold this object, so that one that is forgotten closes.
            args = (self._context, self._closing, self._all_closed)
            self._closer = threading.Thread(
                target=_terminate, args=args, name=f"cogrs-close-{self._owner}", daemon=True
            )
            self._closer.start()


def _terminate(
    context: zmq.Context[zmq.Socket[bytes]], closing: threading.Event, closed: threading.Event
) -> None:
    """Terminate a context when it is time, which wakes loops; it ends with its last socket."""
    closing.wait()
    context.term()
    closed.set()


def start_thread(name: str, run: Callable[..., object], *args: object) -> threading.Thread:
    """Start a daemon thread."""
    thread = threading.Thread(target=run, args=args, name=f"cogrs-{name}", daemon=True)
    thread.start()
    return thread


def is_ready(socket: zmq.Socket[bytes], event: int) -> bool:
    """Return whether a socket can send or receive now."""
    return bool(int(socket.get(zmq.EVENTS)) & event)


def receive(socket: zmq.Socket[bytes]) -> list[zmq.Frame]:
    """Take the next message, without copying its frames; a zmq.Again if no message has come."""
    frames = [socket.recv(zmq.NOBLOCK, copy=False)]
    while frames[-1].more:
        frames.append(socket.recv(copy=False))
        if len(frames) > _MOST_FRAMES:
            del frames[-2]
    return frames


def probe_descriptors() -> None:
    """Raise an OSError where libzmq would end the process, for lack of file descriptors."""
    found: list[int] = []
    try:
        while len(found) < _DESCRIPTORS:
            found.append(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        text = f"cannot make a socket: {error.strerror} (see 'ulimit -n')"
        raise OSError(error.errno, text) from None
    finally:
        for descriptor in found:
            os.close(descriptor)
