"""Everything that the parties of one trial send each other, but observations and actions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cogrs.api.common_pb2 import ActorPeriodData, Message, Reward
from cogrs.orchestrator.engine.backlog import OVERHEAD, Shares
from cogrs.orchestrator.engine.errors import ExhaustedError, InvalidError, OrchestratorError, short
from cogrs.orchestrator.engine.log import trial_logger
from cogrs.orchestrator.engine.mailbox import Mailbox
from cogrs.orchestrator.engine.params import ENVIRONMENT
from cogrs.orchestrator.engine.rewards import LATEST, RewardBook, is_finite

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Collection, Iterable

    from cogrs.orchestrator.engine.settings import Settings


class Post:
    """Takes rewards and messages, drops what cannot be delivered and says so, and hands out."""

    def __init__(
        self, trial_id: str, actors: Iterable[str], counts: Counter[str], settings: Settings
    ) -> None:
        """Create a post in which nothing waits.

        Args:
            trial_id: Whose.
            actors: Their names.
            counts: Counts what is dropped.
            settings: How much may wait.
        """
        self._trial_id = trial_id
        self._log = trial_logger(trial_id)
        self._actors = frozenset(actors)
        self._counts = counts
        self._most = settings.post_backlog
        self._most_bytes = settings.post_backlog_bytes
        self._told: set[tuple[str, str, str]] = set()
        self._held = Shares()
        self._rewards = RewardBook(self._held)
        self._messages = Mailbox(self._held)

    def check(
        self, sender: str, rewards: Collection[Reward], messages: Collection[Message]
    ) -> None:
        """Refuse more than a sender may have waiting; all is taken or nothing.

        Raises:
            InvalidError: No request may have so much.
            ExhaustedError: Too much of the sender waits already.
        """
        sources = self._count_sources(rewards)
        if len(messages) > self._most:
            raise InvalidError(f"messages: expected at most {self._most}, got {len(messages)}")
        items = sources + len(messages)
        size = sum(each.ByteSize() for each in rewards) + sum(each.ByteSize() for each in messages)
        excess = self._held.find_excess(
            sender, items, size + OVERHEAD * items, self._most, self._most_bytes
        )
        if excess:
            raise ExhaustedError(f"trial {self._trial_id!r}: {excess}")

    def _count_sources(self, rewards: Collection[Reward]) -> int:
        count = len(rewards)
        if count <= self._most:
            # One without sources is work, too.
            count = sum(len(reward.sources) or 1 for reward in rewards)
        if count > self._most:
            raise InvalidError(f"rewards: expected at most {self._most} sources, got {count}")
        return count

    def keep(self, sender: str, rewards: Iterable[Reward], messages: Iterable[Message]) -> None:
        """Take what was checked."""
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
                self._note_not_finite(sender)
            self._rewards.add(sender, reward)

    def add(self, sender: str, rewards: Collection[Reward], messages: Collection[Message]) -> None:
        """Take rewards and messages of a component; all are dropped when they are too many."""
        try:
            self.check(sender, rewards, messages)
        except OrchestratorError as error:
            # Rewards are dropped in a reply that has any, messages too.
            for what, things in (("reward", rewards), ("message", messages)):
                if things:
                    self._counts[f"dropped {what}s"] += len(things)
                    self._tell(what, sender, type(error).__name__, f"all of a reply: {error}")
        else:
            self.keep(sender, rewards, messages)

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits for anybody."""
        return self._rewards.is_empty and self._messages.is_empty

    def period(self, actor: str, tick: int, *, final: bool = False) -> ActorPeriodData:
        """Take what goes to an actor with a tick; observations are for the caller to add."""
        if self.is_empty:
            return ActorPeriodData()
        rewards = self._rewards.take(actor, tick, everything=final)
        return ActorPeriodData(rewards=rewards, messages=self._messages.take(actor, tick))

    def environment_messages(self, tick: int) -> list[Message]:
        """Take the messages for the environment."""
        return self._messages.take(ENVIRONMENT, tick)

    def _note_not_finite(self, sender: str) -> None:
        self._counts["not finite rewards"] += 1
        if self._counts["not finite rewards"] == 1:
            what = (
                "trial %s: a reward from %r is not finite: it is passed on, and counts for nothing"
            )
            self._log.warning(what, self._trial_id, sender)

    def _drop(self, what: str, sender: str, reason: str, value: str | int | None = None) -> None:
        self._counts[f"dropped {what}s"] += 1
        if (sender, what, reason) not in self._told:
            self._tell(
                what, sender, reason, reason if value is None else f"{reason} {short(value)}"
            )

    def _tell(self, what: str, sender: str, reason: str, text: str) -> None:
        """Log that something is dropped, once for each sender and reason."""
        if (sender, what, reason) not in self._told:
            self._told.add((sender, what, reason))
            log = "trial %s: %s from %r dropped, and more of the kind without a word: %s"
            self._log.warning(log, self._trial_id, what, sender, text)
