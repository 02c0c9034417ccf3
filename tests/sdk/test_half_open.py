"""Connections that carry nothing any more, of which neither side is told: nobody waits for ever."""

from __future__ import annotations

import asyncio
import signal
import threading
from typing import Any

import grpc
import pytest

from cogrs import sdk
from cogrs.orchestrator import Settings
from cogrs.sdk.endpoint import CHANNEL_OPTIONS
from tests.orchestrator.net import on_loop
from tests.program import program
from tests.sdk.clients import Line, cut_off, game
from tests.sdk.net import calls, named

QUICK = (
    *CHANNEL_OPTIONS,
    ("grpc.keepalive_time_ms", 1000),
    ("grpc.keepalive_timeout_ms", 500),
    ("grpc.http2.ping_timeout_ms", 500),
    ("grpc.http2.max_pings_without_data", 0),
)
"""What finds in seconds that a connection is dead; others' servers take so many pings ill."""


class SilentLine(Line):
    """One that swallows what comes, instead of being cut."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self._age = 0
        self._deaf = False

    def hush(self, *, for_ever: bool = False) -> None:
        """Carry nothing more of the connections that there are, or of any to come."""
        self._age += 1
        self._deaf = self._deaf or for_ever

    async def _serve(self, reader: Any, writer: Any) -> None:
        age = self._age
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        self._writers |= {writer, far_writer}

        async def copy(source: Any, sink: Any) -> None:
            try:
                while data := await source.read(65536):
                    if age == self._age and not self._deaf:
                        sink.write(data)
            except OSError:
                pass

        await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer))
        for each in (writer, far_writer):
            each.close()


@on_loop
async def test_client_replaces_a_silent_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cogrs.sdk.client_session._ANSWER_TIMEOUT", 0.5)
    told, settings = calls(), Settings(heartbeat_timeout=2.0, reconnect_window=30.0)
    async with game(told, settings=settings) as (server, controller, _):
        line = SilentLine(server.port)
        port = await line.start()
        async with sdk.ClientActor(f"127.0.0.1:{port}", heartbeat=0.3, reconnect=60) as client:
            trial = (await controller.start_trial()).id
            seen: list[int] = []
            final = await client.play(cut_off(seen, line.hush), trial, name="c0")
        await line.close()
    assert final is not None
    assert seen == [0, 1, 1, 2, 3, 3, 4]
    assert len(named(told[trial], "step")) == 5


@on_loop
async def test_client_that_cannot_reconnect_gets_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cogrs.sdk.client_session._ANSWER_TIMEOUT", 0.3)
    settings = Settings(heartbeat_timeout=0.5, reconnect_window=0.5)
    async with game(calls(), settings=settings) as (server, controller, _):
        line = SilentLine(server.port)
        port = await line.start()
        async with sdk.ClientActor(f"127.0.0.1:{port}", heartbeat=0.2, reconnect=1) as client:
            trial = (await controller.start_trial()).id
            async with await client.join(trial, name="c0") as session:
                await anext(session)
                line.hush(for_ever=True)
                with pytest.raises(sdk.RemoteCallError):
                    await anext(session)
        await line.close()
        # The orchestrator noticed, too.
        await controller.wait_ended(trial)


@on_loop
async def test_wait_ended_raises_on_a_silent_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cogrs.sdk.controller.CLIENT_OPTIONS", QUICK)
    async with game(calls()) as (server, controller, _):
        line = SilentLine(server.port)
        where = f"127.0.0.1:{await line.start()}"
        async with sdk.TrialController(where) as far:
            trial = (await far.start_trial()).id
            waiting = asyncio.ensure_future(far.wait_ended(trial))
            running = asyncio.ensure_future(asyncio.to_thread(sdk.run_trial, where))
            while len(await controller.trials()) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            line.hush()
            for each in (waiting, running):
                with pytest.raises(sdk.RemoteCallError) as caught:
                    await each
                assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        await line.close()
        for each_id in await controller.trials():
            await controller.terminate_trial(each_id)


@on_loop
async def test_timeout_holds_over_a_silent_connection() -> None:
    async with game(calls()) as (server, controller, _):
        line = SilentLine(server.port)
        where = f"127.0.0.1:{await line.start()}"
        running = asyncio.ensure_future(asyncio.to_thread(sdk.run_trial, where, timeout=1.0))
        while not await controller.trials():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        line.hush(for_ever=True)
        with pytest.raises(TimeoutError, match="within 1 s"):
            await running
        await line.close()
        for each_id in await controller.trials():
            await controller.terminate_trial(each_id)


def test_ctrl_c_ends_the_trial_too() -> None:
    script = """
import cogrs
from cogrs import sdk

params = {"environment": {"endpoint": "local://none"},
          "actors": [{"name": "a", "actor_class": "c", "endpoint": "client"}]}

class Waiting(sdk.Environment):
    def start(self, trial):
        return sdk.Update({"a": 0})

local = {"none": sdk.local_environments({"": Waiting})}
with cogrs.serve_orchestrator({"trial_params": params}, port=0, local=local) as server:
    where = f"127.0.0.1:{server.port}"
    print("runs", flush=True)
    try:
        sdk.run_trial(where)
    except KeyboardInterrupt:
        print({k: v for k, v in server.stats().trials.items() if v}, flush=True)
"""
    with program(script) as process:
        assert process.stdout.readline() == "runs\n"
        timer = threading.Timer(1.5, process.send_signal, (signal.SIGINT,))
        timer.start()
        out, err = process.communicate(timeout=60)
    assert (out, process.returncode) == ("{'ENDED': 1}\n", 0), err
