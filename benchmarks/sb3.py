"""`cogrs.sb3.ReplayBuffer` beside the buffers of Stable-Baselines3.

    python benchmarks/sb3.py [--steps 20000]

Needs `pip install 'cogrs[sb3]'`. Microseconds of calls and of a step of whole runs, and memory.
Ratios count: both sides meet the same machine in turn. Targets: `add` and `sample` three times as
fast, a whole run no slower, images in a fifth of the memory.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import numpy as np
import record
import torch
from gymnasium import spaces
from stable_baselines3 import DQN
from stable_baselines3.common import buffers
from stable_baselines3.common.env_util import make_vec_env
from timing import Job, in_turn

from cogrs.sb3 import ReplayBuffer

CAPACITY = 100_000
SPACE = spaces.Box(-np.inf, np.inf, (4,), np.float32)
ACTIONS = spaces.Discrete(2)
IMAGES = spaces.Box(0, 255, (4, 84, 84), np.uint8)
CALLS = 500


def transitions(num_envs: int, count: int) -> list[tuple[Any, ...]]:
    """Return what `add` gets in a run of CartPole: episodes of 20 steps on average."""
    rng = np.random.default_rng(0)
    obs = rng.random((count + 1, num_envs, 4), np.float32)
    done = rng.random((count, num_envs)) < 0.05
    infos: list[dict[str, Any]] = [{"TimeLimit.truncated": False} for _ in range(num_envs)]
    action, reward = np.zeros(num_envs, np.int64), np.ones(num_envs, np.float32)
    return [(obs[at], obs[at + 1], action, reward, done[at], infos) for at in range(count)]


def pair(num_envs: int, n_step: int) -> dict[str, Any]:
    """Return their buffer and ours, full."""
    arguments: tuple[Any, ...] = (CAPACITY, SPACE, ACTIONS, "cpu", num_envs)
    if n_step == 1:
        theirs: Any = buffers.ReplayBuffer(*arguments)
    else:
        theirs = buffers.NStepReplayBuffer(*arguments, n_steps=n_step)
    made = {"SB3": theirs, "cogrs": ReplayBuffer(*arguments, n_step=n_step)}
    for buffer in made.values():
        for step in transitions(num_envs, CAPACITY // num_envs):
            buffer.add(*step)
    return made


def report(name: str, rates: dict[str, list[float]], target: float) -> None:
    """Print the microseconds of both, and how many times as fast ours is."""
    theirs, ours = (statistics.median(rates[side]) for side in ("SB3", "cogrs"))
    rounds = [one / other for one, other in zip(rates["cogrs"], rates["SB3"], strict=True)]
    record.keep([record.Figure(f"sb3/{name}, to SB3", "x", rounds)])
    figures = f"{1e6 / theirs:9.2f} us {1e6 / ours:9.2f} us"
    print(f"{name:32}{figures}{statistics.median(rounds):8.1f}x   target {target:g}x", flush=True)


def calls() -> None:
    """Time `add` and `sample`."""
    for num_envs in (1, 8):
        for n_step in (1, 3):
            made = pair(num_envs, n_step)
            steps = transitions(num_envs, CALLS)

            def add(buffer: Any, steps: list[Any] = steps) -> None:
                for step in steps:
                    buffer.add(*step)

            def sample(buffer: Any, size: int) -> None:
                for _ in range(50):
                    buffer.sample(size)

            what = f"{num_envs} envs, n_step {n_step}"
            jobs = {side: Job(lambda b=b: add(b), CALLS) for side, b in made.items()}
            report(f"add, {what}", in_turn(jobs), 3)
            for size in (32, 256):
                jobs = {side: Job(lambda b=b, k=size: sample(b, k), 50) for side, b in made.items()}
                report(f"sample {size}, {what}", in_turn(jobs), 3)


def runs(steps: int) -> None:
    """Time whole runs of DQN on CartPole."""
    for num_envs in (1, 8):
        rates: dict[str, list[float]] = {"SB3": [], "cogrs": []}
        for _ in range(3):
            for side, kind in (("SB3", None), ("cogrs", ReplayBuffer)):
                env = make_vec_env("CartPole-v1", num_envs, seed=0)
                model = DQN("MlpPolicy", env, replay_buffer_class=kind, device="cpu", seed=0)
                start = time.perf_counter()
                model.learn(steps)
                rates[side].append(steps / (time.perf_counter() - start))
        report(f"step of a DQN run, {num_envs} envs", rates, 1)


def memory() -> None:
    """Compare the bytes of buffers of stacked images."""
    arguments: tuple[Any, ...] = (10_000, IMAGES, ACTIONS, "cpu")
    theirs = buffers.ReplayBuffer(*arguments)
    ours = ReplayBuffer(*arguments, optimize_memory_usage=True)
    stack = np.zeros((1, 4, 84, 84), np.uint8)
    stack[0, 3] = 1
    done = np.array([False])
    ours.add(stack, np.roll(stack, -1, 1), np.array([0]), np.ones(1, np.float32), done, [{}])
    assert ours.memory is not None
    parts = theirs.observations, theirs.next_observations, theirs.actions, theirs.rewards
    bytes_of = {"SB3": sum(part.nbytes for part in parts), "cogrs": ours.memory.nbytes}
    ratio = bytes_of["SB3"] / bytes_of["cogrs"]
    figures = "".join(f"{size / 1e6:9.0f} MB" for size in bytes_of.values())
    print(f"{'10,000 stacks of 4 images':32}{figures}{ratio:8.1f}x   target 5x")


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20_000, help="steps of each whole run")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'':32}{'SB3':>12}{'cogrs':>13}")
    calls()
    runs(options.steps)
    memory()


if __name__ == "__main__":
    main()
