"""Servers, clients and raw sockets that the tests share: all real, on ports that are free."""

import contextlib
import errno
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import zmq

from cogrs import ReplayMemoryClient, ReplayMemoryServer, ReplaySampler
from cogrs._core import draw_cache
from cogrs.api import replay_pb2 as pb
from cogrs.replay.wire import digest_of, encode
from tests.ports import unused_ports
from tests.program import command
from tests.replay import build
from tests.replay.model import FIELDS

LOOPBACK = "tcp://127.0.0.1:*"
SLACK = 30.0
"""Seconds after which something that takes a second at most has failed."""
_OPTIONS = (
    "uuid",
    "seed",
    "hwm",
    "pub_hwm",
    "log_seconds",
    "ids",
    "nstep",
    "sequences",
    "recurrent",
    "recurrent_period",
    "compress",
    "max_bytes",
    "storage",
    "key",
    "allow",
    "allow_samplers",
    "insecure",
    "limiter",
)


def made(
    n_caches: int = 2, *, max_step: int = 0, pub_endpoint: str = LOOPBACK, **changes: Any
) -> ReplayMemoryServer:
    """A server without workers; changes are templates by their letter, options, or settings."""
    templates = [changes.pop(name, build.TEMPLATES[name]) for name in FIELDS]
    options = {name: changes.pop(name) for name in _OPTIONS if name in changes}
    server = ReplayMemoryServer(*templates, max_step, pub_endpoint, n_caches, **options)
    for name, value in changes.items():
        setattr(server.rem, name, value)
    return server


def started(n_caches: int = 2, **changes: Any) -> ReplayMemoryServer:
    """A server with a worker of each kind."""
    return made(n_caches, **changes).start()


def restarted(before: ReplayMemoryServer, n_caches: int = 2, **changes: Any) -> ReplayMemoryServer:
    """A server at the endpoints of another that was closed."""
    again = made(n_caches, pub_endpoint=before.pub_endpoint, **changes)
    return again.start(before.rep_endpoint, before.pull_endpoint)


def endpoints(server: ReplayMemoryServer) -> tuple[str, str, str]:
    """The endpoints in the order in which a client takes them."""
    return server.pub_endpoint, server.rep_endpoint, server.pull_endpoint


def connected(
    server: ReplayMemoryServer, max_step: int | None = 64, **options: Any
) -> ReplayMemoryClient:
    """A client of a server."""
    return ReplayMemoryClient(*endpoints(server), max_step=max_step, **options)


@contextmanager
def pair(
    n_caches: int = 2, **changes: Any
) -> Iterator[tuple[ReplayMemoryServer, ReplayMemoryClient]]:
    """A server and a client of it."""
    with started(n_caches, **changes) as server, connected(server) as client:
        yield server, client


@contextmanager
def full_pair(
    n_caches: int = 2, **changes: Any
) -> Iterator[tuple[ReplayMemoryServer, ReplayMemoryClient]]:
    """A server and a client of it with an episode of 20 steps."""
    with pair(n_caches, **changes) as (server, client):
        build.add_uniform(client.rem, 20)
        yield server, client


def push_for_ever(client: ReplayMemoryClient) -> None:
    """Push caches until that is refused."""
    while True:
        client.push_cache()


def push_all(client: ReplayMemoryClient) -> None:
    """Push all that can be drawn, however long the server takes."""
    while True:
        with contextlib.suppress(TimeoutError):
            if client.push_cache() == -1:
                return


def deaf(**options: Any) -> ReplayMemoryClient:
    """A client of a server that is not there."""
    return ReplayMemoryClient(*unused_endpoints(3), timeout=options.pop("timeout", 0.2), **options)


def unused_endpoints(count: int) -> list[str]:
    """Endpoints at which nobody listens."""
    return [f"tcp://127.0.0.1:{port}" for port in unused_ports(count)]


