"""Figures of replay over the network on this machine: processes push, another receives."""

from __future__ import annotations

import multiprocessing
import statistics
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import record
import zmq
from throttle import throttled

import cogrs
from cogrs import _core

if TYPE_CHECKING:
    from collections.abc import Iterator

EMPTY = np.zeros(0, np.float32)
ZERO = np.float32(0)
ROUNDS = 5
SECONDS = 1.0
MOST_PROCESSES = 4


def serve(
    state: np.ndarray, cache_size: int, endpoint: str, n_caches: int = 16, **settings: object
) -> cogrs.ReplayMemoryServer:
    """A server with a worker of each kind."""
    templates = (state, np.int64(0), ZERO, ZERO, ZERO, ZERO, EMPTY)
    compress = settings.pop("compress", None)
    server = cogrs.ReplayMemoryServer(
        *templates, 0, "tcp://127.0.0.1:*", n_caches, seed=1, compress=compress
    )
    server.rem.cache_size = cache_size
    for name, value in settings.items():
        setattr(server.rem, name, value)
    return server.start(pull_endpoint=endpoint)


def push(endpoints: tuple[str, str, str], steps: int) -> None:
    """Fill a memory, and push caches until the process is ended."""
    client = cogrs.ReplayMemoryClient(*endpoints, max_step=steps, seed=2)
    state = client.rem.state_buf
    states = np.zeros((steps, *state.shape), state.dtype)
    if states.ndim == 3:
        # Frames as those of games: a still background, and eight blocks that move.
        rng = np.random.default_rng(0)
        states[:, 20:30] = 87
        for frame in states:
            for row, column in rng.integers(0, 76, (8, 2)):
                frame[row : row + 8, column : column + 8] = rng.integers(0, 256)
    zeros = np.zeros(steps, np.float32)
    info = np.zeros((steps, 0), np.float32)
    uniform = {"do_update_value": False, "do_update_weight": False}
    client.rem.add_episode(states, zeros.astype(int), zeros, zeros, zeros, info, 1.0, **uniform)
    while True:
        client.push_cache()


def push_by_threads(endpoints: tuple[str, str, str], steps: int, clients: int) -> None:
    """Push from several clients of one process."""
    for _ in range(clients - 1):
        threading.Thread(target=push, args=(endpoints, steps), daemon=True).start()
    push(endpoints, steps)


@contextmanager
def pushing(
    server: cogrs.ReplayMemoryServer,
    steps: int,
    clients: int = 1,
    push_endpoint: str | None = None,
) -> Iterator[None]:
    """Run client processes, each with its share of the clients."""
    pull = push_endpoint or server.pull_endpoint
    endpoints = (server.pub_endpoint, server.rep_endpoint, pull)
    count = min(clients, MOST_PROCESSES)
    args = (endpoints, steps, clients // count)
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=push_by_threads, args=args) for _ in range(count)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


def received(server: cogrs.ReplayMemoryServer, steps: int) -> float:
    """Caches a second from one client process: the median of some seconds."""
    with pushing(server, steps):
        while server.total_caches < 100:
            time.sleep(0.01)
        rates = []
        for _ in range(ROUNDS):
            count, start = server.total_caches, time.perf_counter()
            time.sleep(SECONDS)
            rates.append((server.total_caches - count) / (time.perf_counter() - start))
    return statistics.median(rates)


def plain_send(endpoint: str, size: int) -> None:
    """Push messages of so many bytes until the process is ended."""
    socket = zmq.Context().socket(zmq.PUSH)
    socket.connect(endpoint)
    message = bytes(size)
    while True:
        socket.send(message, copy=False)


def plain_rate(endpoint: str, size: int) -> float:
    """Messages a second that plain pyzmq carries between two processes."""
    with zmq.Context() as context, context.socket(zmq.PULL) as socket:
        socket.bind(endpoint)
        where = socket.getsockopt_string(zmq.LAST_ENDPOINT)
        spawn = multiprocessing.get_context("spawn")
        process = spawn.Process(target=plain_send, args=(where, size))
        process.start()
        try:
            rates = [messages_per_second(socket) for _ in range(ROUNDS + 1)]
            return statistics.median(rates[1:])
        finally:
            process.kill()
            process.join()


def messages_per_second(socket: zmq.Socket[bytes]) -> float:
    """Receive for a while."""
    socket.recv(copy=False)
    count, start = 0, time.perf_counter()
    while time.perf_counter() < start + SECONDS:
        socket.recv(copy=False)
        count += 1
    return count / (time.perf_counter() - start)


