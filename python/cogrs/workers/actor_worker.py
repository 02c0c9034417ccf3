"""`ActorWorker`: one policy for all actors of all trials, whose steps go into replay.

Threads: agents (`Player`) run on event loops, any number of them, and ask the policy through a
`RequestBatcher`. One thread runs the policy. Another pushes closed episodes, so a server that is
away holds no trial up; a third waits for its rate limiter, if trials are to wait. `_changed` guards
the table of players and the counters that these threads share; no other lock is taken while it is
held.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from weakref import WeakKeyDictionary

import numpy as np

from cogrs.collector import RequestBatcher
from cogrs.deprecation import renamed_argument
from cogrs.replay.convert import convert
from cogrs.replay.sequence_priority import learned_steps
from cogrs.sdk import step_of_reward
from cogrs.validation import check_number, check_seconds, check_timeout
from cogrs.workers.idle_detector import IdleDetector
from cogrs.workers.player import Player
from cogrs.workers.step_info import STEP_INFO
from cogrs.workers.trial_gate import TrialGate

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from cogrs.replay import ReplayMemory, ReplayMemoryClient

_logger = logging.getLogger("cogrs.workers")

_PATIENCE = 10.0
"""Seconds for a policy that was called to return when its worker is closed."""


class Decision(NamedTuple):
    """A policy's output for k states.

    Fields:
        action: Actions, of the action template's dtype, (k, *action).
        prob: Probabilities with which they were chosen, float32 (k,).
        value: Values of the states, float32 (k,).
        recurrent: The policy's recurrent state for the next states of these trials, of the shape of
            the worker's `recurrent`, (k, *recurrent); None for policies without one.
    """

    action: npt.ArrayLike
    prob: npt.ArrayLike
    value: npt.ArrayLike
    recurrent: npt.ArrayLike | None = None


def _seconds(timeout_ms: float) -> float:
    """Return the timeout that the deprecated argument says in milliseconds."""
    return check_number("timeout_ms", timeout_ms) / 1000


class ActorWorker:
    """Serves agents whose observations are answered together, by one call of a policy.

    ::

        with cogrs.workers.ActorWorker(client, policy) as worker:
            async with await cogrs.sdk.serve(agents={"policy": worker.agent}) as endpoint:
                ...

    Each actor of each trial writes an episode of its own into the client's memory; closed episodes
    are pushed to the server. The memory's `info` is `STEP_INFO`, so that a stored step names its
    trial, actor and tick.

    A policy that raises fails the trials whose states it was given, and no others.
    """

    @renamed_argument("timeout_ms", "timeout", _seconds)
    def __init__(
        self,
        client: ReplayMemoryClient,
        policy: Callable[..., Decision],
        *,
        recurrent: npt.ArrayLike | None = None,
        batch_size: int = 64,
        timeout: float = 0.005,
        samples_per_step: float = 4.0,
        insert_wait: float | None = 0.0,
        on_episode: Callable[[int, float], None] | None = None,
    ) -> None:
        """Start the policy's thread, and the one that pushes.

        Args:
            client: The client whose memory, made by `sync_sizes`, gets the episodes.
            policy: Called on a thread of its own with k states, (k, *state); and, if `recurrent` is
                given, with the recurrent states of their trials, (k, *recurrent).
            recurrent: The recurrent state at the first state of a trial, such as zeros; of any
                dtype and shape. Each actor of each trial has its own. A memory that stores
                recurrent states (`ReplayMemory.recurrent`) gets them with the steps, and says this
                one if it is None.
            batch_size: States per call, at most.
            timeout: Seconds that the first of them waits at most. It waits no longer than until
                every agent of its event loop has asked.
            samples_per_step: Samples pushed for each step stored; of a sequence, each step that is
                learned from is one.
            insert_wait: Seconds that a trial's first action waits at most while the server's rate
                limiter lets no entries in (`ReplayMemoryClient.wait_to_insert`); None as long as it
                takes. At that point nothing has been played that could be lost. By default no trial
                waits, as a person may take part in it; programs that start trials can call
                `wait_to_insert` of the client before each instead.
            on_episode: Called with the number of steps and the sum of rewards of each closed
                episode.

        Raises:
            ValueError: The memory's templates do not fit, its recurrent state is another one, or a
                number is out of range.
        """
        check_seconds("timeout", timeout, above=True)
        if not 0 <= samples_per_step < float("inf"):
            raise ValueError(f"samples_per_step: expected a number >= 0, got {samples_per_step}")
        self._client = client
        self._gate = TrialGate(client, check_timeout("insert_wait", insert_wait))
        self._memory = client.rem
        self._policy = policy
        self._samples_per_step = samples_per_step
        self._on_episode = on_episode
        self.recurrent = _recurrent(self._memory, recurrent)
        """The recurrent state at the first state of a trial."""
        self.dropped_rewards = 0
        """Rewards whose step was evicted or never stored."""
        self.pushed_samples = 0
        """Samples that were pushed to the server."""
        self._players: dict[tuple[str, str], Player] = {}
        self._batcher = _batcher(self._memory, batch_size, timeout, self.recurrent)
        self._detectors: WeakKeyDictionary[asyncio.AbstractEventLoop, IdleDetector] = (
            WeakKeyDictionary()
        )
        self._failure: BaseException | None = None
        self._changed = threading.Condition()
        self._unpushed = 0
        self._closing = False
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
        """Return an agent for one actor of one trial; a factory for `cogrs.sdk.serve`."""
        return Player(self)

    async def begin_episode(self) -> None:
        """Wait until an episode may begin: see `insert_wait`."""
        await self._gate.wait()

    async def decide(self, state: Any, recurrent: Any = None) -> Mapping[str, Any]:
        """Return the policy's `action`, `prob` and `value` for one state, and its `recurrent`.

        Args:
            state: The state; a mapping of arrays where states are records.
            recurrent: The recurrent state of its trial; None stands for that at the first state.

        Raises:
            ValueError, TypeError: The state is not of the memory's shape, or dtype.
            RuntimeError: The policy failed, or the worker is closed.
        """
        if isinstance(state, Mapping):
            template = self._memory.state_buf
            state = convert("state", state, template.dtype, template.shape)
        inputs = {"state": state}
        if self.recurrent is not None:
            inputs["recurrent"] = self.recurrent if recurrent is None else recurrent
        self._idle_detector().note_request()
        decision = await self._batcher.ask_async(inputs)
        if not decision["decided"]:
            raise RuntimeError(f"the policy failed: {self._failure!r}") from self._failure
        return decision

    def _idle_detector(self) -> IdleDetector:
        loop = asyncio.get_running_loop()
        detector = self._detectors.get(loop)
        if detector is None:
            detector = self._detectors[loop] = IdleDetector(loop, self._batcher.flush)
        return detector

    def add_reward(self, trial_id: str, actor_name: str, tick: int, value: float) -> bool:
        """Reward an actor of a trial that may be over; in a running one `Reward` does the same.

        The steps of an episode can be rewarded until it is evicted. Samples that were pushed before
        do not change. Any thread may call this.

        Args:
            trial_id: The trial's id.
            actor_name: The actor's name.
            tick: The reward's tick, >= 1: the action at tick k is rewarded by k + 1.
            value: The number to add.

        Returns:
            Whether the step was found; if not, `dropped_rewards` counts it.

        Raises:
            ValueError: The value, or a result of it, is not finite.
        """
        with self._changed:
            player = self._players.get((trial_id, actor_name))
        step = step_of_reward(tick)
        if (
            player is not None
            and step is not None
            and step < player.steps
            and player.add_reward(step, value)
        ):
            return True
        self.dropped()
        return False

    def closed(self, player: Player) -> None:
        """Note a closed episode."""
        with self._changed:
            # Episodes are evicted in the order in which they were closed.
            self._players[player.key] = player
            while len(self._players) > self._memory.num_episode():
                del self._players[next(iter(self._players))]
        self._owe(player.steps)
        if self._on_episode is not None:
            self._on_episode(player.steps, player.total_reward)

    def _owe(self, steps: int) -> None:
        with self._changed:
            self._unpushed += steps
            self._changed.notify()

    def dropped(self) -> None:
        """Count a reward that reached no step."""
        with self._changed:
            self.dropped_rewards += 1

    def check(self) -> None:
        """Raise a RuntimeError if the policy has failed, with its last exception as cause."""
        if self._failure is not None:
            raise RuntimeError(f"the policy failed: {self._failure!r}") from self._failure

    def close(self) -> None:
        """Stop the policy, and push the rest; a second call does nothing.

        A policy that does not return within 10 s is left to its thread, and logged.
        """
        self._batcher.close()
        self._gate.close()
        with self._changed:
            self._closing = True
            self._changed.notify()
        policy, pusher = self._threads
        pusher.join()
        policy.join(_PATIENCE)
        if policy.is_alive():
            _logger.error("the policy did not return within %g s of close", _PATIENCE)

    def _answer(self) -> None:
        while not self._closing:
            try:
                self._batcher.run(self._call_policy)
            except RuntimeError:  # the batcher is closed: the policy's own are caught below
                return

    def _call_policy(
        self, inputs: Mapping[str, npt.NDArray[Any]], replies: Mapping[str, npt.NDArray[Any]]
    ) -> None:
        try:
            decision = Decision(*self._policy(*inputs.values()))
            for name, given in zip(Decision._fields, decision, strict=True):
                if name == "recurrent" and self.recurrent is None and given is None:
                    continue
                if name not in replies:
                    raise ValueError(f"{name}: expected None, as the worker was created without it")
                reply = replies[name]
                reply[...] = convert(name, given, reply.dtype, reply.shape)
        except BaseException as error:
            # Any exception that ended this thread would leave all agents without an answer.
            _logger.exception("the policy failed, and the trials that waited for it")
            self._failure = error
        else:
            replies["decided"][...] = True

    def _push(self) -> None:
        owed = 0.0
        per_row = learned_steps(self._memory)
        trouble: type[Exception] | None = None
        while steps := self._next_unpushed():
            owed += steps * self._samples_per_step
            try:
                self._client.update_counter()
                cache = self._memory.cache_size * per_row
                while owed >= cache and self._client.push_cache() == 0:
                    owed -= cache
                    self.pushed_samples += self._memory.cache_size
            except Exception as error:
                # Old episodes are given up; later ones are pushed when the server is back.
                owed = 0.0
                if trouble is not type(error):
                    trouble = type(error)
                    text = str(error) or trouble.__name__
                    _logger.warning("nothing is pushed: %s; the actor goes on", text)
            else:
                if trouble is not None:
                    trouble = None
                    _logger.warning("episodes are pushed again: the server is back")

    def _next_unpushed(self) -> int:
        """Wait for closed episodes; return their steps, or 0 after `close`."""
        with self._changed:
            self._changed.wait_for(lambda: self._unpushed or self._closing)
            steps, self._unpushed = self._unpushed, 0
            return steps

    def __enter__(self) -> Self:
        """Return the worker."""
        return self

    def __exit__(self, *_exc: object) -> None:
        """Close it."""
        self.close()


def _recurrent(rem: ReplayMemory, given: npt.ArrayLike | None) -> npt.NDArray[Any] | None:
    """Return the recurrent state at the first state of a trial; a ValueError if two differ."""
    stored = rem.recurrent
    if given is None or stored is None:
        return stored if given is None else np.asarray(given)
    made = np.asarray(given)
    if (made.dtype, made.shape) != (stored.dtype, stored.shape) or not np.array_equal(made, stored):
        expected = f"the memory's, {_described(stored)} of the same values"
        raise ValueError(f"recurrent: expected {expected}, got {_described(made)}")
    return made


def _batcher(
    rem: ReplayMemory, batch_size: int, timeout: float, recurrent: npt.NDArray[Any] | None
) -> RequestBatcher:
    """Return a request batcher for a memory's fields; a ValueError if they do not suit actors."""
    if rem.info_buf.dtype != STEP_INFO or rem.info_buf.shape != ():
        raise ValueError(f"info_buf: expected one STEP_INFO, got {_described(rem.info_buf)}")
    for name, each in (("reward_buf", rem.reward_buf), ("value_buf", rem.value_buf)):
        if np.shape(each) != ():
            raise ValueError(f"{name}: expected one number, got {_described(each)}")
    fields = {"action": rem.action_buf, "prob": rem.prob_buf, "value": rem.value_buf}
    replies = {name: (each.dtype, each.shape) for name, each in fields.items()}
    inputs = {"state": (rem.state_buf.dtype, rem.state_buf.shape)}
    if recurrent is not None:
        inputs["recurrent"] = replies["recurrent"] = (recurrent.dtype, recurrent.shape)
    return RequestBatcher(
        inputs, {**replies, "decided": (np.dtype(bool), ())}, batch_size, timeout=timeout
    )


def _described(array: npt.NDArray[Any]) -> str:
    return f"{array.dtype} {array.shape}"
