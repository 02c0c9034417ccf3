"""One actor of one trial: asks the policy, and keeps what happened as an episode."""

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


class Host(Protocol):
    """What a player needs of its worker."""

    @property
    def memory(self) -> ReplayMemory:
        """Where the episode goes."""
        ...

    @property
    def recurrent(self) -> npt.NDArray[Any] | None:
        """What the policy knows of a trial that begins; None if it keeps nothing."""
        ...

    async def decide(self, state: Any, recurrent: Any) -> Mapping[str, Any]:
        """Return `action`, `prob`, `value`, and `recurrent` if the policy keeps something."""
        ...

    def closed(self, player: Player) -> None:
        """Take note of an episode that was closed."""
        ...

    def dropped(self) -> None:
        """Take note of a reward that reached no step."""
        ...


class Player(Agent):
    """Stores step k when the observation k + 1 arrives: its reward came just before.

    A reward for an earlier step is added to where it is stored, by `ReplayMemory.add_reward`, in
    an episode that is open still or closed.

    An actor that is told in the middle of a trial that it is finished closes its episode there. One
    that did not answer an observation has its episode end with that: what came of no action, or of
    another's, is no step of its own.
    """

    inline = True

    def __init__(self, host: Host) -> None:
        """Play for a worker."""
        self._host = host
        self._memory = host.memory
        self._writer = host.memory.writer()
        self._recurrent = host.recurrent
        self._ids: list[int] = []
        self._latest: Observation | None = None
        self._decision: Mapping[str, Any] | None = None
        self._reward = 0.0
        self._finished = False
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

    async def act(self, observation: Observation) -> Any:
        """Store the step before, and ask the policy."""
        if await self.see(observation):
            return self._idle
        decision = await self._host.decide(observation.value, self._recurrent)
        self._decision = decision
        self._recurrent = decision.get("recurrent")
        return decision["action"]

    async def see(self, observation: Observation) -> bool:
        """Store the step before; return whether this actor is finished."""
        if not self._finished:
            self._store()
            self._latest = observation
            if observation.terminated or observation.truncated:
                await self._finish(observation)
        return self._finished

    def reward(self, reward: ReceivedReward) -> None:
        """Add a reward to its step, wherever that is."""
        step = step_of_reward(reward.tick)
        if step is not None and step < len(self._ids):
            if not self.add_reward(step, reward.value):
                self._drop(reward, "which was evicted")
        elif step == len(self._ids) and not self._finished:
            self._reward += reward.value
        else:
            self._drop(reward, "of which nothing is known")

    def add_reward(self, step: int, value: float) -> bool:
        """Add to the reward of a stored step; False if that is gone. Any thread may call this.

        Raises:
            ValueError: The value, or what comes of it, is not finite.
        """
        if not self._memory.add_reward(self._ids[step], np.float32(value)):
            return False
        self.total_reward += value
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
            # Else what the last action led to is not known, or there was none.
            await self._finish(last)
        except BaseException:
            self._writer.abort_episode()
            raise

    def lost(self) -> None:
        """Drop the episode."""
        self._writer.abort_episode()

    async def _finish(self, last: Observation | None) -> None:
        """Close the episode, or drop it if it has no step."""
        self._finished = True
        if last is None or not self._ids:
            self._writer.abort_episode()
            return
        bootstrap = None
        if not last.terminated:
            bootstrap = (await self._host.decide(last.value, self._recurrent))["value"]
        info = step_info(self._trial.id, self._actor, len(self._ids), terminated=last.terminated)
        self._writer.close_episode(
            bootstrap_value=bootstrap, final_state=last.value, final_info=info
        )
        self._host.closed(self)

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
        self.total_reward += self._reward
        self._reward = 0.0

    def _drop(self, reward: ReceivedReward, why: str) -> None:
        self._host.dropped()
        _logger.warning(
            "trial %s: a reward for tick %d is dropped: it is about a step %s",
            self._trial.id,
            reward.tick,
            why,
        )
