"""One actor of one trial: asks the policy, and keeps what happened as an episode."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from cogrs.sdk import Agent, step_of_reward
from cogrs.workers.step import step_info

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cogrs.replay import ReplayMemory
    from cogrs.sdk import Final, Observation, ReceivedReward, Trial

_logger = logging.getLogger("cogrs.workers")


class Host(Protocol):
    """What a player needs of its worker."""

    @property
    def memory(self) -> ReplayMemory:
        """Where the episode goes."""
        ...

    async def decide(self, state: Any) -> Mapping[str, Any]:
        """Return `action`, `prob` and `value` for a state."""
        ...

    def closed(self, steps: int, total_reward: float) -> None:
        """Take note of an episode that was closed."""
        ...


class Player(Agent):
    """Stores step k when the observation k + 1 arrives: its reward came just before.

    A reward for an earlier step is added to where it is stored, by `ReplayMemory.add_reward`, in
    an episode that is open still or closed.
    """

    def __init__(self, host: Host) -> None:
        """Play for a worker."""
        self._host = host
        self._memory = host.memory
        self._writer = host.memory.writer()
        self._ids: list[int] = []
        self._latest: Observation | None = None
        self._decision: Mapping[str, Any] | None = None
        self._reward = 0.0
        self._total = 0.0

    def start(self, trial: Trial) -> None:
        """Open an episode."""
        self._trial = trial
        self._actor = trial.actor_names.index(trial.name)
        self._writer.new_episode()

    async def act(self, observation: Observation) -> Any:
        """Store the step before, and ask the policy."""
        self._store()
        self._latest = observation
        self._decision = await self._host.decide(observation.value)
        return self._decision["action"]

    def reward(self, reward: ReceivedReward) -> None:
        """Add a reward to its step, wherever that is."""
        step = step_of_reward(reward.tick)
        if step is not None and step < len(self._ids):
            if self._memory.add_reward(self._ids[step], np.float32(reward.value)):
                self._total += reward.value
            else:
                self._drop(reward, "which was evicted")
        elif step == len(self._ids):
            self._reward += reward.value
        else:
            self._drop(reward, "of which nothing is known")

    async def end(self, final: Final) -> None:
        """Store the last step, and close the episode; one without a step is dropped."""
        try:
            for reward in final.rewards:
                self.reward(reward)
            if final.observation is not None:
                self._store()
            # Else what the last action led to is not known, and the episode ends before it.
            closed = await self._close(final.observation or self._latest)
        except BaseException:
            self._writer.abort_episode()
            raise
        if closed:
            self._host.closed(len(self._ids), self._total)
        else:
            self._writer.abort_episode()

    def lost(self) -> None:
        """Drop the episode."""
        self._writer.abort_episode()

    async def _close(self, last: Observation | None) -> bool:
        if last is None or not self._ids:
            return False
        bootstrap = None if last.terminated else (await self._host.decide(last.value))["value"]
        info = step_info(self._trial.id, self._actor, len(self._ids), terminated=last.terminated)
        self._writer.close_episode(
            bootstrap_value=bootstrap, final_state=last.value, final_info=info
        )
        return True

    def _store(self) -> None:
        """Store the step that the latest decision made, if one did."""
        if self._latest is None or self._decision is None:
            return
        decision, self._decision = self._decision, None
        entry = self._writer.add_entry(
            self._latest.value,
            decision["action"],
            self._reward,
            decision["prob"],
            decision["value"],
            step_info(self._trial.id, self._actor, len(self._ids)),
            1.0,
        )
        self._ids.append(entry)
        self._total += self._reward
        self._reward = 0.0

    def _drop(self, reward: ReceivedReward, why: str) -> None:
        _logger.warning(
            "trial %s: a reward for tick %d is dropped: it is about a step %s",
            self._trial.id,
            reward.tick,
            why,
        )
