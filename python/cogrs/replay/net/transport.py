"""The sockets of one object: made, waited for and closed in one place."""

from __future__ import annotations

import errno
import itertools
import logging
import os
import threading
import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING

import zmq

from cogrs.listener import check_listener
from cogrs.replay.endpoint import Bind, attach, keep_for_owner
from cogrs.replay.net.authenticator import Authenticator
from cogrs.replay.net.connection_monitor import ConnectionMonitor, ReceiveQuota, WatchedSocket
from cogrs.replay.net.curve import CLIENTS, FRAME_OVERHEAD
from cogrs.replay.wire import REQUEST_HWM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cogrs.replay.endpoint import Mode
    from cogrs.replay.net.curve import Curve

_logger = logging.getLogger("cogrs.replay")

_IDLE_MS = 500
"""For so long a worker waits for a message before it looks after other things."""

_MOST_FRAMES = 300
"""No message of ours has more; of a longer one only so many are kept.

The longest is one to publish, in pieces of 1 MiB.
"""

_LINGER_MS = 1000
"""For so long a closed socket goes on sending what it was given.

Never 0 where messages have several frames: libzmq 4.3.5 ends the process when a connection breaks
while such a socket closes with a message half sent (session_base.cpp, clean_pipes).
"""

_HEARTBEAT_MS = 5000
"""A peer that is silent for three of these is gone, whatever TCP believes."""

_HANDSHAKE_MS = 10_000
"""For so long a connection without keys may be silent at its beginning."""

_LARGEST_FRAME = (1 << 63) - 1
"""ZeroMQ's numbers are signed."""

_OF_REQUESTS = (zmq.REQ, zmq.DEALER, zmq.ROUTER)

_DESCRIPTORS = 16
"""What a context with its first socket needs; libzmq ends the process when it gets fewer."""