@contextmanager
def raw(kind: int, endpoint: str) -> Iterator[zmq.Socket[bytes]]:
    """A socket of ZeroMQ's own."""
    with zmq.Context() as context, context.socket(kind) as socket:
        socket.linger = 2000
        socket.rcvtimeo = int(SLACK * 1000)
        socket.connect(endpoint)
        yield socket


def cache_message(client: ReplayMemoryClient, **changes: Any) -> list[bytes]:
    """The frames of a cache; changes are fields of its header, `frames` or `sender`."""
    rows, weight_sum, flags, frame_stack, frames = draw_cache(client.rem)
    fields = {
        "rows": rows,
        "weight_sum": weight_sum,
        "template": digest_of(client.rem),
        "flags": flags,
        "frame_stack": frame_stack,
    }
    frames = changes.pop("frames", lambda given: given)([bytes(frame) for frame in frames])
    sender = changes.pop("sender", client.uuid)
    return [encode(sender, cache=pb.Cache(**fields | changes)), *frames]


def eventually(holds: Callable[[], Any], within: float = SLACK) -> None:
    """Wait until something holds, and fail when it never does."""
    end = time.monotonic() + within
    while not holds():
        assert time.monotonic() < end, "it never held"
        time.sleep(0.005)


def once_free(bind: Callable[[], Any]) -> Any:
    """Bind where a socket was closed just now: ZeroMQ frees the port a moment later."""
    end = time.monotonic() + SLACK
    while True:
        try:
            return bind()
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() > end:
                raise
            time.sleep(0.005)


def arrived(server: ReplayMemoryServer, caches: int) -> None:
    """Wait until so many caches have arrived."""
    eventually(lambda: server.total_caches >= caches)


class Call:
    """A call on a thread of its own, and what comes of it."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._result: Any = None
        self._error: BaseException | None = None
        self._call = call
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result = self._call()
        except Exception as error:
            self._error = error

    def blocks(self, for_seconds: float = 0.1) -> bool:
        """Whether it goes on for a while."""
        self._thread.join(for_seconds)
        return self._thread.is_alive()

    def result(self, within: float = SLACK) -> Any:
        """What it returned, or raise what it raised."""
        self._thread.join(within)
        assert not self._thread.is_alive(), "it never returned"
        if self._error is not None:
            raise self._error
        return self._result


def our_threads() -> set[threading.Thread]:
    """Threads that servers and clients have started."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("cogrs-")}


def resident_bytes() -> int:
    """Memory that this process uses."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def assert_consistent(batch: Any) -> None:
    """All fields of each row hold the same step, and next is the step after."""
    for side, later in ((batch.prev, 0), (batch.next, 1)):
        for field in (side.a, side.r, side.p, side.v, side.i):
            np.testing.assert_array_equal(field, batch.prev.s[:, -1] + later)


def assert_serves(server: ReplayMemoryServer, client: Any) -> None:
    """The workers of a server still do what they are for."""
    before = server.total_caches
    client.update_counter()
    assert client.push_cache() == 0
    arrived(server, before + 1)
    assert_consistent(server.get_batch(1, wait=SLACK))


def run(script: str, *args: str, within: float = 60) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own."""
    return subprocess.run(
        command(script, *args),
        capture_output=True,
        text=True,
        timeout=within,
        check=False,
    )


def launch(script: str, *args: str) -> subprocess.Popen[str]:
    """Start Python in a process of its own, to talk with by lines."""
    return subprocess.Popen(
        command(script, *args, options=("-u",)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def said(process: subprocess.Popen[str], line: str) -> None:
    """Wait for a line of a process that was launched."""
    got = process.stdout.readline()
    assert got == line + "\n", got + process.communicate(timeout=SLACK)[1]


@contextmanager
def ended(processes: Sequence[subprocess.Popen[str]]) -> Iterator[None]:
    """Kill at the end what still runs."""
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def is_exhausted(sampler: ReplaySampler[Any]) -> bool:
    """Whether servers have no sample that was not given yet; otherwise one is taken."""
    try:
        sampler.get_batch(1)
    except RuntimeError as error:
        return "insufficient caches: have 0 unused" in str(error)
    return False