def pushes(name: str, state: np.ndarray, cache_size: int, **settings: object) -> None:
    """Figures of pushes over ipc and tcp."""
    with tempfile.TemporaryDirectory() as folder:
        for wire, endpoint in (
            ("ipc", f"ipc://{Path(folder) / 'pull'}"),
            ("tcp", "tcp://127.0.0.1:*"),
        ):
            with serve(state, cache_size, endpoint, **settings) as server:
                rate = received(server, 10_000)
                stack = server.rem.frame_stack
            row = 4 + 2 * (state.nbytes * stack + 8 + 4 * 4)
            volume = rate * row * cache_size / 1e9
            report(f"{name}, {wire}", rate * cache_size, f"transitions/s ({rate:,.0f} caches/s)")
            report(f"{name}, {wire}", volume, "GB/s of uncompressed columns")


def through(speed: float, **options: object) -> float:
    """Image caches per second from one client process, through a network of this speed."""
    image = np.zeros((84, 84), np.uint8)
    with (
        serve(image, 64, "tcp://127.0.0.1:*", frame_stack=4, **options) as server,
        throttled(server.pull_endpoint, speed) as endpoint,
        pushing(server, 10_000, push_endpoint=endpoint),
    ):
        # What fits into the buffers on the way is not held up.
        while server.total_caches < 10:
            time.sleep(0.01)
        before, start = server.total_caches, time.perf_counter()
        time.sleep(5 * SECONDS)
        return (server.total_caches - before) / (time.perf_counter() - start)


def networks() -> None:
    """Figures of plain and compressed pushes through slow networks."""
    for name, speed in (("100 Mbit/s", 1e8), ("1 Gbit/s", 1e9)):
        plain, packed = through(speed), through(speed, compress={"state": "lz4"})
        for codec, rate in (("plain", plain), ("lz4", packed)):
            report(f"image caches, 64 samples, {codec}, {name}", rate * 64, "transitions/s")
        report(f"image caches, lz4 / plain, {name}", packed / plain, "")


def crowd(clients: int) -> None:
    """Figures of many clients at once: what arrives in all, and how evenly."""
    with (
        serve(np.zeros(4, np.float32), 256, "tcp://127.0.0.1:*") as server,
        pushing(server, 1000, clients),
    ):
        while len(server.stats().clients) < clients:
            time.sleep(0.01)
        time.sleep(SECONDS)
        first = server.stats()
        time.sleep(ROUNDS * SECONDS)
        last = server.stats()
    seconds = last.taken_at - first.taken_at
    counts = [last.clients[each].caches - tally.caches for each, tally in first.clients.items()]
    report(f"{clients} clients, small caches, tcp", sum(counts) * 256 / seconds, "transitions/s")
    report(f"{clients} clients, fewest caches of one / most", min(counts) / max(counts), "")


def batches(name: str, n_caches: int, **settings: object) -> None:
    """The figure of `get_batch(256)` from small caches, for each of which there is one batch."""
    state = np.zeros(4, np.float32)
    with serve(state, 256, "tcp://127.0.0.1:*", n_caches=n_caches, **settings) as server:
        rates = []
        for _ in range(ROUNDS):
            fill(server, n_caches)
            rates.append(batch_rate(server, n_caches))
        report(f"get_batch(256), {name}", statistics.median(rates) * 256, "transitions/s")


def fill(server: cogrs.ReplayMemoryServer, count: int) -> None:
    """Wait for so many new caches from a process, and end that."""
    until = server.total_caches + count
    with pushing(server, 10_000):
        while server.total_caches < until:
            time.sleep(0.01)
    time.sleep(0.2)  # what is on the way still arrives


def batch_rate(server: cogrs.ReplayMemoryServer, count: int) -> float:
    """Batches a second."""
    start = time.perf_counter()
    for _ in range(count):
        server.get_batch(256)
    return count / (time.perf_counter() - start)


def report(name: str, value: float, unit: str) -> None:
    """Print one figure."""
    print(f"{name:55} {value:14,.2f} {unit}", flush=True)
    unit = unit.partition(" (")[0]
    record.keep([record.Figure(f"network/{name}, {unit or 'share'}", unit, [value])])


def main() -> None:
    """Print all figures."""
    if _core.__debug_build__:
        print("a debug build: these figures mean nothing")
    with tempfile.TemporaryDirectory() as folder:
        for wire, endpoint in (("ipc", f"ipc://{folder}/plain"), ("tcp", "tcp://127.0.0.1:*")):
            rate = plain_rate(endpoint, 1 << 20)
            report(f"plain pyzmq, messages of 1 MiB, {wire}", rate * (1 << 20) / 1e9, "GB/s")
    pushes("small caches, 256 samples", np.zeros(4, np.float32), 256)
    image = np.zeros((84, 84), np.uint8)
    pushes("image caches, 64 samples", image, 64, frame_stack=4)
    compress = {"state": "lz4"}
    pushes("image caches, 64 samples, lz4", image, 64, frame_stack=4, compress=compress)
    networks()
    for clients in (4, 64):
        crowd(clients)
    batches("caches used again", 200, reuse_cache=True)
    batches("each sample once", 200)


if __name__ == "__main__":
    main()
