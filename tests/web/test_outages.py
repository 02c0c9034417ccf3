"""A page whose orchestrator goes away, and a page behind TLS."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.sync.server import serve

from cogrs import orchestrator, sdk
from cogrs.tls import ServerTls
from cogrs.web import app, game_of, serve_page
from tests.orchestrator.net import on_loop
from tests.web.browser import Browser, browser, needs_browser, play
from tests.web.sockets import until
from tests.web.walk import Walk

PLAYER = {"name": "ada", "actor_class": "person", "endpoint": "client"}


def config() -> dict[str, Any]:
    return {"trial_params": {"environment": {"endpoint": "local://walk"}, "actors": [PLAYER]}}


def local(length: int) -> dict[str, Any]:
    walk = sdk.GymnasiumEnvironment.factory(lambda: Walk(length), frames_to=["ada"])
    return {"walk": sdk.local_environments({"": walk})}


async def start_trial(where: str) -> sdk.StartedTrial:
    """Start a trial, once the orchestrator is found again."""
    async with sdk.TrialController(where) as controller:
        while True:
            try:
                return await controller.start_trial()
            except sdk.UnreachableError:
                await asyncio.sleep(0.1)


@on_loop
async def test_place_outlives_its_orchestrator_and_plays_the_next_trial() -> None:
    server = await orchestrator.serve(config(), port=0, local=local(9))
    where, port = f"127.0.0.1:{server.port}", server.port
    game = game_of(Walk, "Walk", mode="press")
    made = app(where, game, actor_class="person", patience=1.0)
    page, (place,) = made.state.page, made.state.places
    async with serve_page(page) as pages, connect(f"ws://127.0.0.1:{pages.port}/ws") as socket:
        join = {"type": "join", "token": page.invite(place)}
        await socket.send(json.dumps(join))
        assert (await until(socket, "state"))["state"] == "waiting"
        first = await start_trial(where)
        await until(socket, "state", state="playing", trial=first.id)
        await server.stop(0)
        await until(socket, "state", state="waiting")
        again = await orchestrator.serve(config(), port=port, local=local(2))
        second = await start_trial(where)
        await until(socket, "state", state="playing", trial=second.id)
        for tick in range(2):
            await socket.send(json.dumps({"type": "action", "value": 1}))
            if tick == 0:
                await until(socket, "tick", tick=1)
        await until(socket, "state", state="ended", trial=second.id)
        await again.stop(0)


# Keeps the waits of a page, and makes them short. Pages wait less than 150 ms for other things.
COUNT_WAITS = """
window.waits = [];
const wait = window.setTimeout;
window.setTimeout = (call, after) => {
  if (after < 150) return wait(call, after);
  window.waits.push(after);
  return wait(call, after / 50);
};
"""


def tried(page: Browser) -> list[int]:
    """Return the page's waits between two attempts in milliseconds, without their jitter."""
    waits = page.script("return window.waits")
    assert all(187 <= wait <= 8000 for wait in waits)
    steps = (250, 500, 1000, 2000, 4000, 8000)
    found = [next(step for step in steps if wait <= 1.25 * step) for wait in waits]
    assert all(wait >= 0.75 * step for wait, step in zip(waits, found, strict=True))
    return found


@needs_browser
def test_page_waits_longer_after_each_attempt_to_connect_and_starts_anew_once_answered() -> None:
    def hang_up(socket: Any) -> None:
        socket.recv()
        socket.send(json.dumps({"type": "state", "state": "waiting"}))
        socket.close(1011)

    with browser() as page:
        source = {"source": COUNT_WAITS}
        page.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", source)
        with play("CartPole-v1") as at:
            page.open(at["url"])
            page.until(lambda: page.shown("join"))
            page.script("window.waits.length = 0")
        waits = page.until(lambda: (found := tried(page))[-3:] == [8000] * 3 and found)
        # The server may still have answered while it closed.
        begin = len(waits) - 1 - waits[::-1].index(250)
        assert waits[begin:] == [250, 500, 1000, 2000, 4000, *[8000] * (len(waits) - begin - 5)]
        with serve(hang_up, "127.0.0.1", at["port"]) as server:
            threading.Thread(target=server.serve_forever).start()
            page.until(lambda: tried(page).count(250) > waits.count(250))
            server.shutdown()


