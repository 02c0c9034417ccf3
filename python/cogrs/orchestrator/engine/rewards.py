"""Rewards on their way to actors."""

from __future__ import annotations

from collections import Counter, defaultdict
from math import isfinite
from typing import TYPE_CHECKING

from cogrs.api.common_pb2 import Reward, RewardSource
from cogrs.orchestrator.engine.backlog import footprint

if TYPE_CHECKING:
    from collections.abc import Iterable

LATEST = -1
"""Tick of what belongs to the tick with which it will be delivered."""


def is_finite(source: RewardSource) -> bool:
    """Return whether value and confidence are numbers that can be averaged."""
    return isfinite(source.value) and isfinite(source.confidence)


def aggregate(sources: Iterable[RewardSource]) -> float:
    """Return the mean value of the sources, weighted with their confidence.

    ```text
    sum(confidence * value) / sum(confidence)    over sources with confidence > 0
    ```

    0 when there is no such source. One that is not finite has no mean with others: it is none.
    """
    trusted = [source for source in sources if source.confidence > 0 and is_finite(source)]
    weight = sum(source.confidence for source in trusted)
    if not weight:
        return 0.0
    return sum(source.confidence * source.value for source in trusted) / weight


class RewardBook:
    """Keeps the sources of rewards until the dispatch that they go out with."""

    def __init__(self, held: Counter[str] | None = None) -> None:
        """Be empty.

        Args:
            held: Is kept at the bytes that wait, by sender.
        """
        self._waiting: defaultdict[str, list[tuple[int, RewardSource, int]]] = defaultdict(list)
        self._held: Counter[str] = Counter() if held is None else held

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not self._waiting

    def add(self, sender: str, reward: Reward) -> None:
        """Keep the sources of a reward; its value is nobody's but ours to tell.

        Args:
            sender: Who it is really from.
            reward: With a tick >= -1.
        """
        for given in reward.sources:
            source = RewardSource()
            source.CopyFrom(given)
            source.sender_name = sender
            size = footprint(source)
            self._held[sender] += size
            self._waiting[reward.receiver_name].append((reward.tick_id, source, size))

    def take(self, receiver: str, tick: int, *, everything: bool = False) -> list[Reward]:
        """Take what is due, one reward for each tick, in the order of ticks.

        Args:
            receiver: Whose.
            tick: The tick that goes out.
            everything: Take what is for future ticks too.
        """
        by_tick: defaultdict[int, list[RewardSource]] = defaultdict(list)
        later = []
        for stamp, source, size in self._waiting.pop(receiver, ()):
            if stamp > tick and not everything:
                later.append((stamp, source, size))
            else:
                self._held[source.sender_name] -= size
                by_tick[tick if stamp == LATEST else stamp].append(source)
        if later:
            self._waiting[receiver] = later
        return [_reward(receiver, stamp, by_tick[stamp]) for stamp in sorted(by_tick)]


def _reward(receiver: str, tick: int, sources: list[RewardSource]) -> Reward:
    value = aggregate(sources)
    return Reward(receiver_name=receiver, tick_id=tick, value=value, sources=sources)
