"""Starts, watches and ends trials.

Waiting for an end opens the watch before it asks for the state, so that no end is missed: an
earlier one is in the answer, a later one on the watch.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import grpc

from cogrs.api import common_pb2
from cogrs.api import orchestrator_pb2 as pb
from cogrs.api.json_message import fill_message
from cogrs.api.orchestrator_pb2_grpc import TrialLifecycleStub
from cogrs.escape import escaped
from cogrs.event_loop import AsyncCloseable
from cogrs.limits import LEAST_REPORT_PERIOD
from cogrs.sdk.connection import Connection, blocking_channel, metadata_of
from cogrs.sdk.endpoint import CLIENT_OPTIONS, address_of
from cogrs.sdk.remote_errors import RemoteCallError, raising_remote_errors
from cogrs.sdk.trial_state import TrialEnd, TrialState
from cogrs.sdk.trials_report import read_report
from cogrs.sdk.wire import actors_of
from cogrs.validation import check_header, check_kind, check_seconds, check_text, check_timeout
from cogrs.yaml_document import check_document

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import TypeAlias

    from cogrs.api.orchestrator_pb2_grpc import TrialLifecycleAsyncStub
    from cogrs.sdk.connection import Metadata
    from cogrs.sdk.trial import Actor
    from cogrs.sdk.trials_report import TrialsReport
    from cogrs.tls import ClientTls

    Params: TypeAlias = common_pb2.TrialParams | Mapping[str, Any]


_LEAST_PERIOD, _MOST_PERIOD = LEAST_REPORT_PERIOD / 1000, 1e6
"""Seconds between reports."""

_MOST_ENDED = 1000
"""Ended trials that wait for a report, the latest ones."""

_FAREWELL = 0.8
"""Seconds for the request to end a trial that is left early."""

_FIRST_ANSWER = 60.0
"""Seconds for the first answer of an orchestrator: one that stops may never answer a new call."""


@dataclass(frozen=True, slots=True)
class StartedTrial:
    """A trial that was started.

    Attributes:
        id: The trial's id.
        actors: Its actors, in the trial's order.
        end_reason: Why it ended, from `run_trial`; "" before the end, and from orchestrators that
            do not give it.
    """

    id: str
    actors: tuple[Actor, ...]
    end_reason: str = ""


class TrialFailedError(RuntimeError):
    """A trial ended because something failed; see `TrialEnd.failed`.

    Attributes:
        trial: The trial.
        reason: Why it ended.
    """

    def __init__(self, trial: StartedTrial, reason: str) -> None:
        """Create the error."""
        super().__init__(trial, reason)
        self.trial = trial
        self.reason = reason

    def __str__(self) -> str:
        """Return the trial's id and the reason."""
        return escaped(f"trial {self.trial.id} failed: {self.reason}")


