"""An actor: environments and a policy, whose steps are sampled and pushed to all shards."""

from __future__ import annotations

import contextlib
import logging
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from cogrs.cluster.import_path import imported
from cogrs.cluster.protocols import PolicyContext
from cogrs.cluster.spaces import environments_of
from cogrs.replay import ReplayMemoryClient
from cogrs.workers import PARAMETERS, unpack_arrays

if TYPE_CHECKING:
    from cogrs.cluster.part import Part
    from cogrs.cluster.protocols import Policy

_logger = logging.getLogger("cogrs.cluster")

_TIMEOUT: Final = 1.0
"""Seconds that a call waits for a shard, so that the part soon sees that it is to stop."""
_LOOK: Final = 0.1
"""Seconds between two looks for parameters and priorities."""
_MOST_OWED: Final = 4
"""Caches that are made up for when shards are back; older ones are given up."""


def run_actor(part: Part) -> None:
    """Play until the part is to stop."""
    plan = part.plan
    seed = None if plan.seed is None else plan.seed + 1_000 * (part.index + 1) + part.generation
    envs = environments_of(plan, plan.envs_per_actor, seed)
    with contextlib.closing(envs):
        context = PolicyContext(
            observation_space=envs.single_observation_space,
            action_space=envs.single_action_space,
            index=part.index,
            actors=len(part.actors()),
            num_envs=plan.envs_per_actor,
            seed=seed,
        )
        policy: Policy = imported("policy", plan.policy)(context)
        part.register()
        if not part.wait_for_shards():
            return
        with _connected(part, seed) as client:
            _Player(part, envs, policy, client).run()
        part.close()


def _endpoints(part: Part) -> tuple[str, str, list[str]]:
    """Return where this actor's shard publishes and answers, and where all shards pull."""
    places = [each["endpoints"] for each in part.shards()]
    pub, rep, _ = places[part.home()]
    return pub, rep, [pull for _, _, pull in places]


def _connected(part: Part, seed: int | None) -> ReplayMemoryClient:
    keys = part.folder
    return ReplayMemoryClient(
        *_endpoints(part),
        timeout=_TIMEOUT,
        seed=seed,
        sub_hwm=1,
        key=keys.secret_key("actor"),
        server_key=keys.server_key(),
    )


class _Player:
    """The loop of an actor, and its figures."""

    def __init__(self, part: Part, envs: Any, policy: Policy, client: ReplayMemoryClient) -> None:
        self._part = part
        self._envs = envs
        self._policy = policy
        self._client = client
        self._inserted = self._steps = self._owed = 0.0
        self._publications = 0
        self._episodes = 0
        self._returns: deque[float] = deque(maxlen=100)

    def run(self) -> None:
        part, client, envs = self._part, self._client, self._envs
        part.set_on_change(self._follow)
        self._follow()
        if not self._synced():
            return
        memory = client.rem
        recorder = memory.recorder(envs)
        observations, _ = envs.reset()
        sums = np.zeros(envs.num_envs)
        due = 0.0
        while not part.stopping:
            if not client.wait_to_insert(timeout=_TIMEOUT):
                self._report()
                continue
            if time.monotonic() >= due:
                self._take_news()
                self._report()
                due = time.monotonic() + _LOOK
            chosen = self._policy.act(observations)
            actions, fields = chosen if isinstance(chosen, tuple) else (chosen, {})
            following, rewards, terminated, truncated, _ = envs.step(actions)
            before = memory.total_steps
            recorder.add(observations, actions, rewards, terminated, truncated, following, **fields)
            observations = following
            self._steps += envs.num_envs
            sums += rewards
            for env in np.flatnonzero(terminated | truncated):
                self._episodes += 1
                self._returns.append(float(sums[env]))
                sums[env] = 0.0
            self._push(memory.total_steps - before)
        with contextlib.suppress(TimeoutError):
            client.update_counter()
        self._report()

    def _synced(self) -> bool:
        """Create the memory; return False when the part is to stop first."""
        while not self._part.stopping:
            try:
                self._client.sync_sizes(self._part.plan.capacity)
                return True
            except TimeoutError as error:
                _logger.warning("still waiting: %s", error)
        return False

    def _follow(self) -> None:
        """Go on with shards that have moved, and at another home."""
        if self._part.shards():
            generation = self._part.snapshot["version"]
            self._client.replace(*_endpoints(self._part), generation=generation)

    def _take_news(self) -> None:
        with contextlib.suppress(TimeoutError):
            packed = self._client.sub_bytes(PARAMETERS, timeout=0.0, last=True)
            self._policy.load(unpack_arrays(packed))
            self._publications += 1
        self._client.apply_priorities()

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

    def _report(self) -> None:
        self._part.report = {
            "at": time.time(),
            "count": int(self._steps),
            "episodes": self._episodes,
            "mean_return": float(np.mean(self._returns)) if self._returns else None,
            "publications": self._publications,
            "rows": {"sender": str(self._client.uuid), "inserted": int(self._inserted)},
        }
