"""One actor of one trial: asks the policy, and stores its steps as an episode.

Step k is stored when observation k + 1 arrives, since the reward for an action comes just before
the next observation (`cogrs.sdk.step_of_reward`). A late reward goes to the step where it is
stored, by id. Each episode has a writer of its own, so trials never mix. A player runs on one event
loop, but for `add_reward`, which any thread may call.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from cogrs.sdk import Agent, step_of_reward
from cogrs.workers.step_info import step_info

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from cogrs.replay import ReplayMemory
    from cogrs.sdk import Final, Observation, ReceivedReward, Trial

_logger = logging.getLogger("cogrs.workers")


class PlayerHost(Protocol):
    """The worker of a player."""

    @property
    def memory(self) -> ReplayMemory:
        """The memory that stores the episode."""
        ...

    @property
    def recurrent(self) -> npt.NDArray[Any] | None:
        """The recurrent state at the start of a trial, or None."""
        ...

    async def begin_episode(self) -> None:
        """Wait until an episode may begin, before its first decision."""
        ...

    async def decide(self, state: Any, recurrent: Any) -> Mapping[str, Any]:
        """Return `action`, `prob`, `value`, and `recurrent` if the policy has such a state."""
        ...

    def closed(self, player: Player) -> None:
        """Note a closed episode."""
        ...

    def dropped(self) -> None:
        """Count a reward that reached no step."""
        ...


class Player(Agent):
    """Stores step k when observation k + 1 arrives: its reward came just before.

    A reward for an earlier step is added to the stored one, by `ReplayMemory.add_reward`, in an
    open or closed episode.

    An actor that is told in the middle of a trial that it is finished closes its episode there. The
    episode of one that did not answer an observation ends with that observation: what followed was
    not its own doing.
    """

    inline = True

    def __init__(self, host: PlayerHost) -> None:
        """Play for a worker."""
        self._host = host
        self._memory = host.memory
        self._writer = host.memory.writer()
        self._recurrent = host.recurrent
        self._before = host.recurrent
        self._stores_recurrent = host.memory.recurrent is not None
        self._ids: list[int] = []
        self._latest: Observation | None = None
        self._decision: Mapping[str, Any] | None = None
        self._reward = 0.0
        self._begun = self._finished = self._is_open = False
        self._idle: Any = np.zeros_like(host.memory.action_buf)
        self.total_reward = 0.0
        """Sum of the rewards of all steps."""

    @property
    def steps(self) -> int:
        """Steps that are stored."""
        return len(self._ids)

    @property
    def key(self) -> tuple[str, str]:
        """The ids of trial and actor."""
        return self._trial.id, self._trial.name

    def start(self, trial: Trial) -> None:
        """Open an episode."""
        self._trial = trial
        self._actor = trial.actor_names.index(trial.name)
        self._writer.new_episode()
        self._is_open = True

    async def act(self, observation: Observation) -> Any:
        """Store the previous step, and ask the policy."""
        if await self.see(observation):
            return self._idle
        if not self._begun:
            self._begun = True
            await self._host.begin_episode()
        decision = await self._host.decide(observation.value, self._recurrent)
        self._decision = decision
        self._before = self._recurrent
        self._recurrent = decision.get("recurrent")
        return decision["action"]

    async def see(self, observation: Observation) -> bool:
        """Store the previous step; return whether this actor is finished."""
        if not self._finished:
            self._store()
            self._latest = observation
            if observation.terminated or observation.truncated:
                await self._finish(observation)
        return self._finished

    def reward(self, reward: ReceivedReward) -> None:
        """Add a reward to its step, stored or not."""
        step = step_of_reward(reward.tick)
        if step is not None and step < len(self._ids):
            if not self.add_reward(step, reward.value):
                self._drop(reward, "was evicted")
        elif step == len(self._ids) and not self._finished:
            self._reward += reward.value
        else:
            self._drop(reward, "is not known")

    def add_reward(self, step: int, value: float) -> bool:
        """Add to the reward of a stored step; False if that is gone. Any thread may call this.

        Raises:
            ValueError: The value, or a result of it, is not finite.
        """
        if not self._memory.add_reward(self._ids[step], np.float32(value)):
            return False
        self.total_reward += value
        return True

    def late_reward(self, reward: ReceivedReward) -> bool:
        """Add a reward that came after the end to its step; False if that is not stored."""
        step = step_of_reward(reward.tick)
        if step is None or step >= len(self._ids) or not self.add_reward(step, reward.value):
            self._host.dropped()
            return False
        return True

    async def end(self, final: Final) -> None:
        """Store the last step, and close the episode; one without a step is dropped."""
        try:
            for reward in final.rewards:
                self.reward(reward)
            if self._finished:
                return
            last = self._latest
            if final.observation is not None and self._decision is not None:
                self._store()
                last = final.observation
            # Otherwise the result of the last action is not known, or there was no action.
            await self._finish(last)
        except BaseException:
            self.lost()
            raise

    def lost(self) -> None:
        """Drop the episode, unless it is closed or was never opened."""
        if self._is_open:
            self._is_open = False
            self._writer.abort_episode()

    async def _finish(self, last: Observation | None) -> None:
        """Close the episode, or drop it if it has no step."""
        self._finished = True
        if last is None or not self._ids:
            self.lost()
            return
        bootstrap = None
        if not last.terminated:
            bootstrap = (await self._host.decide(last.value, self._recurrent))["value"]
        info = step_info(self._trial.id, self._actor, len(self._ids), terminated=last.terminated)
        self._writer.close_episode(
            bootstrap_value=bootstrap, final_state=last.value, final_info=info
        )
        self._is_open = False
        self._host.closed(self)

    def _store(self) -> None:
        """Store the step of the latest decision, if it has not been."""
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
            recurrent=self._before if self._stores_recurrent else None,
        )
        self._ids.append(entry)
        self.total_reward += self._reward
        self._reward = 0.0

    def _drop(self, reward: ReceivedReward, why: str) -> None:
        self._host.dropped()
        _logger.warning(
            "trial %s: a reward for tick %d is dropped: its step %s",
            self._trial.id,
            reward.tick,
            why,
        )
