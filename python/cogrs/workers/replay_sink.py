"""Data logs into replay: the same episodes that live agents would have written.

The same `Player` stores them; its decisions are the log's actions instead of a policy's.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from cogrs.deprecation import renamed_argument
from cogrs.sdk import DatalogSink, Final, Trial
from cogrs.workers.player import Player

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Mapping, Sequence

    import numpy.typing as npt

    from cogrs.replay import ReplayMemory
    from cogrs.sdk import LoggedTrial, Sample

    Annotate: TypeAlias = Callable[[npt.NDArray[Any], Any], "PolicyAnnotation"]


class PolicyAnnotation(NamedTuple):
    """The values of a policy for a step, which data logs lack and stored steps have.

    Fields:
        prob: Probability with which the action was chosen.
        value: Value of the state.
    """

    prob: float = 1.0
    value: float = 0.0


class ReplaySink(DatalogSink):
    """Writes a trial into a memory as `ActorWorker` does: an episode for each actor.

    Late rewards, ends and broken trials have the same result, by the same code. An actor whose
    agent failed has no episode, as its worker would have dropped it. A log holds no probabilities
    and values: `annotate` returns them.

    The memory's `info` is `STEP_INFO`. The memory is written when samples arrive: by one thread at
    a time, or by an event loop.
    """

    inline = True

    @renamed_argument("judge", "annotate")
    def __init__(
        self,
        memory: ReplayMemory,
        annotate: Annotate | None = None,
        *,
        actors: Collection[str] | None = None,
    ) -> None:
        """Write to a memory.

        Args:
            memory: Stores the episodes.
            annotate: Called with a state and the action that answered it, which is None for the
                last state of an episode that did not terminate; None takes `PolicyAnnotation()`.
            actors: Names of the actors that are stored; None stands for all.
        """
        self._memory = memory
        self._annotate = annotate or (lambda _state, _action: PolicyAnnotation())
        self._actors = actors
        self._players: dict[str, Player] = {}
        self._decisions: _LoggedDecisions | None = None
        self._unanswered: set[str] = set()
        self.dropped_rewards = 0
        """Rewards that reached no step."""
        self.episodes = 0
        """Closed episodes."""

    def start(self, trial: LoggedTrial) -> None:
        """Open the episodes."""
        self._decisions = _LoggedDecisions(self)
        for actor in trial.actors:
            if self._actors is None or actor.name in self._actors:
                player = Player(self._decisions)
                player.start(Trial(trial.id, trial.actors, actor.name))
                self._players[actor.name] = player

    async def sample(self, sample: Sample) -> None:
        """Store what happened at a tick."""
        for name, player in list(self._players.items()):
            if sample.end_reason:
                await self._finish(name, player, sample)
            else:
                await self._go_on(name, player, sample)

    def lost(self) -> None:
        """Drop open episodes, whose ends are not known."""
        for player in self._players.values():
            player.lost()
        self._players.clear()

    def end(self) -> None:
        """Drop episodes that are open because samples were lost on the way."""
        self.lost()

    async def _go_on(self, name: str, player: Player, sample: Sample) -> None:
        for reward in sample.rewards.get(name, ()):
            player.reward(reward)
        decisions = self._decisions
        if decisions is None or name not in sample.observations or name in self._unanswered:
            return
        if name in sample.actions:
            decisions.action = sample.actions[name]
            await player.act(sample.observations[name])
        else:
            await player.see(sample.observations[name])
            self._unanswered.add(name)

    async def _finish(self, name: str, player: Player, sample: Sample) -> None:
        del self._players[name]
        if sample.end_reason.startswith(f"actor {name!r} at "):
            player.lost()
            return
        if self._decisions is not None:
            self._decisions.action = None
        observation = sample.observations.get(name)
        await player.end(Final(observation, sample.rewards.get(name, ())))

    def judged(self, state: Any, action: Any) -> PolicyAnnotation:
        """Deprecated: the former name of `annotation`."""
        warnings.warn("judged() is now annotation()", DeprecationWarning, stacklevel=2)
        return self.annotation(state, action)

    def annotation(self, state: Any, action: Any) -> PolicyAnnotation:
        """Return what the policy says of a step."""
        return PolicyAnnotation(*self._annotate(state, action))


class _LoggedDecisions:
    """Decides what the log says: the worker of players that replay a log."""

    recurrent = None

    def __init__(self, sink: ReplaySink) -> None:
        self.action: Any = None
        self._sink = sink
        self.memory = sink._memory

    async def begin_episode(self) -> None:
        pass  # what was logged has happened

    async def decide(self, state: Any, recurrent: Any) -> Mapping[str, Any]:
        del recurrent
        prob, value = self._sink.annotation(state, self.action)
        return {"action": self.action, "prob": np.float32(prob), "value": np.float32(value)}

    def closed(self, player: Player) -> None:
        del player
        self._sink.episodes += 1

    def dropped(self) -> None:
        self._sink.dropped_rewards += 1


@renamed_argument("judge", "annotate")
async def feed_log(
    memory: ReplayMemory,
    paths: Sequence[str | os.PathLike[str]],
    annotate: Annotate | None = None,
    *,
    actors: Collection[str] | None = None,
) -> int:
    """Write trials of files into a memory, in their order; see `ReplaySink`.

    Args:
        memory: Stores the episodes.
        paths: Files of `JsonLinesSink` or `ParquetSink`.
        annotate: As of `ReplaySink`.
        actors: As of `ReplaySink`.

    All files are read once first, so nothing is written if one of them is broken.

    Returns:
        How many episodes were closed.

    Raises:
        OSError, ValueError: As `cogrs.sdk.read_log`; the memory is as it was.
        Exception: Any that `annotate` raises, or the memory for values that do not fit. A note of
            the exception says how many episodes were written before.
    """
    from cogrs.sdk import read_log

    for path in paths:
        for _ in read_log(path)[1]:
            pass
    episodes = 0
    for path in paths:
        trial, samples = read_log(path)
        sink = ReplaySink(memory, annotate, actors=actors)
        sink.start(trial)
        try:
            for sample in samples:
                await sink.sample(sample)
        except Exception as error:
            count = episodes + sink.episodes
            error.add_note(f"{path}: {count} episodes were written before this")
            raise
        finally:
            sink.lost()
        episodes += sink.episodes
    return episodes
