"""`ActorWorker`: one policy for all actors of all trials, and everything they did into replay."""

from __future__ import annotations

import logging
import queue
import threading
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from cogrs.collector import Group
from cogrs.workers.player import Player

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    from cogrs.replay import ReplayMemory, ReplayMemoryClient

_logger = logging.getLogger("cogrs.workers")


class Decision(NamedTuple):
    """What a policy says of k states.

    Fields:
        action: What to do, the action template's dtype, (k, *action).
        prob: Probability with which it was chosen, float32 (k,).
        value: Value of the state, float32 (k,) or (k, R).
    """

    action: npt.ArrayLike
    prob: npt.ArrayLike
    value: npt.ArrayLike


class ActorWorker:
    """Serves agents that answer all their observations by one call of a policy.

    ::

        with cogrs.workers.ActorWorker(client, policy) as worker:
            async with await cogrs.sdk.serve(agents={"policy": worker.agent}) as endpoint:
                ...

    Each actor of each trial writes an episode of its own into the client's memory; what was closed
    is pushed to the server. The memory's `info` is `STEP_INFO`, so that a stored step tells its
    trial, actor and tick.
    """

    def __init__(
        self,
        client: ReplayMemoryClient,
        policy: Callable[[npt.NDArray[Any]], Decision],
        *,
        batch_size: int = 64,
        timeout_ms: float = 1.0,
        samples_per_step: float = 4.0,
        on_episode: Callable[[int, float], None] | None = None,
    ) -> None:
        """Start the policy's thread, and the one that pushes.

        Args:
            client: Its memory, made by `sync_sizes`, gets the episodes.
            policy: Called on a thread of its own with k states, (k, *state).
            batch_size: States at most that the policy sees at once.
            timeout_ms: Milliseconds that the first of them waits at most.
            samples_per_step: Samples pushed for each step stored.
            on_episode: Called with steps and sum of rewards of each closed episode.
        """
        self._client = client
        self._memory = client.rem
        self._policy = policy
        self._samples_per_step = samples_per_step
        self._on_episode = on_episode
        rem = self._memory
        row = {name: (each.dtype, each.shape) for name, each in _replies(rem).items()}
        self._group = Group(
            {"state": (rem.state_buf.dtype, rem.state_buf.shape)},
            row,
            batch_size,
            timeout_usec=round(timeout_ms * 1000),
        )
        self._closed_steps: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._failure: BaseException | None = None
        self._threads = [
            threading.Thread(target=target, name=f"cogrs-{target.__name__.strip('_')}", daemon=True)
            for target in (self._answer, self._push)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def memory(self) -> ReplayMemory:
        """The client's memory."""
        return self._memory

    def agent(self) -> Player:
        """Return an agent for one actor of one trial: what `cogrs.sdk.serve` wants."""
        return Player(self)

    async def decide(self, state: Any) -> Mapping[str, Any]:
        """Return the policy's `action`, `prob` and `value` for one state.

        Raises:
            RuntimeError: The policy has failed, or the worker is closed.
        """
        try:
            return await self._group.ask_async({"state": state})
        except RuntimeError as error:
            raise (
                error if self._failure is None else RuntimeError("policy failed")
            ) from self._failure

    def closed(self, steps: int, total_reward: float) -> None:
        """Take note of a closed episode."""
        self._closed_steps.put(steps)
        if self._on_episode is not None:
            self._on_episode(steps, total_reward)

    def check(self) -> None:
        """Tell whether all is well.

        Raises:
            RuntimeError: The policy has failed; its exception is the cause.
        """
        if self._failure is not None:
            raise RuntimeError("the policy failed") from self._failure

    def close(self) -> None:
        """Stop the policy, and push what is left."""
        self._group.close()
        self._closed_steps.put(None)
        for thread in self._threads:
            thread.join()

    def _answer(self) -> None:
        while True:
            try:
                self._group.run(self._call_policy)
            except BaseException as error:
                if not isinstance(error, RuntimeError) or "closed" not in str(error):
                    _logger.exception("the policy failed; all its actors fail with it")
                    self._failure = error
                self._group.close()
                return

    def _call_policy(
        self, inputs: Mapping[str, npt.NDArray[Any]], replies: Mapping[str, npt.NDArray[Any]]
    ) -> None:
        decision = self._policy(inputs["state"])
        for name, value in zip(("action", "prob", "value"), decision, strict=True):
            replies[name][...] = value

    def _push(self) -> None:
        owed = 0.0
        while (steps := self._closed_steps.get()) is not None:
            owed += steps * self._samples_per_step
            try:
                self._client.update_counter()
                while owed >= self._memory.cache_size and self._client.push_cache() == 0:
                    owed -= self._memory.cache_size
            except (TimeoutError, RuntimeError) as error:
                _logger.warning("nothing is pushed: %s", error)
                owed = 0.0

    def __enter__(self) -> Self:
        """Return the worker."""
        return self

    def __exit__(self, *_exc: object) -> None:
        """Close it."""
        self.close()


def _replies(rem: ReplayMemory) -> dict[str, npt.NDArray[Any]]:
    return {"action": rem.action_buf, "prob": rem.prob_buf, "value": np.asarray(rem.value_buf)}
