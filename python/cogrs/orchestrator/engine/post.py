"""Everything that the parties of one trial send each other, but observations and actions."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from cogrs.api.common_pb2 import ActorPeriodData, Message, Reward
from cogrs.orchestrator.engine.log import trial_logger
from cogrs.orchestrator.engine.mailbox import Mailbox
from cogrs.orchestrator.engine.params import ENVIRONMENT
from cogrs.orchestrator.engine.rewards import LATEST, RewardBook, is_finite

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sized


class Post:
    """Takes rewards and messages, drops what cannot be delivered and says so, and hands out."""

    def __init__(
        self, trial_id: str, actors: Iterable[str], counts: Counter[str], most_bytes: int
    ) -> None:
        """Know the names of the actors, what to count dropped things in, and what may wait."""
        self._trial_id = trial_id
        self._log = trial_logger(trial_id)
        self._actors = frozenset(actors)
        self._counts = counts
        self._most_bytes = most_bytes
        self._held: Counter[str] = Counter()
        self._flooded: set[str] = set()
        self._rewards = RewardBook(self._held)
        self._messages = Mailbox(self._held)

    def find_excess(self, sender: str) -> str:
        """Return what is too much to take more of a sender, in words; empty if nothing is."""
        # Each has a share of its own, so that nobody who floods a trial silences the others.
        held = self._held[sender]
        if held < self._most_bytes:
            return ""
        return f"{held} bytes of {sender!r} wait for their ticks, of at most {self._most_bytes}"

    def add_rewards(self, sender: str, rewards: Collection[Reward]) -> None:
        """Take rewards of one sender."""
        if self._drop_excess("reward", sender, rewards):
            return
        for reward in rewards:
            if reward.receiver_name not in self._actors:
                self._drop("reward", sender, f"unknown receiver {reward.receiver_name!r}")
            elif not reward.sources:
                self._drop("reward", sender, "no sources")
            elif reward.tick_id < LATEST:
                self._drop("reward", sender, f"tick {reward.tick_id}")
            else:
                if not all(map(is_finite, reward.sources)):
                    self._note_not_finite(sender)
                self._rewards.add(sender, reward)

    def add_messages(self, sender: str, messages: Collection[Message]) -> None:
        """Take messages of one sender."""
        if self._drop_excess("message", sender, messages):
            return
        for message in messages:
            if message.receiver_name == ENVIRONMENT or message.receiver_name in self._actors:
                self._messages.add(sender, message)
            else:
                self._drop("message", sender, f"unknown receiver {message.receiver_name!r}")

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

    def _drop_excess(self, what: str, sender: str, things: Sized) -> bool:
        excess = self.find_excess(sender)
        if not excess or not len(things):
            return False
        self._counts[f"dropped {what}s"] += len(things)
        if sender not in self._flooded:
            self._flooded.add(sender)
            text = "trial %s: %ss dropped, here and from now on without a word: %s"
            self._log.warning(text, self._trial_id, what, excess)
        return True

    def _note_not_finite(self, sender: str) -> None:
        self._counts["not finite rewards"] += 1
        if self._counts["not finite rewards"] == 1:
            what = (
                "trial %s: a reward from %r is not finite: it is passed on, and counts for nothing"
            )
            self._log.warning(what, self._trial_id, sender)

    def _drop(self, what: str, sender: str, why: str) -> None:
        self._counts[f"dropped {what}s"] += 1
        self._log.warning("trial %s: %s from %r dropped: %s", self._trial_id, what, sender, why)