@on_loop
async def test_judgements_that_a_closing_page_has_taken_are_sent(caplog: Any) -> None:
    samples: list[sdk.Sample] = []

    class Log(sdk.DatalogSink):
        def sample(self, sample: sdk.Sample) -> None:
            samples.append(sample)

    logged = {**config(), "datalog": {"type": "grpc", "url": "local://log"}}
    parts = {**local(9), "log": sdk.local_datalog(Log)}
    async with await orchestrator.serve(logged, port=0, local=parts) as server:
        where = f"127.0.0.1:{server.port}"
        made = app(where, game_of(Walk, "Walk", mode="press"), actor_class="person")
        page, (place,) = made.state.page, made.state.places
        async with serve_page(page) as pages, connect(f"ws://127.0.0.1:{pages.port}/ws") as socket:
            await socket.send(json.dumps({"type": "join", "token": page.invite(place)}))
            await start_trial(where)
            for tick in range(4):
                await until(socket, "tick", tick=tick)
                await socket.send(json.dumps({"type": "action", "tick": tick, "value": 1}))
            await until(socket, "tick", tick=4)
            for tick in range(1, 5):
                await socket.send(json.dumps({"type": "feedback", "tick": tick, "value": 1}))
            await socket.send(json.dumps({"type": "ping", "id": 1}))
            await until(socket, "ack", of="ping")
    judged = {
        reward.tick
        for sample in samples
        for reward in sample.rewards.get("ada", ())
        if any(source.sender_name == "ada" for source in reward.sources)
    }
    assert judged == {1, 2, 3, 4}
    assert "Task exception" not in caplog.text


@on_loop
async def test_page_behind_tls_is_reached_by_its_certificate_alone(tmp_path: Any) -> None:
    trustme = pytest.importorskip("trustme")
    authority = trustme.CA()
    pair = authority.issue_cert("127.0.0.1")
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    pair.cert_chain_pems[0].write_to_path(certificate)
    pair.private_key_pem.write_to_path(key)
    key.chmod(0o600)
    game = game_of(Walk, "Walk")
    made = app("127.0.0.1:9", game, actor_class="person")
    page, (place,) = made.state.page, made.state.places
    context = ssl.create_default_context()
    authority.configure_trust(context)
    tls = ServerTls(certificate=certificate, key=key)
    async with serve_page(page, tls=tls) as pages:
        assert pages.url("x") == f"https://127.0.0.1:{pages.port}/#x"
        where = f"wss://127.0.0.1:{pages.port}/ws"
        with pytest.raises(ssl.SSLError):
            await connect(where, ssl=ssl.create_default_context())
        async with connect(where, ssl=context, origin=pages.url("")[:-2]) as socket:
            await socket.send(json.dumps({"type": "join", "token": page.invite(place)}))
            await until(socket, "hello")


def test_other_machines_need_tls() -> None:
    made = app("127.0.0.1:9", game_of(Walk, "Walk"), actor_class="person")
    with pytest.raises(ValueError, match=r"host: other machines reach '0.0.0.0': expected tls"):
        serve_page(made.state.page, host="0.0.0.0")


@on_loop
async def test_taken_port_is_an_error_at_once() -> None:
    made = app("127.0.0.1:9", game_of(Walk, "Walk"), actor_class="person")
    async with serve_page(made.state.page) as pages:
        with pytest.raises(OSError, match="in use"):
            serve_page(made.state.page, port=pages.port)
    await asyncio.sleep(0)
