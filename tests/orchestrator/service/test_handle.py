"""Handles of two orchestrators of one process, used by many threads while they stop."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, NoReturn

import pytest

import cogrs
from cogrs import sdk
from cogrs.orchestrator.service.server import _on_loop
from tests.orchestrator.party import Player, World

if TYPE_CHECKING:
    from cogrs.orchestrator import OrchestratorHandle

ENDS = 60.0


def test_call_that_a_closed_loop_did_not_run_is_run_directly() -> None:
    loop = asyncio.new_event_loop()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(_on_loop, loop, lambda: "done")
        while not loop._ready:  # type: ignore[attr-defined]
            pass
        loop.close()
        assert asked.result(5.0) == "done"


def run_for_ever(endpoint: str) -> NoReturn:
    while True:
        sdk.run_trial(endpoint)


def stop_while_asked(handles: list[OrchestratorHandle]) -> None:
    stopped = threading.Event()

    def ask(handle: OrchestratorHandle) -> int:
        asked = 0
        while not stopped.is_set() or not asked:
            handle.stats()
            repr(handle)
            handle.wait(0.0)
            asked += 1
        return asked

    def run(handle: OrchestratorHandle) -> None:
        with pytest.raises(sdk.RemoteCallError):
            run_for_ever(f"127.0.0.1:{handle.port}")

    with ThreadPoolExecutor(16) as pool:
        others: list[Future[object]] = []
        for handle in handles:
            others += [pool.submit(ask, handle), pool.submit(run, handle)]
        for handle in handles:
            stops = [pool.submit(handle.stop, 0.2) for _ in range(2)]
            for stop in stops:
                stop.result(ENDS)
        stopped.set()
        for each in others:
            each.result(ENDS)
    assert all(handle.wait(0.0) for handle in handles)


def test_handles_stop_from_two_threads_during_calls() -> None:
    params = {
        "environment": {"endpoint": "local://world"},
        "actors": [{"name": "a", "actor_class": "p", "endpoint": "local://player"}],
    }
    for _ in range(5):
        handles = []
        for _ in range(2):
            local = {
                "world": sdk.local_environments({"": World}),
                "player": sdk.local_agents({"": Player}),
            }
            handles.append(cogrs.serve_orchestrator({"trial_params": params}, port=0, local=local))
        stop_while_asked(handles)
        assert all(set(each.stats().trials) >= {"ENDED"} for each in handles)
