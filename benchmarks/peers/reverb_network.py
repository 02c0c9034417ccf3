"""Figures of dm-reverb over the network, in the rows of `replay_network.py`.

It needs TensorFlow 2.15, hence an environment of its own, and runs there without this package:
`python -m venv .venvs/reverb`, `.venvs/reverb/bin/pip install 'dm-reverb[tensorflow]'`, and
`.venvs/reverb/bin/python benchmarks/peers/reverb_network.py`.
"""

from __future__ import annotations

import multiprocessing
import statistics
import time

import numpy as np
import reverb

ROUNDS = 5
SECONDS = 1.0


def push(port: int, shape: tuple[int, ...], dtype: str) -> None:
    """Insert transitions, prioritized, until the process is ended."""
    client = reverb.Client(f"localhost:{port}")
    state = np.zeros(shape, dtype)
    step = {"state": state, "action": np.int64(0), "reward": np.float32(0)}
    with client.trajectory_writer(num_keep_alive_refs=2) as writer:
        while True:
            writer.append(step)
            if writer.episode_steps > 1:
                pair = {name: column[-2:] for name, column in writer.history.items()}
                writer.create_item("table", priority=1.0, trajectory=pair)
                writer.flush(block_until_num_items=32)


def inserted(client: reverb.Client) -> int:
    """Items that the table has taken."""
    return client.server_info()["table"].rate_limiter_info.insert_stats.completed


def figure(name: str, shape: tuple[int, ...], dtype: str, size: int) -> None:
    """Print how many transitions a second one process inserts."""
    table = reverb.Table(
        "table",
        sampler=reverb.selectors.Prioritized(0.6),
        remover=reverb.selectors.Fifo(),
        max_size=size,
        rate_limiter=reverb.rate_limiters.MinSize(1),
    )
    server = reverb.Server([table])
    client = reverb.Client(f"localhost:{server.port}")
    spawn = multiprocessing.get_context("spawn")
    process = spawn.Process(target=push, args=(server.port, shape, dtype))
    process.start()
    try:
        while inserted(client) < 100:
            time.sleep(0.01)
        rates = []
        for _ in range(ROUNDS):
            count, start = inserted(client), time.perf_counter()
            time.sleep(SECONDS)
            rates.append((inserted(client) - count) / (time.perf_counter() - start))
    finally:
        process.kill()
        process.join()
        server.stop()
    print(f"{name:55} {statistics.median(rates):14,.2f} transitions/s", flush=True)


def main() -> None:
    """Print all figures."""
    figure("small states, one process", (4,), "float32", 4096)
    # One frame a step: Reverb keeps each step once, and puts stacks together when it samples.
    figure("images, one process", (84, 84), "uint8", 1024)


if __name__ == "__main__":
    main()
