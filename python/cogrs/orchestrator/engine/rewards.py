"""Rewards on their way to actors."""

from __future__ import annotations

import heapq
from collections import defaultdict
from math import isfinite
from operator import itemgetter
from typing import TYPE_CHECKING

from cogrs.api.common_pb2 import Reward, RewardSource
from cogrs.orchestrator.engine.backlog import Shares, footprint

if TYPE_CHECKING:
    from collections.abc import Iterable

LATEST = -1
"""Tick of what belongs to the tick with which it will be delivered."""

_Kept = tuple[int, RewardSource, int]
"""A source, with the number of its arrival before it and its footprint after it."""

_NUMBER = itemgetter(0)


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


class _Waiting:
    """Sources for one receiver, by tick, so that a dispatch looks at those that are due alone."""

    def __init__(self) -> None:
        self.by_tick: dict[int, list[_Kept]] = {}
        self._ticks: list[int] = []

    def add(self, tick: int, kept: _Kept) -> None:
        there = self.by_tick.get(tick)
        if there is None:
            self.by_tick[tick] = [kept]
            heapq.heappush(self._ticks, tick)
        else:
            there.append(kept)

    def take(self, tick: int, *, everything: bool) -> dict[int, list[_Kept]]:
        due: dict[int, list[_Kept]] = {}
        ticks = self._ticks
        while ticks and (everything or ticks[0] <= tick):
            stamp = heapq.heappop(ticks)
            due[stamp] = self.by_tick.pop(stamp)
        if LATEST in due:
            latest = due.pop(LATEST)
            # In the order in which they came, whether they named the tick or not.
            due[tick] = sorted(due[tick] + latest, key=_NUMBER) if tick in due else latest
        return due


class RewardBook:
    """Keeps the sources of rewards until the dispatch that they go out with."""

    def __init__(self, held: Shares | None = None) -> None:
        """Create an empty book.

        Args:
            held: Is kept at what waits, by sender.
        """
        self._waiting: defaultdict[str, _Waiting] = defaultdict(_Waiting)
        self._held = Shares() if held is None else held
        self._number = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not self._waiting

    def add(self, sender: str, reward: Reward) -> None:
        """Keep the sources of a reward; its value is nobody's but ours to tell.

        Args:
            sender: Its true sender.
            reward: With a tick >= -1.
        """
        waiting, tick = self._waiting[reward.receiver_name], reward.tick_id
        for given in reward.sources:
            size = footprint(given)
            source = RewardSource()
            source.CopyFrom(given)
            source.sender_name = sender
            self._held.add(sender, size)
            self._number += 1
            waiting.add(tick, (self._number, source, size))

    def take(self, receiver: str, tick: int, *, everything: bool = False) -> list[Reward]:
        """Take what is due, one reward for each tick, in the order of ticks.

        Args:
            receiver: Whose.
            tick: The tick that goes out.
            everything: Take what is for future ticks too.
        """
        waiting = self._waiting.get(receiver)
        if waiting is None:
            return []
        due = waiting.take(tick, everything=everything)
        if not waiting.by_tick:
            del self._waiting[receiver]
        for kept in due.values():
            for _, source, size in kept:
                self._held.remove(source.sender_name, size)
        return [_reward(receiver, stamp, due[stamp]) for stamp in sorted(due)]


def _reward(receiver: str, tick: int, kept: list[_Kept]) -> Reward:
    sources = [source for _, source, _ in kept]
    value = aggregate(sources)
    return Reward(receiver_name=receiver, tick_id=tick, value=value, sources=sources)
