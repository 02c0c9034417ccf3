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

    A reward for an earlier step is added to where it is stored, by `ReplayMemory.add_reward`.
    """

    def __init__(self, host: Host) -> None:
        """Play for a worker."""
        self._host = host
        self._memory = host.memory
        self._writer = host.memory.writer()
        self._ids: list[int] = []
        self._pending: tuple[Any, Mapping[str, Any]] | None = None
        self._reward = 0.0
        self._total = 0.0

    def start(self, trial: Trial) -> None:
        """Open an episode."""
        self._trial = trial
        self._actor = trial.actor_names.index(trial.name)
        self._writer.new_episode()

    async def act(self, observation: Observation) -> Any:
        """Store the step before, and ask the policy."""
        self._store_pending()
        decision = await self._host.decide(observation.value)
        self._pending = (observation.value, decision)
        return decision["action"]

    def reward(self, reward: ReceivedReward) -> None:
        """Add a reward to its step, wherever that is."""
        step = step_of_reward(reward.tick)
        if step is None or step > len(self._ids):
            _logger.warning(
                "trial %s: a reward for tick %d is of no step", self._trial.id, reward.tick
            )
            return
        self._total += reward.value
        if step == len(self._ids):
            self._reward += reward.value
        else:
            self._memory.add_reward(self._ids[step], np.float32(reward.value))

    async def end(self, final: Final) -> None:
        """Store the last step, and close the episode."""
        for reward in final.rewards:
            self.reward(reward)
        if final.observation is None:
            # What the last action led to is not known: the episode ends before it.
            await self._close(None)
        else:
            self._store_pending()
            await self._close(final.observation)

    def lost(self) -> None:
        """Drop the episode."""
        self._writer.abort_episode()

    async def _close(self, last: Observation | None) -> None:
        if not self._ids:
            self._writer.abort_episode()
            return
        state, terminated, bootstrap = await self._ending(last)
        info = step_info(self._trial.id, self._actor, len(self._ids), terminated=terminated)
        self._writer.close_episode(bootstrap_value=bootstrap, final_state=state, final_info=info)
        self._host.closed(len(self._ids), self._total)

    async def _ending(self, last: Observation | None) -> tuple[Any, bool, Any]:
        """Return the final state, whether it is terminal, and its value if it is not."""
        if last is None:
            if self._pending is None:
                raise RuntimeError("an end without an observation comes after an action")
            state, decision = self._pending
            return state, False, decision["value"]
        if last.terminated:
            return last.value, True, None
        return last.value, False, (await self._host.decide(last.value))["value"]

    def _store_pending(self) -> None:
        if self._pending is None:
            return
        state, decision = self._pending
        info = step_info(self._trial.id, self._actor, len(self._ids))
        self._ids.append(
            self._writer.add_entry(
                state,
                decision["action"],
                self._reward,
                decision["prob"],
                decision["value"],
                info,
                1.0,
            )
        )
        self._pending, self._reward = None, 0.0