class TrialController(AsyncCloseable):
    """Talks to an orchestrator. Close it, or use it as an async context manager.

    It connects when it is first used, and belongs to the event loop that uses it; when that loop is
    closed, another one may use it.

    All calls raise `RemoteCallError`, a `grpc.aio.AioRpcError` whose `code()` and `details()` say
    what was wrong, and `UnreachableError`, which is a ConnectionError too, if no orchestrator
    answers. After `close`, and while another event loop uses it, they raise RuntimeError.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        user_id: str = "",
        tls: ClientTls | None = None,
        token: str | None = None,
    ) -> None:
        """Do not connect yet.

        Args:
            endpoint: `grpc://host:port`, or `host:port`.
            user_id: Name of the user who starts trials, for the data log.
            tls: Certificates, where the orchestrator has one.
            token: Shown to the orchestrator, where it asks for one.

        Raises:
            ValueError: `endpoint` is not an endpoint, a token would be sent to another machine in
                the clear, or a file of `tls` has the wrong content.
            TypeError: An argument has the wrong type.
            OSError: A file cannot be read.
        """
        self._connection: Connection[TrialLifecycleAsyncStub] = Connection(
            endpoint, TrialLifecycleStub, CLIENT_OPTIONS, tls=tls, token=token
        )
        check_text("user_id", user_id)
        self._who = self._connection.metadata
        self._user_id = user_id
        self._endpoint = endpoint

    async def start_trial(
        self, config: bytes | None = None, *, params: Params | None = None
    ) -> StartedTrial:
        """Start a trial; its components start after this returns.

        Args:
            config: The user's configuration of the trial, which may be empty; None takes that of
                the parameters.
            params: Parameters in place of the orchestrator's defaults: a message, or a mapping like
                `trial_params` of a `cogment.yaml`, with configs as `{"content": BASE64}`. Only for
                orchestrators whose configuration says `trial: {accept_params: true}`.

        Raises:
            TypeError, ValueError: An argument has the wrong type or value.
            RuntimeError: The orchestrator ignores parameters of callers; the trial that it started
                with its own is asked to end.
        """
        request = _start_request(config, self._user_id, params)
        with raising_remote_errors(self._endpoint):
            reply = await self._stub.StartTrial(request, metadata=self._who)
        if params is not None and not reply.params_taken:
            await self.terminate_trial(reply.trial_id)
            raise _ignored(self._endpoint)
        return _started(reply)

    async def terminate_trial(self, trial_id: str) -> None:
        """Ask for the end of a trial, without waiting for it."""
        request = pb.TerminateTrialRequest()
        with raising_remote_errors(self._endpoint):
            await self._stub.TerminateTrial(request, metadata=self._who + _of(trial_id))

    async def wait_ended(self, trial_id: str) -> TrialEnd:
        """Wait until a trial has ended, and return its reason.

        Orchestrators forget ended trials after a while. An unknown id is therefore taken for that
        of an ended trial, whose reason is not known. `asyncio.timeout` limits the wait; the trial
        goes on.
        """
        watch = self._stub.WatchTrials(_ENDED, metadata=self._who)
        try:
            with raising_remote_errors(self._endpoint):
                await watch.initial_metadata()
                if (end := await self._end_of(trial_id)) is not None:
                    return end
                async for entry in watch:
                    if entry.trial_id == trial_id:
                        return _end(entry)
            raise _broken(self._endpoint, trial_id)
        finally:
            watch.cancel()

    async def _end_of(self, trial_id: str) -> TrialEnd | None:
        try:
            info = await self._info(trial_id)
        except RemoteCallError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                return TrialEnd()
            raise
        return _end(info) if info.state == pb.TrialState.ENDED else None

    async def trial_state(self, trial_id: str) -> TrialState:
        """Return a trial's state."""
        return TrialState((await self._info(trial_id)).state)

    async def _info(self, trial_id: str) -> pb.TrialInfo:
        metadata = self._who + _of(trial_id)
        with raising_remote_errors(self._endpoint):
            reply = await self._stub.GetTrialInfo(pb.TrialInfoRequest(), metadata=metadata)
        return reply.trial[0]

    async def trials(self) -> dict[str, TrialState]:
        """Return the states of all trials that are listed."""
        with raising_remote_errors(self._endpoint):
            reply = await self._stub.GetTrialInfo(pb.TrialInfoRequest(), metadata=self._who)
        return {info.trial_id: TrialState(info.state) for info in reply.trial}

    async def watch_trials(
        self, states: Iterable[TrialState] = ()
    ) -> AsyncIterator[tuple[str, TrialState]]:
        """Yield the state of every trial, and then each change as it happens.

        Args:
            states: The states to watch for; all if empty.

        Raises:
            TypeError, ValueError: `states` is not an iterable of states.
        """
        request = pb.TrialListRequest(filter=_states(states))
        call = self._stub.WatchTrials(request, metadata=self._who)
        try:
            with raising_remote_errors(self._endpoint):
                async for entry in call:
                    yield entry.trial_id, TrialState(entry.state)
        finally:
            call.cancel()

    async def watch_reports(self, period: float = 1.0) -> AsyncIterator[TrialsReport]:
        """Yield how the orchestrator and its trials fare, at once and then every `period` seconds.

        Orchestrators of other makes, and older ones, send no reports.

        Args:
            period: Seconds, from 0.5.

        Raises:
            TypeError, ValueError: `period` is not such a number.
        """
        check_seconds("period", period)
        if period < _LEAST_PERIOD:
            raise ValueError(f"period: expected at least {_LEAST_PERIOD} s, got {period!r}")
        request = pb.TrialListRequest(
            filter=[pb.TrialState.ENDED], report_period=round(1000 * min(period, _MOST_PERIOD))
        )
        call = self._stub.WatchTrials(request, metadata=self._who)
        ended: dict[str, TrialEnd] = {}
        try:
            with raising_remote_errors(self._endpoint):
                async for entry in call:
                    if entry.HasField("report"):
                        yield read_report(entry.report, ended)
                        ended = {}
                    else:
                        ended[entry.trial_id] = _end(entry)
                        if len(ended) > _MOST_ENDED:
                            del ended[next(iter(ended))]
        finally:
            call.cancel()

    async def versions(self) -> dict[str, str]:
        """Return the versions of the orchestrator and of its parts."""
        with raising_remote_errors(self._endpoint):
            reply = await self._stub.Version(common_pb2.VersionRequest(), metadata=self._who)
        return {each.name: each.version for each in reply.versions}

    async def close(self) -> None:
        """Close the connection, if it is open."""
        await self._connection.close()

    @property
    def _stub(self) -> TrialLifecycleAsyncStub:
        return self._connection.stub


