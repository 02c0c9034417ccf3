"""An actor whose episodes are trials: an orchestrator, environments and agents in one process.

`envs_per_actor` trials run at once; whenever one has ended, the next is started. Their agents are
those of one `ActorWorker`, so that the policy answers the trials that wait together.

Threads: the orchestrator, environments that are quick, and agents run on one event loop. The policy
runs on the worker's thread, where it also takes new parameters. `_look` runs on a third.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from cogrs import sdk
from cogrs.cluster.protocols import answer_of
from cogrs.cluster.shard_client import LOOK
from cogrs.cluster.spaces import make_single
from cogrs.orchestrator import serve
from cogrs.workers import ActorWorker, Decision

if TYPE_CHECKING:
    import numpy.typing as npt

    from cogrs.cluster.part import Part
    from cogrs.cluster.protocols import Policy
    from cogrs.cluster.shard_client import ShardClient

_GRACE: Final = 1.0
"""Seconds for trials to end when the part is to stop."""
_MOST_FAILURES: Final = 20
"""Trials in a row without a step, at least, after which the actor fails."""
_PARAMS: Final = {
    "environment": {"endpoint": "local://environment"},
    "actors": [{"name": "player", "actor_class": "player", "endpoint": "local://policy"}],
}


def play_trials(part: Part, shards: ShardClient, policy: Policy, seed: int | None) -> None:
    """Play trials until the part is to stop.

    Raises:
        RuntimeError: The policy failed, or so many trials in a row ended without a step.
    """
    asyncio.run(_TrialPlayer(part, shards, policy, seed).run())


class _TrialPlayer:
    """The loop of an actor by trials."""

    def __init__(self, part: Part, shards: ShardClient, policy: Policy, seed: int | None) -> None:
        self._part = part
        self._shards = shards
        self._policy = policy
        self._seed = seed
        self._parameters: dict[str, Any] | None = None
        """What the policy takes before it acts next."""
        self._failures = 0
        """Trials that have ended since an episode with a step did."""

    async def run(self) -> None:
        plan = self._part.plan
        make = make_single(plan)
        environment = sdk.GymnasiumEnvironment.factory(make, seed=self._seed)
        # Others on this machine are not to start trials here.
        token = secrets.token_urlsafe(32)
        with ActorWorker(
            self._shards.client,
            self._decide,
            batch_size=plan.envs_per_actor,
            samples_per_step=plan.samples_per_step,
            insert_wait=None,  # nobody waits for these trials
            on_episode=self._count,
        ) as worker:
            server = await serve(
                {"trial_params": _PARAMS},
                port=0,
                tokens=[token],
                local={
                    "environment": sdk.local_environments({"": environment}),
                    "policy": sdk.local_agents({"": worker.agent}),
                },
            )
            try:
                async with sdk.TrialController(server.address, token=token) as controller:
                    await self._watch(worker, controller)
            finally:
                await server.stop(_GRACE)
        self._shards.report(worker.pushed_samples)

    async def _watch(self, worker: ActorWorker, controller: sdk.TrialController) -> None:
        """Keep trials running until the part is to stop."""
        playing = asyncio.create_task(self._keep_playing(controller))
        try:
            while not self._part.stopping:
                await asyncio.to_thread(self._look, worker)
                worker.check()
                if playing.done():
                    playing.result()
                await asyncio.sleep(LOOK)
        finally:
            playing.cancel()
            await asyncio.gather(playing, return_exceptions=True)

    async def _keep_playing(self, controller: sdk.TrialController) -> None:
        most = max(_MOST_FAILURES, 2 * self._part.plan.envs_per_actor)
        running = {
            (await controller.start_trial()).id for _ in range(self._part.plan.envs_per_actor)
        }
        async for trial_id, _ in controller.watch_trials([sdk.TrialState.ENDED]):
            if trial_id not in running:
                continue
            running.remove(trial_id)
            self._failures += 1
            if self._failures >= most:
                end = await controller.wait_ended(trial_id)
                raise RuntimeError(f"{most} trials in a row ended without a step: {end.reason}")
            running.add((await controller.start_trial()).id)
        raise RuntimeError("the orchestrator has ended the watch of trials")

    def _look(self, worker: ActorWorker) -> None:
        parameters = self._shards.news()
        if parameters is not None:
            self._parameters = parameters
        self._shards.report(worker.pushed_samples)

    def _decide(self, states: npt.NDArray[Any]) -> Decision:
        parameters, self._parameters = self._parameters, None
        if parameters is not None:
            self._policy.load(parameters)
        actions, fields = answer_of(self._policy, states)
        one, zero = np.ones(len(states), np.float32), np.zeros(len(states), np.float32)
        return Decision(actions, fields.get("prob", one), fields.get("value", zero))

    def _count(self, steps: int, total_reward: float) -> None:
        self._failures = 0
        self._shards.steps += steps
        self._shards.add_episode(total_reward)
