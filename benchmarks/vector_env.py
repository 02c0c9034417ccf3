"""`VectorEnv` beside Gymnasium's own vectors, in turn: steps per second, and their ratios."""

from __future__ import annotations

import statistics
import time
from typing import Any

import gymnasium
import numpy as np
import record
from timing import Job, in_turn

from cogrs import VectorEnv


class Slow(gymnasium.Env[Any, Any]):
    """Takes a millisecond per step, in which it waits or computes."""

    observation_space = gymnasium.spaces.Box(-1, 1, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, computes: bool = False) -> None:
        self.computes = computes

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Begin an episode."""
        super().reset(seed=seed)
        return np.zeros(4, np.float32), {}

    def step(self, _action: Any) -> Any:
        """Take the time."""
        if not self.computes:
            time.sleep(0.001)
        end = time.thread_time() + 0.001
        while self.computes and time.thread_time() < end:
            pass
        return np.zeros(4, np.float32), 0.0, False, False, {}


def beside(name: str, ours: VectorEnv, theirs: Any, steps: int) -> None:
    """Print steps per second of both, and the median of the ratios of all rounds."""
    count = ours.num_envs
    actions = np.ones(count, np.int64)

    def job(envs: Any) -> Job:
        envs.reset(seed=1)

        def run() -> None:
            for _ in range(steps):
                envs.step(actions)

        return Job(run, count * steps)

    rates = in_turn({"VectorEnv": job(ours), "Gymnasium": job(theirs)})
    ratios = [mine / its for mine, its in zip(rates["VectorEnv"], rates["Gymnasium"], strict=True)]
    ratio = statistics.median(ratios)
    record.keep([record.Figure(f"vector_env/{name}, to Gymnasium", "x", ratios)])
    rows = (f"{kind} {statistics.median(each):,.0f} steps/s" for kind, each in rates.items())
    print(f"  {name}: {', '.join(rows)}; {ratio:.2f}x the steps, {1 / ratio:.2f}x the time")
    ours.close()
    theirs.close()


def main() -> None:
    """Run all."""
    print("built-in CartPole beside Gymnasium's vectorized CartPole")
    for count in (16, 64, 256):
        theirs = gymnasium.make_vec("CartPole-v1", count, vectorization_mode="vector_entry_point")
        beside(f"{count} built-in", VectorEnv("cartpole", count), theirs, 200)
    print("Gymnasium's CartPole in Python beside SyncVectorEnv")
    for count in (1, 16, 64, 256):
        theirs = gymnasium.make_vec("CartPole-v1", count, vectorization_mode="sync")
        beside(
            f"{count} in Python", VectorEnv("CartPole-v1", count), theirs, max(2_000 // count, 5)
        )
    print("steps of 1 ms beside SyncVectorEnv, in two processes")
    for name, computes in (("8 that wait", False), ("8 that compute", True)):
        sync = gymnasium.vector.SyncVectorEnv([lambda computes=computes: Slow(computes)] * 8)
        ours = VectorEnv("vector_env:Slow", 8, processes=2, computes=computes)
        beside(name, ours, sync, 10)


if __name__ == "__main__":
    main()
