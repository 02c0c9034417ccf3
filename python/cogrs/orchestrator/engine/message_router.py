"""Rewards and messages between the parties of one trial, until the dispatch that they go out with.

The sources of rewards are kept, not values: they are combined when they go out, into one `Reward`
for each receiver, tick and dispatch. Anything without a tick gets that of the dispatch; anything
for a later tick waits for it. What waits is counted by sender, so that a sender that floods a
trial does not silence the others; a request is counted first, and taken whole or not at all.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from math import isfinite
from operator import itemgetter
from typing import TYPE_CHECKING

from cogrs.api.common_pb2 import ActorPeriodData, Message, Reward, RewardSource
from cogrs.orchestrator.engine.backlog import OVERHEAD, footprint
from cogrs.orchestrator.engine.errors import ExhaustedError, InvalidError, OrchestratorError, short
from cogrs.orchestrator.engine.log import trial_logger
from cogrs.orchestrator.engine.params import ENVIRONMENT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from cogrs.orchestrator.engine.settings import Settings

LATEST = -1
"""Tick of a reward or message that belongs to the tick with which it will be delivered."""

_NumberedSource = tuple[int, RewardSource, int]
"""The number of its arrival, a source, and its footprint."""

_NUMBER = itemgetter(0)


class SenderBacklogs:
    """The number and the bytes of the items of each sender that wait."""

    def __init__(self) -> None:
        """Create counters at 0."""
        self._items: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()

    def add(self, sender: str, size: int) -> None:
        """Count an item that waits from now on."""
        self._items[sender] += 1
        self._bytes[sender] += size

    def remove(self, sender: str, size: int) -> None:
        """Count an item that went out."""
        self._items[sender] -= 1
        self._bytes[sender] -= size

    def find_excess(self, sender: str, items: int, size: int, settings: Settings) -> str:
        """Return why a sender cannot have so many more items and bytes wait; empty if it can.

        Items of more bytes than may wait are taken while nothing else of the sender waits.
        """
        waiting, held = self._items[sender], self._bytes[sender]
        most, most_bytes = settings.post_backlog, settings.post_backlog_bytes
        if waiting + items > most:
            return f"{waiting} items of {sender!r} wait for their ticks; the limit is {most}"
        if held and held + size > most_bytes:
            return f"{held} bytes of {sender!r} wait for their ticks; the limit is {most_bytes}"
        return ""


class MessageBuffer:
    """Messages by receiver, in order."""

    def __init__(self, backlog: SenderBacklogs) -> None:
        """Create an empty buffer, which counts its messages in `backlog`."""
        self._waiting: defaultdict[str, list[tuple[Message, int]]] = defaultdict(list)
        self._backlog = backlog

    @property
    def is_empty(self) -> bool:
        """Whether no message waits."""
        return not self._waiting

    def add(self, sender: str, message: Message) -> None:
        """Keep a copy of a message, under the name of its true sender."""
        kept = Message()
        kept.CopyFrom(message)
        kept.sender_name = sender
        size = footprint(message)
        self._backlog.add(sender, size)
        self._waiting[message.receiver_name].append((kept, size))

    def take(self, receiver: str, tick: int) -> list[Message]:
        """Take all messages for a receiver, by tick and, within a tick, in the order of arrival.

        Messages without a tick are given `tick`, the one that goes out.
        """
        waiting = self._waiting.pop(receiver, None)
        if waiting is None:
            return []
        messages = []
        for message, size in waiting:
            self._backlog.remove(message.sender_name, size)
            if message.tick_id < 0:
                message.tick_id = tick
            messages.append(message)
        return sorted(messages, key=lambda message: message.tick_id)


def is_finite(source: RewardSource) -> bool:
    """Return whether value and confidence are numbers that can be averaged."""
    return isfinite(source.value) and isfinite(source.confidence)


def aggregate(sources: Iterable[RewardSource]) -> float:
    """Return the mean value of the sources, weighted with their confidence.

    ```text
    sum(confidence * value) / sum(confidence)    over finite sources with confidence > 0
    ```

    0 without such sources.
    """
    trusted = [source for source in sources if source.confidence > 0 and is_finite(source)]
    weight = sum(source.confidence for source in trusted)
    if not weight:
        return 0.0
    return sum(source.confidence * source.value for source in trusted) / weight


class _SourcesByTick:
    """Sources for one receiver, by tick, so that a dispatch only looks at those that are due."""

    def __init__(self) -> None:
        self.by_tick: dict[int, list[_NumberedSource]] = {}
        self._ticks: list[int] = []

    def add(self, tick: int, source: _NumberedSource) -> None:
        there = self.by_tick.get(tick)
        if there is None:
            self.by_tick[tick] = [source]
            heapq.heappush(self._ticks, tick)
        else:
            there.append(source)

    def take(self, tick: int, *, everything: bool) -> dict[int, list[_NumberedSource]]:
        due: dict[int, list[_NumberedSource]] = {}
        ticks = self._ticks
        while ticks and (everything or ticks[0] <= tick):
            first = heapq.heappop(ticks)
            due[first] = self.by_tick.pop(first)
        if LATEST in due:
            latest = due.pop(LATEST)
            # In the order in which they came, whether they named the tick or not.
            due[tick] = sorted(due[tick] + latest, key=_NUMBER) if tick in due else latest
        return due


class RewardBuffer:
    """The sources of rewards by receiver and tick."""

    def __init__(self, backlog: SenderBacklogs) -> None:
        """Create an empty buffer, which counts its sources in `backlog`."""
        self._waiting: defaultdict[str, _SourcesByTick] = defaultdict(_SourcesByTick)
        self._backlog = backlog
        self._number = 0

    @property
    def is_empty(self) -> bool:
        """Whether no source waits."""
        return not self._waiting

    def add(self, sender: str, reward: Reward) -> None:
        """Keep copies of the sources, with the name of the true sender; `take` makes a value."""
        waiting, tick = self._waiting[reward.receiver_name], reward.tick_id
        for given in reward.sources:
            size = footprint(given)
            source = RewardSource()
            source.CopyFrom(given)
            source.sender_name = sender
            self._backlog.add(sender, size)
            self._number += 1
            waiting.add(tick, (self._number, source, size))

    def take(self, receiver: str, tick: int, *, everything: bool = False) -> list[Reward]:
        """Take what is due to a receiver with `tick`, one reward for each tick, in their order.

        `everything` takes what is for later ticks too.
        """
        waiting = self._waiting.get(receiver)
        if waiting is None:
            return []
        due = waiting.take(tick, everything=everything)
        if not waiting.by_tick:
            del self._waiting[receiver]
        rewards = []
        for number, numbered in sorted(due.items()):
            sources = [source for _, source, _ in numbered]
            for _, source, size in numbered:
                self._backlog.remove(source.sender_name, size)
            value = aggregate(sources)
            rewards.append(
                Reward(receiver_name=receiver, tick_id=number, value=value, sources=sources)
            )
        return rewards


class MessageRouter:
    """Takes rewards and messages, drops and logs undeliverable ones, and hands out the rest."""

    def __init__(
        self, trial_id: str, actors: Iterable[str], counts: Counter[str], settings: Settings
    ) -> None:
        """Create a router between actors of these names, which counts what it drops in `counts`."""
        self._trial_id = trial_id
        self._log = trial_logger(trial_id)
        self._actors = frozenset(actors)
        self._counts = counts
        self._settings = settings
        self._logged: set[tuple[str, str, str]] = set()
        self._backlog = SenderBacklogs()
        self._rewards = RewardBuffer(self._backlog)
        self._messages = MessageBuffer(self._backlog)

    def check(
        self, sender: str, rewards: Collection[Reward], messages: Collection[Message]
    ) -> None:
        """Refuse more than a sender may have waiting.

        Raises:
            InvalidError: No request may have so much.
            ExhaustedError: Too much of the sender waits already.
        """
        sources, most = self._count_sources(rewards), self._settings.post_backlog
        if len(messages) > most:
            raise InvalidError(f"messages: expected at most {most}, got {len(messages)}")
        items = sources + len(messages)
        size = sum(each.ByteSize() for each in rewards) + sum(each.ByteSize() for each in messages)
        size += OVERHEAD * items
        if excess := self._backlog.find_excess(sender, items, size, self._settings):
            raise ExhaustedError(f"trial {self._trial_id!r}: {excess}")

    def _count_sources(self, rewards: Collection[Reward]) -> int:
        count, most = len(rewards), self._settings.post_backlog
        if count <= most:
            # A reward without sources is work, too.
            count = sum(len(reward.sources) or 1 for reward in rewards)
        if count > most:
            raise InvalidError(f"rewards: expected at most {most} sources, got {count}")
        return count

    def keep(self, sender: str, rewards: Iterable[Reward], messages: Iterable[Message]) -> None:
        """Take rewards and messages that `check` allowed."""
        for reward in rewards:
            self._keep_reward(sender, reward)
        for message in messages:
            receiver = message.receiver_name
            if receiver == ENVIRONMENT or receiver in self._actors:
                self._messages.add(sender, message)
            else:
                self._drop("message", sender, "unknown receiver", receiver)

    def _keep_reward(self, sender: str, reward: Reward) -> None:
        if reward.receiver_name not in self._actors:
            self._drop("reward", sender, "unknown receiver", reward.receiver_name)
        elif not reward.sources:
            self._drop("reward", sender, "no sources")
        elif reward.tick_id < LATEST:
            self._drop("reward", sender, "tick", reward.tick_id)
        else:
            if not all(map(is_finite, reward.sources)):
                self._count_not_finite(sender)
            self._rewards.add(sender, reward)

    def add(self, sender: str, rewards: Collection[Reward], messages: Collection[Message]) -> None:
        """Take rewards and messages of a component, or drop all of them if they are too many."""
        try:
            self.check(sender, rewards, messages)
        except OrchestratorError as error:
            # Rewards are dropped in a reply that has any, messages too.
            for kind, dropped in (("reward", rewards), ("message", messages)):
                if dropped:
                    self._counts[f"dropped {kind}s"] += len(dropped)
                    self._log_once(kind, sender, type(error).__name__, f"the whole reply: {error}")
        else:
            self.keep(sender, rewards, messages)

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return self._rewards.is_empty and self._messages.is_empty

    def take(self, actor: str, tick: int, *, final: bool = False) -> ActorPeriodData:
        """Take what goes to an actor with a tick; the caller adds observations."""
        if self.is_empty:
            return ActorPeriodData()
        rewards = self._rewards.take(actor, tick, everything=final)
        return ActorPeriodData(rewards=rewards, messages=self._messages.take(actor, tick))

    def take_for_environment(self, tick: int) -> list[Message]:
        """Take the messages that go to the environment."""
        return self._messages.take(ENVIRONMENT, tick)

    def _count_not_finite(self, sender: str) -> None:
        self._counts["not finite rewards"] += 1
        if self._counts["not finite rewards"] == 1:
            what = "trial %s: a reward from %r is not finite: it is passed on, but not counted"
            self._log.warning(what, self._trial_id, sender)

    def _drop(self, kind: str, sender: str, reason: str, value: str | int | None = None) -> None:
        self._counts[f"dropped {kind}s"] += 1
        if (sender, kind, reason) not in self._logged:
            text = reason if value is None else f"{reason} {short(value)}"
            self._log_once(kind, sender, reason, text)

    def _log_once(self, kind: str, sender: str, reason: str, text: str) -> None:
        """Log that something is dropped, once for each sender, kind and reason."""
        if (sender, kind, reason) not in self._logged:
            self._logged.add((sender, kind, reason))
            log = "trial %s: %s from %r dropped; further ones are dropped without a warning: %s"
            self._log.warning(log, self._trial_id, kind, sender, text)
