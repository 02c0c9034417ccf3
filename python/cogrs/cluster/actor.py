"""An actor: environments and a policy, whose steps are sampled and pushed to all shards.

The environments are stepped together by `VectorEnv`; or each episode is a trial, see
`trial_actor.py`.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from cogrs.cluster.import_path import imported
from cogrs.cluster.protocols import PolicyContext, answer_of
from cogrs.cluster.shard_client import LOOK, TIMEOUT, ShardClient
from cogrs.cluster.spaces import environments_of, spaces_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from cogrs.cluster.part import Part
    from cogrs.cluster.protocols import Policy

_MOST_OWED: Final = 4
"""Caches that are made up for when shards are back; older ones are given up."""


def run_actor(part: Part) -> None:
    """Play until the part is to stop."""
    plan = part.plan
    seed = None if plan.seed is None else plan.seed + 1_000 * (part.index + 1) + part.generation
    if plan.trials:
        # gRPC takes long to import, and no other part needs it.
        from cogrs.cluster.trial_actor import play_trials

        _play(part, seed, spaces_of(plan), play_trials)
        return
    with contextlib.closing(environments_of(plan, plan.envs_per_actor, seed)) as envs:

        def play(part: Part, shards: ShardClient, policy: Policy, _seed: int | None) -> None:
            _Player(part, envs, policy, shards).run()

        _play(part, seed, (envs.single_observation_space, envs.single_action_space), play)


def _play(
    part: Part,
    seed: int | None,
    spaces: tuple[Any, Any],
    play: Callable[[Part, ShardClient, Policy, int | None], None],
) -> None:
    """Create the policy, register, connect to the shards, and play until the part is to stop."""
    context = PolicyContext(
        observation_space=spaces[0],
        action_space=spaces[1],
        index=part.index,
        actors=len(part.actors()),
        num_envs=part.plan.envs_per_actor,
        seed=seed,
    )
    policy: Policy = imported("policy", part.plan.policy)(context)
    part.register()
    if not part.wait_for_shards():
        return
    with ShardClient(part, seed) as shards:
        if shards.sync():
            play(part, shards, policy, seed)
    part.close()


class _Player:
    """The loop of an actor whose environments are stepped together."""

    def __init__(self, part: Part, envs: Any, policy: Policy, shards: ShardClient) -> None:
        self._part = part
        self._envs = envs
        self._policy = policy
        self._shards = shards
        self._client = shards.client
        self._owed = 0.0
        self._inserted = 0

    def run(self) -> None:
        part, client, envs, shards = self._part, self._client, self._envs, self._shards
        memory = client.rem
        recorder = memory.recorder(envs)
        observations, _ = envs.reset()
        sums = np.zeros(envs.num_envs)
        due = 0.0
        while not part.stopping:
            if not client.wait_to_insert(timeout=TIMEOUT):
                shards.report(self._inserted)
                continue
            if time.monotonic() >= due:
                if (parameters := shards.news()) is not None:
                    self._policy.load(parameters)
                shards.report(self._inserted)
                due = time.monotonic() + LOOK
            actions, fields = answer_of(self._policy, observations)
            following, rewards, terminated, truncated, _ = envs.step(actions)
            before = memory.total_steps
            recorder.add(observations, actions, rewards, terminated, truncated, following, **fields)
            observations = following
            shards.steps += envs.num_envs
            sums += rewards
            for env in np.flatnonzero(terminated | truncated):
                shards.add_episode(float(sums[env]))
                sums[env] = 0.0
            self._push(memory.total_steps - before)
        shards.report(self._inserted)

    def _push(self, closed: int) -> None:
        size = self._part.plan.cache_size
        self._owed = min(
            self._owed + closed * self._part.plan.samples_per_step, float(_MOST_OWED * size)
        )
        while self._owed >= size and not self._part.stopping:
            try:
                if self._client.push_cache() != 0:
                    return
            except TimeoutError:
                return  # no shard takes any: the gate says when one is back
            self._owed -= size
            self._inserted += size