class Transport:
    """One ZeroMQ context with its sockets.

    Sockets are used in loops, entered by `loop`, which end when `closed` is set; or through a
    `SharedSocket`, or before anybody else knows them. Closing waits for the loops, closes what is
    left, and waits until all is sent.
    """

    def __init__(self, owner: str, curve: Curve | None = None, *, insecure: bool = False) -> None:
        """Name the class whose sockets these are, for its errors; keys are for all of them.

        Without keys they listen only where the system keeps others out, unless `insecure`.

        Raises:
            TypeError: `insecure` is neither True nor False.
        """
        if not isinstance(insecure, bool):
            raise TypeError(f"insecure: expected True or False, got {type(insecure).__name__}")
        self._owner = owner
        self._curve = curve
        self._insecure = insecure
        self._guard: Authenticator | None = None
        self._connections: ConnectionMonitor | None = None
        self._intakes: weakref.WeakKeyDictionary[zmq.Socket[bytes], ReceiveQuota] = (
            weakref.WeakKeyDictionary()
        )
        self._connections_lock = threading.Lock()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._pid = os.getpid()
        self._sockets: weakref.WeakSet[zmq.Socket[bytes]] = weakref.WeakSet()
        self._bound: weakref.WeakValueDictionary[str, zmq.Socket[bytes]] = (
            weakref.WeakValueDictionary()
        )
        self._monitors = itertools.count()
        self._loops: set[int] = set()
        self._loop_ended = threading.Condition()
        self._closing = threading.Event()
        self._all_closed = threading.Event()
        self._ender: threading.Thread | None = None
        self.closed = False

    @property
    def hint(self) -> str:
        """What a wait that ended without a connection may have to do with keys."""
        if self._curve is None:
            why = "it may want keys, and this client has none"
        else:
            why = "it may have no keys, or another than server_key, or not allow this client's key"
        return f" (there is no connection; if the server is there, {why})"

    def check_process(self) -> None:
        """Refuse to work in a forked child, where a lock can stay locked for ever.

        Raises:
            RuntimeError: In a forked child.
        """
        if os.getpid() != self._pid:
            raise RuntimeError(
                f"this {self._owner} was created before a fork and cannot be used in the child: "
                "re-create it here, or start the process with multiprocessing's 'spawn'"
            )

    def check(self) -> None:
        """Refuse to work when closed, or in a forked child.

        Raises:
            RuntimeError: One of both.
        """
        self.check_process()
        if self.closed:
            raise RuntimeError(f"this {self._owner} is closed")

    def socket(
        self, kind: int, *, hwm: int, max_frame: int = -1, linger_ms: int = _LINGER_MS
    ) -> zmq.Socket[bytes]:
        """Make a socket.

        Args:
            kind: Its ZeroMQ type.
            hwm: Messages that wait in each direction for each peer, at most. Sockets of requests
                have `REQUEST_HWM` instead.
            max_frame: A peer that sends a larger frame is disconnected; -1 for no limit.
            linger_ms: For so long it goes on sending when it is closed.

        Raises:
            OSError: The process has no file descriptors left.
            RuntimeError: Closed.
        """
        self.check()
        # Before there is a socket: without it a context ends here, and waits for sockets for ever.
        self._start_ender()
        _probe_descriptors()
        try:
            made = self._context.socket(kind)
        except zmq.ZMQError as error:
            self.check()  # closed meanwhile
            raise OSError(error.errno, f"cannot make a socket: {error.strerror}") from None
        try:
            self._sockets.add(made)
            self._start_ender()
            made.set_hwm(REQUEST_HWM if kind in _OF_REQUESTS else hwm)
            made.setsockopt(zmq.LINGER, linger_ms)
            # libzmq compares with what comes from the network, which is the enciphered frame.
            overhead = FRAME_OVERHEAD if self._curve and max_frame >= 0 else 0
            made.setsockopt(zmq.MAXMSGSIZE, min(max_frame + overhead, _LARGEST_FRAME))
            made.setsockopt(zmq.HEARTBEAT_IVL, _HEARTBEAT_MS)
            made.setsockopt(zmq.HEARTBEAT_TIMEOUT, 3 * _HEARTBEAT_MS)
        except BaseException:  # Ctrl-C, whose traceback would keep it open
            made.close(linger=0)
            raise
        return made

    def monitor(self, socket: zmq.Socket[bytes], events: int) -> zmq.Socket[bytes]:
        """Return a socket that is told of events of another, which connects after this call.

        libzmq's thread waits for a reader of what it reports: call `disable_monitor` of the other
        socket before the returned one is closed.

        Raises:
            OSError: The process has no file descriptors left.
            RuntimeError: Closed.
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

    def guard(self) -> None:
        """Ask of each connection, from now on, whether its key is allowed. Without keys: nothing.

        To be called before a socket binds.

        Raises:
            OSError: The process has no file descriptors left.
            RuntimeError: Closed.
        """
        if self._curve is not None and self._curve.allowed is not None:
            self._guard = Authenticator(self, self._curve.allowed)

    @property
    def has_keys(self) -> bool:
        """Whether peers are known by their keys."""
        return self._curve is not None

    def attach(
        self,
        socket: zmq.Socket[bytes],
        name: str,
        endpoint: str,
        mode: Mode,
        domain: str = CLIENTS,
        *,
        intake: ReceiveQuota | None,
        heard: Callable[[str, int], object] | None = None,
    ) -> str:
        """Bind or connect a socket of this transport, and return where; it is closed on failure.

        Args:
            socket: The socket.
            name: The argument that the endpoint was given as.
            endpoint: Where.
            mode: Which of both.
            domain: Who may connect when there are keys.
            intake: How much of a connection may wait; where more does it is ended. None for a
                socket that has a monitor of its own.
            heard: Called with the endpoint and events of the socket, in another thread.

        Raises:
            ValueError: Others than this machine's users could connect, and there are no keys.
            OSError: The system refuses, or the endpoint is bound here already.
        """
        try:
            if mode == Bind:
                self._check_listener(name, endpoint)
            other = self._bound.get(endpoint)
            # ZeroMQ would take an ipc endpoint away from the socket that has it.
            if mode == Bind and other is not None and not other.closed:
                raise OSError(
                    errno.EADDRINUSE,
                    f"{name}: {endpoint} is bound by this {self._owner} already. Several workers "
                    "share an endpoint behind a proxy: rep_proxy_main or pull_proxy_main",
                )
            _probe_descriptors()
            self._secure(socket, mode, domain)
            if mode == Bind and self._guard is not None:
                heard = self._guard.heard
            watched = None
            if intake is not None and not endpoint.startswith("inproc:"):
                watched = WatchedSocket(endpoint, intake, heard)
                self._watch(socket, watched)
            where = attach(socket, name, endpoint, mode)
            if watched is not None:
                watched.endpoint = where
            if mode == Bind and self._curve is None and not self._insecure:
                keep_for_owner(where)
        except BaseException:
            socket.close(linger=0)
            raise
        if mode == Bind:
            self._bound[where] = socket
        return where

    def _check_listener(self, name: str, endpoint: str) -> None:
        missing = () if self._curve is not None else ("key", "allow")
        check_listener(name, endpoint, missing, insecure=self._insecure)

    def _secure(self, socket: zmq.Socket[bytes], mode: Mode, domain: str) -> None:
        if self._curve is not None:
            self._curve.apply(socket, mode, domain)
        elif mode == Bind:
            socket.setsockopt(zmq.HANDSHAKE_IVL, _HANDSHAKE_MS)

    def _watch(self, socket: zmq.Socket[bytes], watched: WatchedSocket) -> None:
        with self._connections_lock:
            if self._connections is None:
                self._connections = ConnectionMonitor(self)
        if watched.endpoint.startswith("tcp:"):  # of others nobody tells what has come
            self._intakes[socket] = watched.intake
        self._connections.watch(socket, watched)

    def receive(self, socket: zmq.Socket[bytes]) -> list[zmq.Frame]:
        """Take the message that is there, without copying its frames.

        Raises:
            zmq.Again: There is none.
        """
        return _take(socket, self._intakes.get(socket))

    def trust(self, socket: zmq.Socket[bytes], frames: list[zmq.Frame]) -> None:
        """Let more wait of the connection that a message has come from."""
        intake = self._intakes.get(socket)
        if intake is not None:
            intake.trust(frames[-1])

    @contextmanager
    def loop(self) -> Iterator[None]:
        """Mark a loop in this thread, for closing to wait until it has ended."""
        me = threading.get_ident()
        with self._loop_ended:
            self._loops.add(me)
        try:
            yield
        except zmq.ZMQError:
            # Its sockets may go before it has begun.
            if not self.closed:
                raise
        finally:
            with self._loop_ended:
                self._loops.discard(me)
                self._loop_ended.notify_all()

    def messages(self, socket: zmq.Socket[bytes]) -> Iterator[list[zmq.Frame] | None]:
        """Yield what comes in, and None now and then, until this transport is closed."""
        intake = self._intakes.get(socket)
        while not self.closed:
            try:
                yield _take(socket, intake)
            except zmq.Again:
                if not socket.poll(_IDLE_MS):
                    yield None

    def begin_close(self) -> bool:
        """Let all that loops and waits end; tell whether there is something to close.

        A forked child closes nothing: sockets and locks are its parent's.
        """
        mine = os.getpid() == self._pid
        self.closed = self.closed or mine
        return mine

    def finish_close(self) -> None:
        """Wait until all sockets are closed, and have sent what they were given or given it up.

        The garbage collector may call this in any thread, a loop of this transport among them:
        then nothing is waited for.
        """
        self._closing.set()
        if self._ender is None:
            self._context.term()
            return
        if threading.get_ident() in self._loops:
            return
        with self._loop_ended:
            self._loop_ended.wait_for(lambda: not self._loops, timeout=_LINGER_MS / 1000)
        for socket in list(self._sockets):
            socket.close()
        self.wait_closed()

    def abandon(self) -> None:
        """Close what an object made that could not be made whole."""
        self.begin_close()
        self.finish_close()

    def wait_closed(self) -> None:
        """Wait until closing is done.

        The wait has an end, for libzmq's has none: where both sides of a connection close at the
        same time with messages of several frames on their way, 4.3.5 can wait for ever.
        """
        if os.getpid() != self._pid or self._ender is None:
            return
        if not self._all_closed.wait(3 * _LINGER_MS / 1000):
            _logger.warning("%s: ZeroMQ does not end its context; it is left alone", self._owner)

    def _start_ender(self) -> None:
        # While the interpreter shuts down no thread can be started any more, so it waits ready.
        if self._ender is None:
            args = (self._context, self._closing, self._all_closed)
            self._ender = threading.Thread(
                target=_end, args=args, name=f"cogrs-close-{self._owner}", daemon=True
            )
            self._ender.start()


def _end(
    context: zmq.Context[zmq.Socket[bytes]], closing: threading.Event, closed: threading.Event
) -> None:
    """End a context when it is time, which wakes loops; it ends with its last socket."""
    closing.wait()
    context.term()
    closed.set()


def is_ready(socket: zmq.Socket[bytes], event: int) -> bool:
    """Tell whether a socket can send or receive now."""
    return bool(int(socket.get(zmq.EVENTS)) & event)


def receive(socket: zmq.Socket[bytes]) -> list[zmq.Frame]:
    """Take the message that is there, without copying its frames.

    Raises:
        zmq.Again: There is none.
    """
    frames = [socket.recv(zmq.NOBLOCK, copy=False)]
    while frames[-1].more:
        frames.append(socket.recv(copy=False))
        if len(frames) > _MOST_FRAMES:
            del frames[-2]
    return frames


def _take(socket: zmq.Socket[bytes], intake: ReceiveQuota | None) -> list[zmq.Frame]:
    if intake is None:
        return receive(socket)
    try:
        frames = receive(socket)
    except zmq.Again:
        intake.times_empty += 1
        raise
    intake.took(frames)
    return frames


def _probe_descriptors() -> None:
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
