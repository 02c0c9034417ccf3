"""What the services offer, without the services."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Protocol

from cogrs.api.hooks_pb2 import PreTrialContext
from cogrs.api.orchestrator_pb2 import TrialInfo, TrialJoinReply, TrialStartReply, TrialState
from cogrs.limits import LARGE, MANY
from cogrs.orchestrator.engine.caller import Caller
from cogrs.orchestrator.engine.client import ClientActor
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
from cogrs.orchestrator.engine.options import OptionBook
from cogrs.orchestrator.engine.params import check_name, check_params, check_sizes, merge_params
from cogrs.orchestrator.engine.reason import Reason
from cogrs.orchestrator.engine.registry import Registry
from cogrs.orchestrator.engine.slots import (
    actor_named,
    client_named,
    slot_anywhere,
    slot_by_class,
    slot_by_name,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from cogrs.api.common_pb2 import Message, Reward, TrialParams
    from cogrs.api.orchestrator_pb2 import TrialJoinRequest, TrialStartRequest
    from cogrs.orchestrator.engine.actor import Actor
    from cogrs.orchestrator.engine.clock import Clock
    from cogrs.orchestrator.engine.figures import Figures
    from cogrs.orchestrator.engine.ports import Links, ReaderPort
    from cogrs.orchestrator.engine.registry import Watcher
    from cogrs.orchestrator.engine.settings import Settings
    from cogrs.orchestrator.engine.state import State
    from cogrs.orchestrator.engine.trial import Trial

_STOPS = "the orchestrator stops"
_NO_PARAMS = (
    "params: trials run with the parameters that this orchestrator is configured with; "
    "`trial: {accept_params: true}` in its cogment.yaml lets StartTrial give others"
)


class Hook(Protocol):
    """What may change the parameters of a trial before it starts."""

    async def pre_trial(self, trial_id: str, context: PreTrialContext) -> PreTrialContext:
        """Return the parameters as they are to be.

        Raises:
            AbortedError: The hook said no.
            UnavailableError: It cannot be reached.
        """


class Orchestrator:
    """Starts, finds, joins and ends trials."""

    def __init__(
        self,
        defaults: TrialParams,
        settings: Settings,
        clock: Clock,
        links: Links,
        *,
        hooks: Sequence[Hook] = (),
        classes: Collection[str] | None = None,
        exclude: Collection[str] = (),
        options: OptionBook | None = None,
        accept_params: bool = False,
        require_secrets: bool = False,
        brief: bool = False,
    ) -> None:
        """Have no trials.

        Args:
            defaults: Parameters of a trial about which nothing else is said.
            settings: Durations and limits.
            clock: Time.
            links: Reaches components.
            hooks: Asked in this order.
            classes: Declared actor classes; None allows any.
            exclude: Fields of samples that the data log is not told.
            options: Of actors.
            accept_params: Whether StartTrial may give parameters.
            require_secrets: Whether clients that do not ask for a secret are refused.
            brief: Whether clients are not told what failures say.
        """
        self._require_secrets = require_secrets
        self._accept_params = accept_params
        self._defaults = defaults
        self._links = links
        self._settings = settings
        self._hooks = hooks
        self._classes = classes
        self._exclude = exclude
        self._options = options or OptionBook()
        self._stopping = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._trials = Registry(settings, clock, self._check_idle, brief=brief)

    # What controllers ask for.

    async def start(self, request: TrialStartRequest) -> TrialStartReply:
        """Start a trial; only hooks are waited for.

        Raises:
            ExhaustedError: There are too many already, or their parameters have too many bytes.
            InvalidError: Its parameters are no good.
            DeniedError: It has parameters, and they are not accepted here.
            AbortedError: A hook said no, or the trial was ended meanwhile.
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
        if not self._hooks:  # which may change who takes part
            self._trials.check(asked)
        trial = self._trials.open(str(uuid.uuid4()), request.user_id, asked.ByteSize())
        self._idle.clear()
        try:
            params = await self._prepare(trial, asked)
            self._trials.admit(trial, params)
            trial.accept(params, self._links, self._exclude, self._options)
        except OrchestratorError as error:
            trial.end(Reason(f"StartTrial: {error}", "StartTrial was refused"), failed=True)
            raise
        except BaseException as error:
            trial.end(f"StartTrial: {type(error).__name__}", failed=True)
            raise
        actors = trial.everybody.actors_in_trial
        return TrialStartReply(trial_id=trial.id, actors_in_trial=actors, params_taken=has_params)

    async def _prepare(self, trial: Trial, params: TrialParams) -> TrialParams:
        for hook in self._hooks:
            context = PreTrialContext(params=params, user_id=trial.user_id)
            params = (await hook.pre_trial(trial.id, context)).params
            if trial.over:
                raise AbortedError(f"trial {trial.id} was ended before it started")
        check_params(params, self._classes, self._links.check)
        return params

    def is_large(self, request: TrialStartRequest) -> bool:
        """Return whether to start a trial is much work, in which nothing is waited for."""
        params = request.params if request.HasField("params") else self._defaults
        return not self._hooks and (len(params.actors) > MANY or request.ByteSize() > LARGE)

    def terminate(self, trial_id: str) -> None:
        """Ask for the end of a trial; one that ends already is left alone.

        Raises:
            NotFoundError: No such trial.
        """
        self._trials.get(trial_id).end("TerminateTrial was called")

    def info(self, trial_id: str | None, *, observation: bool = False) -> list[TrialInfo]:
        """Tell about one trial, or about all.

        Raises:
            NotFoundError: No such trial.
            ExhaustedError: The observations are more than one reply may have.
        """
        trials = [*self._trials] if trial_id is None else [self._trials.get(trial_id)]
        if observation:
            size = sum(trial.latest.ByteSize() for trial in trials if trial.latest is not None)
            if size > self._settings.max_message:
                raise ExhaustedError(
                    f"get_latest_observation: the observations of {len(trials)} trials have {size} "
                    f"bytes, of at most {self._settings.max_message}: ask for one by its trial-id"
                )
        return [_info(trial, observation=observation) for trial in trials]

    @property
    def figures(self) -> Figures:
        """What was counted since the start."""
        return self._trials.figures

    def trials(self) -> Iterator[Trial]:
        """Return the trials that are listed."""
        return iter(self._trials)

    def watch(self, reader: ReaderPort, states: Collection[State]) -> Watcher:
        """Tell of all trials as they are, and then of every change.

        Raises:
            UnavailableError: The orchestrator stops.
            ExhaustedError: Too many watch already.
        """
        if self._stopping:
            raise UnavailableError(_STOPS)
        return self._trials.watch(reader, states)

    def unwatch(self, watcher: Watcher) -> None:
        """Tell no more."""
        self._trials.unwatch(watcher)

    # What client actors ask for.

    def join(self, request: TrialJoinRequest, caller: Caller | None = None) -> TrialJoinReply:
        """Give a client a slot; the caller is given the secret that it asks for.

        Raises:
            OrchestratorError: As the functions of `slots`, or `SlotLock.join`.
        """
        trial, actor = self._slot(request)
        actor.lock.join(caller or Caller(), required=self._require_secrets)
        actor.join()
        reply = TrialJoinReply(
            actor_name=actor.name,
            trial_id=trial.id,
            actors_in_trial=trial.everybody.actors_in_trial,
        )
        if actor.params.HasField("config"):
            reply.config.CopyFrom(actor.params.config)
        return reply

    def _slot(self, request: TrialJoinRequest) -> tuple[Trial, ClientActor]:
        name, actor_class = request.actor_name, request.actor_class
        by_name = request.WhichOneof("slot_selection") == "actor_name"
        for what in ("trial_id", "actor_name", "actor_class"):
            check_name(what, getattr(request, what))
        if not (name if by_name else actor_class):
            raise InvalidError("slot_selection: expected actor_name or actor_class, got neither")
        if request.trial_id:
            trial = self._trials.get(request.trial_id)
            by = slot_by_name(trial, name) if by_name else slot_by_class(trial, actor_class)
            return trial, by
        if by_name:
            return slot_anywhere(self._trials, name=name)
        if self._classes is not None and actor_class not in self._classes:
            raise InvalidError(f"actor_class: no class {short(actor_class)} is declared")
        return slot_anywhere(self._trials, actor_class=actor_class)

    def client(self, trial_id: str, name: str, caller: Caller | None = None) -> ClientActor:
        """Return the slot of a client.

        Raises:
            OrchestratorError: As `client_named`, or no such trial, or the slot is another's.
        """
        actor = client_named(self._trials.get(trial_id), name)
        actor.lock.check(caller or Caller())
        return actor

    def heartbeat(self, trial_id: str, name: str, caller: Caller | None = None) -> None:
        """Take a sign of life.

        Raises:
            OrchestratorError: As `client`, or nobody joined as this actor.
        """
        actor = self.client(trial_id, name, caller)
        if not actor.ready:
            raise PreconditionError(f"actor {name!r} did not join")
        actor.heard()

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
            OrchestratorError: As `actor_named`, or no such trial, or it has ended, or the caller
                may not speak for this actor, or there are too many, or too much of this actor waits
                already; then nothing is taken.
        """
        trial = self._trials.get(trial_id)
        if trial.over:
            raise PreconditionError(f"trial {short(trial_id)} is over")
        actor: Actor = actor_named(trial, name)
        _check_sender(actor, caller or Caller())
        actor.heard()
        trial.take_sent(actor, rewards, messages)

    # The end of it all.

    def begin_stop(self) -> None:
        """Start no more trials, and end those that there are."""
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
        """Tell those who watch."""
        self._trials.close(UnavailableError(_STOPS))

    def _check_idle(self) -> None:
        if not self._trials.live:
            self._idle.set()


def _check_sender(actor: Actor, caller: Caller) -> None:
    if isinstance(actor, ClientActor):
        actor.lock.check(caller)
    if caller.has_all_rights:
        return
    if not isinstance(actor, ClientActor):
        raise DeniedError(f"actor {actor.name!r} is no client: only controllers speak for it")
    if not actor.ready:
        raise PreconditionError(f"actor {actor.name!r} did not join")


def _info(trial: Trial, *, observation: bool) -> TrialInfo:
    info = TrialInfo(
        trial_id=trial.id,
        state=TrialState.Value(trial.state.name),
        end_reason=trial.end_reason,
        failed=trial.failed,
    )
    if observation and trial.latest is not None:
        info.latest_observation.CopyFrom(trial.latest)
    return info
