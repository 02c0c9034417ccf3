"""Calls that an orchestrator takes and never answers, as one that is stopping may."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from cogrs import sdk
from cogrs.api import orchestrator_pb2_grpc as services
from cogrs.sdk.controller import _wait_until_answered
from tests.orchestrator.net import LIMIT

if TYPE_CHECKING:
    from collections.abc import Iterator


class Unanswering(services.TrialLifecycleServicer):
    """Answers no call until it is let go, or only the watch; the watch is ended in one way."""

    def __init__(self, *, opens: bool, code: grpc.StatusCode | None = None) -> None:
        self.go, self.started = threading.Event(), threading.Event()
        self._opens, self._code = opens, code

    def WatchTrials(self, request: Any, context: Any) -> Iterator[Any]:  # noqa: N802
        if not self._opens:
            self.go.wait(LIMIT)
        context.send_initial_metadata(())
        self.started.wait(LIMIT)
        if self._code is not None:
            context.abort(self._code, "the orchestrator stops")
        yield from ()

    def StartTrial(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.started.set()
        self.go.wait(LIMIT)
        context.abort(grpc.StatusCode.ABORTED, "too late")


@contextmanager
def serving(servicer: Unanswering) -> Iterator[str]:
    with ThreadPoolExecutor(4) as threads:
        server = grpc.server(threads)
        services.add_TrialLifecycleServicer_to_server(servicer, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            servicer.go.set()
            servicer.started.set()
            server.stop(None).wait(LIMIT)


def test_run_trial_without_a_first_answer_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cogrs.sdk.controller._FIRST_ANSWER", 0.3)
    with (
        serving(Unanswering(opens=False)) as where,
        pytest.raises(TimeoutError, match=rf"{where} did not answer within 0\.3 s"),
    ):
        sdk.run_trial(where)


@pytest.mark.parametrize("code", [None, grpc.StatusCode.UNAVAILABLE])
def test_run_trial_whose_start_is_not_answered_ends_with_the_watch(
    code: grpc.StatusCode | None,
) -> None:
    with (
        serving(Unanswering(opens=True, code=code)) as where,
        pytest.raises((ConnectionError, sdk.RemoteCallError)) as caught,
    ):
        sdk.run_trial(where)
    told = "ended the watch of trials" if code is None else "UNAVAILABLE: the orchestrator stops"
    assert told in str(caught.value)


class EndedCall:
    """A call that has ended, or does so, and of which gRPC never delivers the metadata."""

    def __init__(self, *, later: bool) -> None:
        self._later = later
        self.go = threading.Event()

    def add_callback(self, callback: Any) -> bool:
        if self._later:
            threading.Timer(0.1, callback).start()
        return self._later

    def initial_metadata(self) -> None:
        assert self.go.wait(LIMIT), "it was waited for"


@pytest.mark.parametrize("later", [False, True])
def test_call_that_has_ended_is_not_waited_for(later: bool) -> None:
    call = EndedCall(later=later)
    _wait_until_answered(call, "here:1")  # type: ignore[arg-type]
    call.go.set()


def test_start_is_cancelled_where_the_watch_has_ended_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    servicer = Unanswering(opens=True, code=grpc.StatusCode.UNAVAILABLE)
    servicer.started.set()  # the watch ends at once
    wait = _wait_until_answered

    def wait_until_ended(call: Any, endpoint: str) -> None:
        wait(call, endpoint)
        call.code()

    monkeypatch.setattr("cogrs.sdk.controller._wait_until_answered", wait_until_ended)
    with (
        serving(servicer) as where,
        pytest.raises(sdk.RemoteCallError, match="UNAVAILABLE: the orchestrator stops"),
    ):
        sdk.run_trial(where)