def run_trial(
    endpoint: str,
    config: bytes | None = None,
    *,
    user_id: str = "",
    timeout: float | None = None,
    tls: ClientTls | None = None,
    token: str | None = None,
    params: Params | None = None,
) -> StartedTrial:
    """Start a trial, and block until it has ended: `TrialController` for scripts, in one call.

    A call that is left earlier, by Ctrl-C for instance, asks the trial to end. Do not block the
    event loop on which the trial's own components run with it.

    Args:
        endpoint: `grpc://host:port`, or `host:port`, of the orchestrator.
        config: As of `TrialController.start_trial`.
        user_id: Name of the user who starts it, for the data log.
        timeout: Seconds; None waits for ever, once the orchestrator has answered.
        tls: As of `TrialController`.
        token: As of `TrialController`.
        params: As of `TrialController.start_trial`.

    Returns:
        The trial after its end, with `end_reason`.

    Raises:
        TrialFailedError: The trial failed: see `TrialEnd.failed`.
        TypeError, ValueError, RuntimeError, OSError: As `TrialController` and its `start_trial`.
        TimeoutError: It did not end in time, and was asked to end; or the orchestrator did not
            answer within 60 s.
        UnreachableError: No orchestrator answers there.
        RemoteCallError: The orchestrator refuses.
    """
    check_timeout("timeout", timeout)
    check_text("user_id", user_id)
    until = None if timeout is None else time.monotonic() + timeout
    who = metadata_of(address_of(endpoint), tls, token)
    request = _start_request(config, user_id, params)
    with blocking_channel(address_of(endpoint), CLIENT_OPTIONS, tls) as channel:
        stub = TrialLifecycleStub(channel)
        # Watched before it is started, so that its end cannot be missed.
        watch = stub.WatchTrials(_ENDED, timeout=timeout, metadata=who)
        trial, end = None, None
        try:
            with raising_remote_errors(endpoint):
                _wait_until_answered(watch, endpoint)
                left = None if until is None else max(until - time.monotonic(), 0.0)
                start = stub.StartTrial.future(request, timeout=left, metadata=who)
                # An orchestrator that stops ends the watch, and may never answer the other call.
                _cancel_with(watch, start)
                try:
                    reply = start.result()
                except grpc.FutureCancelledError:
                    for _ in watch:  # raises why it ended
                        pass
                    raise ConnectionError(f"{endpoint} ended the watch of trials") from None
                trial = _started(reply)
                if params is not None and not reply.params_taken:
                    raise _ignored(endpoint)
                ends = (_end(entry) for entry in watch if entry.trial_id == trial.id)
                end = next(ends, None)
            if end is None:
                raise _broken(endpoint, trial.id)
            if end.failed:
                raise TrialFailedError(replace(trial, end_reason=end.reason), end.reason)
            return replace(trial, end_reason=end.reason)
        except RemoteCallError as error:
            if until is None or error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
                raise
            if trial is None:
                raise TimeoutError(f"{endpoint} did not answer within {timeout:g} s") from error
            late = f"trial {trial.id} did not end within {timeout:g} s"
            raise TimeoutError(f"{endpoint}: {late}") from error
        finally:
            watch.cancel()
            if trial is not None and end is None:
                _ask_end(stub, who + _of(trial.id))


