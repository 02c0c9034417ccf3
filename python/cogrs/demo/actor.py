"""The actor process: one policy for all trials; it pushes their steps to the replay server."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from cogrs import ReplayMemoryClient, sdk
from cogrs.demo.checkpoint import EVERY, replay_file
from cogrs.demo.parent import Parent, main
from cogrs.demo.q_learning import UPDATES, action_values, draw_parameters
from cogrs.workers import (
    PARAMETERS,
    ActorWorker,
    Decision,
    restore_episodes,
    unpack_arrays,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from cogrs.demo.options import ProcessConfig

_MAX_STEP = 50_000
_FIRST, _LAST, _UPDATES = 1.0, 0.02, 500
"""Share of random actions, first and last, and the learner's updates over which it falls. It does
not fall with steps: an untrained net would choose them while the learner still compiles or lags."""


class Policy:
    """An epsilon-greedy policy."""

    def __init__(self, parameters: dict[str, Any], num_action: int, seed: int) -> None:
        self.parameters = parameters
        self.updates = 0
        """The learner's updates behind the parameters."""
        self._num_action = num_action
        self._rng = np.random.default_rng(seed)

    def __call__(self, states: npt.NDArray[np.float32]) -> Decision:
        """Return a decision for each state."""
        epsilon = max(_LAST, _FIRST + (_LAST - _FIRST) * self.updates / _UPDATES)
        values = action_values(self.parameters, states)
        best = values.argmax(axis=1)
        random = self._rng.integers(self._num_action, size=len(states))
        action = np.where(self._rng.random(len(states)) < epsilon, random, best)
        prob = epsilon / self._num_action + (1 - epsilon) * (action == best)
        return Decision(action, prob, values.max(axis=1))

    def follow(self, client: ReplayMemoryClient, ended: threading.Event) -> None:
        """Take the parameters that the learner publishes, until `ended` is set."""
        while not ended.is_set():
            try:
                message = client.sub_bytes(PARAMETERS, timeout=0.2, last=True)
            except TimeoutError:
                continue
            arrays = unpack_arrays(message)
            self.updates = int(arrays.pop(UPDATES))
            self.parameters = arrays


def run(parent: Parent, config: ProcessConfig) -> None:
    """Act until the parent requests the end."""
    parameters = draw_parameters(config.state_size, config.num_action, config.seed)
    seed = config.seed + 7919 * config.worker + config.trials_before
    policy = Policy(parameters, config.num_action, seed)
    publish, request, push = config.endpoints
    with ReplayMemoryClient(
        publish, request, push, max_step=_MAX_STEP, seed=seed, timeout=10
    ) as client:
        if config.resume and replay_file(config.resume, config.worker).exists():
            restore_episodes(client.rem, replay_file(config.resume, config.worker))
            client.update_counter(restored=True)
        asyncio.run(serve(parent, config, client, policy))


async def serve(
    parent: Parent, config: ProcessConfig, client: ReplayMemoryClient, policy: Policy
) -> None:
    """Serve agents, and save the replay memory now and then."""

    def report(steps: int, total: float) -> None:
        parent.send(episode=steps, total_reward=total, stored=len(client.rem), worker=config.worker)

    kept = replay_file(config.folder, config.worker)
    worker = ActorWorker(
        client,
        policy,
        batch_size=config.trials,
        samples_per_step=32,
        insert_wait=None,  # nobody waits for these trials
        on_episode=report,
    )
    with worker:
        async with await sdk.serve(agents={"dqn": worker.agent}) as endpoint:
            parent.send(ready=endpoint.address)
            ended = threading.Event()
            following = asyncio.to_thread(policy.follow, client, ended)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(following)
                try:
                    due = time.monotonic() + EVERY
                    while not await asyncio.to_thread(parent.stop_request.wait, 0.5):
                        worker.check()
                        if time.monotonic() >= due:
                            due = time.monotonic() + EVERY
                            await asyncio.to_thread(client.rem.save, kept)
                finally:
                    ended.set()
                client.rem.save(kept)


if __name__ == "__main__":
    main(run)
