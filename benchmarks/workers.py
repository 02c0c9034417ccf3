"""What one policy for many trials brings, and what storing their steps costs.

    python benchmarks/workers.py [--trials 32] [--seconds 5]

CartPole trials, all in one process without sockets between the parts. `batched` answers them by an
`ActorWorker`, `one by one` by agents that each call the policy, which takes a millisecond a call
however many states it is given. `random, stored` and `random, not stored` have no such policy.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from contextlib import ExitStack, suppress
from typing import Any

import gymnasium
import numpy as np

from cogrs import ReplayMemoryClient, ReplayMemoryServer, orchestrator, sdk
from cogrs.workers import STEP_INFO, ActorWorker, Decision

CALL = 1e-3
"""Seconds of a call of the policy."""


class Policy:
    """Acts at random, and counts its calls."""

    def __init__(self, seconds: float) -> None:
        """Take so many seconds a call."""
        self.seconds = seconds
        self.calls = 0
        self.rng = np.random.default_rng(0)

    def __call__(self, states: np.ndarray) -> Decision:
        """Decide."""
        self.calls += 1
        if self.seconds:
            time.sleep(self.seconds)
        k = len(states)
        return Decision(self.rng.integers(2, size=k), np.full(k, 0.5), np.zeros(k))


class Counted(sdk.GymnasiumEnvironment):
    """Counts the ticks of all trials."""

    inline = True
    ticks = 0

    def step(self, actions: Any) -> sdk.Update:
        """Step."""
        Counted.ticks += 1
        return super().step(actions)


def one_by_one(policy: Policy) -> sdk.FunctionAgent:
    """Return agents that call the policy each for itself."""
    return sdk.FunctionAgent(lambda seen: policy(seen.value[None]).action[0], inline=True)


async def rate(agents: Any, policy: Policy, trials: int, seconds: float) -> tuple[float, float]:
    """Return ticks a second, and calls of the policy a tick."""
    local = {
        "cartpole": sdk.local_environments(
            {"": lambda: Counted(lambda: gymnasium.make("CartPole-v1"))}
        ),
        "policy": sdk.local_agents({"": agents}),
    }
    actor = {"name": "player", "actor_class": "player", "endpoint": "local://policy"}
    params = {"environment": {"endpoint": "local://cartpole"}, "actors": [actor]}
    async with (
        await orchestrator.serve({"trial_params": params}, port=0, local=local) as server,
        sdk.TrialController(f"127.0.0.1:{server.port}") as controller,
    ):
        playing = asyncio.create_task(keep_playing(controller, trials))
        await asyncio.sleep(1)
        start, ticks, calls = time.perf_counter(), Counted.ticks, policy.calls
        await asyncio.sleep(seconds)
        passed, done = time.perf_counter() - start, Counted.ticks - ticks
        calls = policy.calls - calls
        playing.cancel()
        with suppress(asyncio.CancelledError):
            await playing
    return done / passed, calls / max(done, 1)


async def keep_playing(controller: sdk.TrialController, trials: int) -> None:
    """Keep so many trials running."""
    running = {(await controller.start_trial()).id for _ in range(trials)}
    async for trial_id, _ in controller.watch_trials([sdk.TrialState.ENDED]):
        if trial_id in running:
            running.remove(trial_id)
            running.add((await controller.start_trial()).id)


def measure(seconds_of_call: float, batched: bool, trials: int, seconds: float) -> Any:
    """Measure one way of answering."""
    policy = Policy(seconds_of_call)
    if not batched:
        return asyncio.run(rate(one_by_one(policy), policy, trials, seconds))
    scalar = np.float32(0)
    info = np.zeros((), STEP_INFO)
    templates = (np.zeros(4, np.float32), np.int64(0), scalar, scalar, scalar, scalar, info)
    with ExitStack() as stack:
        server = stack.enter_context(
            ReplayMemoryServer(*templates, 0, "tcp://127.0.0.1:*", 32).start()
        )
        endpoints = server.pub_endpoint, server.rep_endpoint, server.pull_endpoint
        client = stack.enter_context(ReplayMemoryClient(*endpoints, max_step=50_000))
        worker = stack.enter_context(ActorWorker(client, policy, batch_size=trials))
        return asyncio.run(rate(worker.agent, policy, trials, seconds))


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=5.0)
    given = parser.parse_args()
    rates = {}
    for name, seconds_of_call, batched in (
        ("one by one", CALL, False),
        ("batched", CALL, True),
        ("random, not stored", 0.0, False),
        ("random, stored", 0.0, True),
    ):
        rates[name], calls = measure(seconds_of_call, batched, given.trials, given.seconds)
        print(f"{name:20} {rates[name]:8.0f} ticks/s  {calls:6.3f} calls of the policy a tick")
    print(f"batched / one by one            {rates['batched'] / rates['one by one']:.2f}")
    loss = 1 - rates["random, stored"] / rates["random, not stored"]
    print(f"lost by batching and storing    {loss:.1%}")


if __name__ == "__main__":
    main()