def _cancel_with(watch: grpc.Call, call: Any) -> None:
    """Cancel a call when the watch ends, or now if it has ended."""
    if not watch.add_callback(call.cancel):
        call.cancel()


def _wait_until_answered(call: grpc.Call, endpoint: str) -> None:
    """Wait until a call is answered, or has ended.

    gRPC may keep a call whose server stops waiting for metadata for ever, though it has ended.
    """
    answered = threading.Event()

    def ask() -> None:
        call.initial_metadata()
        answered.set()

    if not call.add_callback(answered.set):
        return
    threading.Thread(target=ask, name="cogrs-first-answer", daemon=True).start()
    if not answered.wait(_FIRST_ANSWER):
        call.cancel()
        raise TimeoutError(f"{endpoint} did not answer within {_FIRST_ANSWER:g} s")


_ENDED = pb.TrialListRequest(filter=[pb.TrialState.ENDED])


def _ask_end(stub: TrialLifecycleStub, who: Metadata) -> None:
    with suppress(grpc.RpcError):  # the error that led here says more
        stub.TerminateTrial(pb.TerminateTrialRequest(), timeout=_FAREWELL, metadata=who)


def _of(trial_id: str) -> Metadata:
    check_header("trial_id", trial_id)
    return (("trial-id", trial_id),)


def _start_request(
    config: bytes | None, user_id: str, params: Params | None
) -> pb.TrialStartRequest:
    request = pb.TrialStartRequest(user_id=user_id)
    if params is not None:
        request.params.CopyFrom(_as_params(params))
    if config is not None:
        check_kind("config", config, bytes, "the bytes of a message, or None")
        request.config.content = config
    return request


def _states(states: Iterable[TrialState]) -> list[pb.TrialState.ValueType]:
    check_kind("states", states, Iterable, "an iterable of TrialState")
    known = set(TrialState)
    for state in (states := list(states)):
        if state not in known:
            raise ValueError(f"states: expected an iterable of TrialState, got {state!r}")
    return [pb.TrialState.ValueType(state) for state in states]


def _as_params(params: Params) -> common_pb2.TrialParams:
    if isinstance(params, common_pb2.TrialParams):
        return params
    check_kind("params", params, Mapping, "TrialParams, a mapping, or None")
    try:
        check_document(params)
        return fill_message(common_pb2.TrialParams(), dict(params))
    except ValueError as error:
        raise ValueError(f"params: {' '.join(str(error).split())}") from error


def _ignored(endpoint: str) -> RuntimeError:
    return RuntimeError(
        f"params: {endpoint} started a trial with its own parameters: it does not accept any "
        "with StartTrial. The trial was asked to end"
    )


def _started(reply: pb.TrialStartReply) -> StartedTrial:
    return StartedTrial(reply.trial_id, actors_of(reply.actors_in_trial))


def _end(info: pb.TrialInfo | pb.TrialListEntry) -> TrialEnd:
    return TrialEnd(info.end_reason, info.failed)


def _broken(endpoint: str, trial_id: str) -> ConnectionError:
    return ConnectionError(f"trial {trial_id}: {endpoint} ended the watch of trials")
