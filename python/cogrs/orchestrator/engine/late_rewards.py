"""Rewards for trials that have ended: they go to agents that have stored their steps.

A trial is forgotten soon after its end. What is kept longer, for late rewards, is little: who may
send them, and where the agents are.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from cogrs.api.common_pb2 import Reward, RewardSource
from cogrs.limits import LATE_SOURCES, LATE_WAITING
from cogrs.orchestrator.engine.client_slot import ClientSlot
from cogrs.orchestrator.engine.endpoint import Endpoint, parse_endpoint
from cogrs.orchestrator.engine.errors import (
    DeniedError,
    ExhaustedError,
    InvalidError,
    NotFoundError,
    PreconditionError,
    short,
)
from cogrs.orchestrator.engine.message_router import aggregate
from cogrs.orchestrator.engine.service_actor import ServiceActor

if TYPE_CHECKING:
    from collections.abc import Collection

    from cogrs.orchestrator.engine.ports import Links
    from cogrs.orchestrator.engine.settings import Settings
    from cogrs.orchestrator.engine.slot_secret import Caller, SlotSecret
    from cogrs.orchestrator.engine.trial_record import TrialContext, TrialRecord


class EndedTrial(NamedTuple):
    """What is kept of a trial that has ended."""

    senders: dict[str, SlotSecret | None]
    """The clients that took part, with the secrets of their slots; None for an agent."""
    agents: dict[str, Endpoint]
    """The agents that took part."""
    ended: float
    """When it ended, by the clock of trials."""

    @classmethod
    def of(cls, trial: TrialRecord, ended: float) -> EndedTrial:
        """Return what is to be kept of a trial."""
        senders: dict[str, SlotSecret | None] = {}
        agents: dict[str, Endpoint] = {}
        for actor in trial.actors:
            if isinstance(actor, ClientSlot) and actor.ready:
                senders[actor.name] = actor.secret
            elif isinstance(actor, ServiceActor) and actor.ready:
                senders[actor.name] = None
                agents[actor.name] = parse_endpoint(actor.name, actor.params.endpoint)
        return cls(senders, agents, ended)


@dataclass
class _Ending:
    """A trial whose actors take their final data, and the requests that wait for its end."""

    over: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: int = 0


class LateRewards:
    """The trials that have ended, and how their agents are rewarded."""

    def __init__(self, context: TrialContext) -> None:
        """Keep no trial yet."""
        self._settings: Settings = context.settings
        self._links: Links = context.links
        self._clock = context.clock
        self._trials: OrderedDict[str, EndedTrial] = OrderedDict()
        self._actors = 0
        self._endings: dict[str, _Ending] = {}

    def keep(self, trial: TrialRecord) -> None:
        """Keep a trial that has ended, for `late_rewards` seconds; the oldest are forgotten."""
        if (ending := self._endings.pop(trial.id, None)) is not None:
            ending.over.set()
        if not self._settings.late_rewards or not trial.actors:
            return
        kept = self._trials[trial.id] = EndedTrial.of(trial, self._clock.now())
        self._actors += len(kept.senders)
        self._forget_old()

    def _forget_old(self) -> None:
        settings = self._settings
        since = self._clock.now() - settings.late_rewards
        while self._trials and (
            len(self._trials) > settings.max_trials
            or self._actors > settings.max_actors
            or next(iter(self._trials.values())).ended < since
        ):
            _, forgotten = self._trials.popitem(last=False)
            self._actors -= len(forgotten.senders)

    async def wait_for_end(
        self, trial: TrialRecord, name: str, rewards: Collection[Reward], caller: Caller
    ) -> None:
        """Wait until a trial has ended that gives its actors their final data already.

        It takes no rewards any more, and its agents have not stored their last steps yet. The final
        data has a deadline, and so has this.

        Raises:
            ExhaustedError: Too many requests wait for that.
            OrchestratorError: As `send`, at once.
        """
        if not self._settings.late_rewards:
            return
        _check_sender(EndedTrial.of(trial, 0.0), name, caller)
        _check(rewards)
        ending = self._endings.setdefault(trial.id, _Ending())
        if ending.waiting >= LATE_WAITING:
            raise ExhaustedError(f"{LATE_WAITING} requests wait for the end of the trial")
        ending.waiting += 1
        try:
            await ending.over.wait()
        finally:
            ending.waiting -= 1

    async def send(
        self, trial_id: str, name: str, rewards: Collection[Reward], caller: Caller
    ) -> int:
        """Reward agents of a trial that has ended; return how many rewards they took.

        Raises:
            NotFoundError: No trial with this id is kept.
            PreconditionError: No actor of this name took part.
            DeniedError: The caller may not speak for this actor.
            InvalidError: A reward has no sources, names no tick, or there are too many.
        """
        self._forget_old()
        ended = self._trials.get(trial_id)
        if ended is None:
            seconds = self._settings.late_rewards
            raise NotFoundError(
                f"no trial {short(trial_id)}: trials take late rewards for {seconds:g} s"
            )
        _check_sender(ended, name, caller)
        _check(rewards)
        taken = 0
        for reward in rewards:
            endpoint = ended.agents.get(reward.receiver_name)
            if endpoint is not None:
                sent = _as_sent(reward, name)
                taken += await self._links.reward_late(trial_id, endpoint, sent)
        return taken


def _check_sender(ended: EndedTrial, name: str, caller: Caller) -> None:
    if name not in ended.senders:
        raise PreconditionError(f"actor {short(name)} did not take part in the trial")
    secret = ended.senders[name]
    if secret is not None:
        secret.check(caller)
    elif not caller.has_all_rights:
        raise DeniedError(f"actor {name!r} is not a client: only controllers speak for it")


def _check(rewards: Collection[Reward]) -> None:
    count = len(rewards)
    if count <= LATE_SOURCES:
        count = sum(len(reward.sources) for reward in rewards)
    if count > LATE_SOURCES:
        raise InvalidError(f"rewards: expected at most {LATE_SOURCES} sources, got {count}")
    for reward in rewards:
        if reward.tick_id < 1:
            expected = "the tick of an observation after the first, as the trial has ended"
            raise InvalidError(f"tick_id: expected {expected}; got {reward.tick_id}")
        if not reward.sources:
            raise InvalidError("sources: expected at least one, got none")


def _as_sent(reward: Reward, sender: str) -> Reward:
    """Return a reward with its value, and the name of its true sender."""
    sources = []
    for given in reward.sources:
        source = RewardSource()
        source.CopyFrom(given)
        source.sender_name = sender
        sources.append(source)
    return Reward(
        receiver_name=reward.receiver_name,
        tick_id=reward.tick_id,
        value=aggregate(sources),
        sources=sources,
    )
