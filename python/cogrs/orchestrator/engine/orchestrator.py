"""The calls behind the gRPC services: trials are started, joined, watched and ended."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Protocol

from cogrs.api.hooks_pb2 import PreTrialContext
from cogrs.api.orchestrator_pb2 import (
    TrialInfo,
    TrialJoinReply,
    TrialJoinRequest,
    TrialStartReply,
    TrialStartRequest,
    TrialState,
)
from cogrs.limits import LARGE, MANY
from cogrs.orchestrator.engine.client_slot import ClientSlot
from cogrs.orchestrator.engine.end_reason import EndReason
from cogrs.orchestrator.engine.errors import (
    AbortedError,
    DeniedError,
    ExhaustedError,
    InvalidError,
    OrchestratorError,
    PreconditionError,
    UnavailableError,
    short,
)
from cogrs.orchestrator.engine.matchmaking import (
    find_actor,
    find_slot,
    match_by_class,
    match_by_name,
    match_in_any,
)
from cogrs.orchestrator.engine.params import check_name, check_params, check_sizes, merge_params
from cogrs.orchestrator.engine.slot_secret import Caller
from cogrs.orchestrator.engine.state import State
from cogrs.orchestrator.engine.trial_registry import TrialRegistry, TrialWatcher

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from cogrs.api.common_pb2 import Message, Reward, TrialParams
    from cogrs.orchestrator.engine.actor import Actor
    from cogrs.orchestrator.engine.metrics import TrialMetrics
    from cogrs.orchestrator.engine.ports import ReaderPort
    from cogrs.orchestrator.engine.trial_record import TrialContext, TrialRecord

_STOPS = "the orchestrator stops"
_NO_PARAMS = (
    "params: trials run with the parameters that this orchestrator is configured with; "
    "`trial: {accept_params: true}` in its cogment.yaml lets StartTrial give others"
)


class Hook(Protocol):
    """May change the parameters of a trial before it starts."""

    async def pre_trial(self, trial_id: str, context: PreTrialContext) -> PreTrialContext:
        """Return the parameters as they are to be.

        Raises:
            AbortedError: The hook refused them.
            UnavailableError: It cannot be reached.
        """


class Orchestrator:
    """Starts, finds, joins and ends trials."""

    def __init__(
        self,
        defaults: TrialParams,
        context: TrialContext,
        *,
        hooks: Sequence[Hook] = (),
        classes: Collection[str] | None = None,
        accept_params: bool = False,
        require_secrets: bool = False,
    ) -> None:
        """Create an orchestrator without trials.

        `defaults` are the parameters of trials that are started without any; only with
        `accept_params` may StartTrial give others. Hooks are called in their order. `classes` are
        the declared actor classes; None allows any. With `require_secrets`, clients that do not ask
        for a secret are refused.
        """
        self._defaults = defaults
        self._links = context.links
        self._settings = context.settings
        self._hooks = hooks
        self._classes = classes
        self._accept_params = accept_params
        self._require_secrets = require_secrets
        self.metrics: TrialMetrics = context.metrics
        """Counts over all trials since the start."""
        self._stopping = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._trials = TrialRegistry(context, self._check_idle)

    # For controllers.

    async def start(self, request: TrialStartRequest) -> TrialStartReply:
        """Start a trial; only hooks are waited for.

        Raises:
            ExhaustedError: There are too many trials, or their parameters have too many bytes.
            InvalidError: A parameter is wrong.
            DeniedError: The request has parameters, and they are not accepted here.
            AbortedError: A hook refused them, or the trial was ended meanwhile.
            UnavailableError: A hook cannot be reached, or the orchestrator stops.
        """
        if self._stopping:
            raise UnavailableError(_STOPS)
        has_params = request.HasField("params")
        if has_params and not self._accept_params:
            raise DeniedError(_NO_PARAMS)
        check_name("user_id", request.user_id)
        check_sizes(request.params)
        asked = merge_params(self._defaults, request)
        if not self._hooks:  # which may change the actors
            self._trials.check(asked)
        record = self._trials.open(str(uuid.uuid4()), request.user_id, asked.ByteSize())
        self._idle.clear()
        try:
            params = await self._prepare(record, asked)
            trial = self._trials.admit(record, params)
            trial.start()
        except OrchestratorError as error:
            refusal = EndReason(f"StartTrial: {error}", "StartTrial was refused")
            self._trials.get(record.id).end(refusal, failed=True)
            raise
        except BaseException as error:
            reason = f"StartTrial: {type(error).__name__}"
            self._trials.get(record.id).end(reason, failed=True)
            raise
        return TrialStartReply(
            trial_id=trial.id, actors_in_trial=trial.actors_in_trial, params_taken=has_params
        )

    async def _prepare(self, trial: TrialRecord, params: TrialParams) -> TrialParams:
        for hook in self._hooks:
            context = PreTrialContext(params=params, user_id=trial.user_id)
            params = (await hook.pre_trial(trial.id, context)).params
            if trial.over:
                raise AbortedError(f"trial {trial.id} was ended before it started")
        check_params(params, self._classes, self._links.check)
        return params

    def is_large(self, request: TrialStartRequest) -> bool:
        """Return whether `start` would work for long without waiting for anything."""
        params = request.params if request.HasField("params") else self._defaults
        return not self._hooks and (len(params.actors) > MANY or request.ByteSize() > LARGE)

    def terminate(self, trial_id: str) -> None:
        """End a trial, unless it ends already; a NotFoundError if no trial has this id."""
        self._trials.get(trial_id).end("TerminateTrial was called")

    def info(self, trial_id: str | None, *, observation: bool = False) -> list[TrialInfo]:
        """Describe one trial, or all.

        Raises:
            NotFoundError: No trial has this id.
            ExhaustedError: The observations are more than one reply may have.
        """
        trials = [*self._trials] if trial_id is None else [self._trials.get(trial_id)]
        if observation:
            size = sum(trial.latest.ByteSize() for trial in trials if trial.latest is not None)
            if size > self._settings.max_message:
                raise ExhaustedError(
                    f"get_latest_observation: the observations of {len(trials)} trials have {size} "
                    f"bytes; the limit is {self._settings.max_message}: ask for one trial by its "
                    "trial-id"
                )
        return [_info(trial, observation=observation) for trial in trials]

    def trials(self) -> Iterator[TrialRecord]:
        """Return the trials that are listed."""
        return iter(self._trials)

    def watch(self, reader: ReaderPort, states: Collection[State]) -> TrialWatcher:
        """Queue all states, then every change; refuse as `TrialRegistry.watch`, and at a stop."""
        if self._stopping:
            raise UnavailableError(_STOPS)
        return self._trials.watch(reader, states)

    def unwatch(self, watcher: TrialWatcher) -> None:
        """Forget a watcher."""
        self._trials.unwatch(watcher)

    # For client actors.

    def join(self, request: TrialJoinRequest, caller: Caller | None = None) -> TrialJoinReply:
        """Give a client a slot, and a secret if it asks; as `matchmaking`, `SlotSecret.join`."""
        caller = caller or Caller()
        trial, slot = self._match(request, caller)
        slot.secret.join(caller, required=self._require_secrets)
        slot.join()
        reply = TrialJoinReply(
            actor_name=slot.name, trial_id=trial.id, actors_in_trial=trial.actors_in_trial
        )
        if slot.params.HasField("config"):
            reply.config.CopyFrom(slot.params.config)
        return reply

    def _match(self, request: TrialJoinRequest, caller: Caller) -> tuple[TrialRecord, ClientSlot]:
        name, actor_class = request.actor_name, request.actor_class
        by_name = request.WhichOneof("slot_selection") == "actor_name"
        for field in ("trial_id", "actor_name", "actor_class"):
            check_name(field, getattr(request, field))
        if not (name if by_name else actor_class):
            raise InvalidError("slot_selection: expected actor_name or actor_class, got neither")
        if request.trial_id:
            trial = self._trials.get(request.trial_id)
            if by_name:
                return trial, match_by_name(trial, name, caller)
            return trial, match_by_class(trial, actor_class)
        if by_name:
            return match_in_any(self._trials, name=name)
        if self._classes is not None and actor_class not in self._classes:
            raise InvalidError(f"actor_class: no class {short(actor_class)} is declared")
        return match_in_any(self._trials, actor_class=actor_class)

    def client(self, trial_id: str, name: str, caller: Caller | None = None) -> ClientSlot:
        """Return the slot of a client; errors as of `find_slot` and `SlotSecret.check`."""
        slot = find_slot(self._trials.get(trial_id), name)
        slot.secret.check(caller or Caller())
        return slot

    def heartbeat(self, trial_id: str, name: str, caller: Caller | None = None) -> None:
        """Take a sign of life; errors as of `client`, and if no client joined as this actor."""
        slot = self.client(trial_id, name, caller)
        if not slot.ready:
            raise PreconditionError(f"actor {name!r} did not join")
        slot.heard()

    def send(
        self,
        trial_id: str,
        name: str,
        rewards: Collection[Reward] = (),
        messages: Collection[Message] = (),
        caller: Caller | None = None,
    ) -> None:
        """Take rewards and messages of an actor.

        Raises:
            OrchestratorError: As `find_actor`; or no trial has this id, or it has ended; or the
                caller may not speak for this actor; or there are too many, or too much of this
                actor waits already: then nothing is taken.
        """
        trial = self._trials.get(trial_id)
        if trial.over:
            raise PreconditionError(f"trial {short(trial_id)} is over")
        actor = find_actor(trial, name)
        _check_sender(actor, caller or Caller())
        actor.send(rewards, messages)

    async def send_late(
        self, trial_id: str, name: str, rewards: Collection[Reward], caller: Caller | None = None
    ) -> int:
        """Take rewards of an actor as `send`, or, once the trial has ended, for its agents.

        Those that come while the actors take their final data wait for the end.

        Returns:
            How many rewards were taken.

        Raises:
            OrchestratorError: As `send` and `LateRewards.send`.
        """
        trial, late, caller = self._trials.find(trial_id), self._trials.late, caller or Caller()
        if trial is not None and not trial.over:
            self.send(trial_id, name, rewards, caller=caller)
            return len(rewards)
        if trial is not None and trial.state is not State.ENDED:
            await late.wait_for_end(trial, name, rewards, caller)
        return await late.send(trial_id, name, rewards, caller)

    # The stop.

    def begin_stop(self) -> None:
        """Refuse new trials, and begin the end of all."""
        self._stopping = True
        for trial in self._trials.running():
            trial.end(_STOPS)

    async def wait_idle(self) -> None:
        """Wait until all trials have ended."""
        await self._idle.wait()

    def force_stop(self) -> None:
        """Wait for environments no more; when called again, not for actors either."""
        for trial in self._trials.running():
            trial.end(_STOPS, forced=True)

    def finish_stop(self) -> None:
        """End all watches."""
        self._trials.close(UnavailableError(_STOPS))

    def _check_idle(self) -> None:
        if not self._trials.live:
            self._idle.set()


def _check_sender(actor: Actor, caller: Caller) -> None:
    if isinstance(actor, ClientSlot):
        actor.secret.check(caller)
    if caller.has_all_rights:
        return
    if not isinstance(actor, ClientSlot):
        raise DeniedError(f"actor {actor.name!r} is not a client: only controllers speak for it")
    if not actor.ready:
        raise PreconditionError(f"actor {actor.name!r} did not join")


def _info(trial: TrialRecord, *, observation: bool) -> TrialInfo:
    info = TrialInfo(
        trial_id=trial.id,
        state=TrialState.Value(trial.state.name),
        end_reason=trial.end_reason,
        failed=trial.failed,
    )
    if observation and trial.latest is not None:
        info.latest_observation.CopyFrom(trial.latest)
    return info
