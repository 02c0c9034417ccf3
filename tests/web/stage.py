"""An orchestrator, a small environment, and a page with one place, all real."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.testclient import TestClient

import cogrs
from cogrs import sdk
from cogrs.web import Console, Page, Place, game_of
from cogrs.web.wire import unpack_frame
from tests.web.walk import Walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SLACK = 60.0
"""Seconds that nothing comes near, unless it hangs."""


@dataclass
class Stage:
    """What tests talk to."""

    client: TestClient
    page: Page
    place: Place
    server: cogrs.orchestrator.OrchestratorHandle
    console: Console
    taken: list[int] = field(default_factory=list)

    @contextmanager
    def operate(self, token: str | None = None) -> Iterator[Wire]:
        """Connect as an operator; with a new token unless one is given."""
        with self.client.websocket_connect("ws://127.0.0.1:8000/console/ws") as socket:
            wire = Wire(socket)
            wire.send("join", token=self.console.invite() if token is None else token)
            yield wire

    @contextmanager
    def connect(self, **join: Any) -> Iterator[Wire]:
        """Connect, and send a join message; with a new token if there is neither that nor a key."""
        if "token" not in join and "session" not in join:
            join["token"] = self.page.invite(self.place)
        with self.client.websocket_connect("ws://127.0.0.1:8000/ws") as socket:
            wire = Wire(socket)
            wire.send("join", **join)
            yield wire


class Wire:
    """One connection of a program that plays."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self.seen: list[tuple[str, int]] = []
        """Ticks and pictures in their order."""

    def send(self, kind: str, **fields: Any) -> None:
        self._socket.send_text(json.dumps({"type": kind, **fields}))

    def send_text(self, text: str) -> None:
        self._socket.send_text(text)

    def next(self) -> Any:
        """Return the next message; pictures as `("picture", kind, tick, bytes)`."""
        received = self._socket.receive()
        if received["type"] == "websocket.close":
            raise ClosedError(received["code"], received.get("reason", ""))
        if received.get("bytes") is not None:
            kind, tick, picture = unpack_frame(received["bytes"])
            self.seen.append(("picture", tick))
            return {"type": "picture", "kind": kind, "tick": tick, "picture": picture}
        message = json.loads(received["text"])
        if message["type"] == "tick":
            self.seen.append(("tick", message["tick"]))
        return message

    def until(self, kind: str, **fields: Any) -> Any:
        """Return the first message of a type with these fields; the others are skipped."""
        end = time.monotonic() + SLACK
        while time.monotonic() < end:
            message = self.next()
            if message["type"] == kind and all(message[k] == v for k, v in fields.items()):
                return message
        raise AssertionError(f"no {kind} came")

    def until_closed(self) -> tuple[int, str]:
        """Return code and reason of the close."""
        try:
            while True:
                self.next()
        except ClosedError as closed:
            return closed.args[0], closed.args[1]


def report_with(wire: Wire, holds: Callable[[Any], Any]) -> Any:
    """Return the first report for which something holds."""
    end = time.monotonic() + SLACK
    while time.monotonic() < end:
        if holds(report := wire.until("report")):
            return report
    raise AssertionError("no such report came")


class ClosedError(ConnectionError):
    """The server has closed the connection."""


@contextmanager
def stage(
    length: int = 8,
    *,
    trials: int = 1,
    policy: Callable[[sdk.Observation], Any] | None = None,
    local: dict[str, Any] | None = None,
    config: dict[str, Any] | None = None,
    keep_late: Callable[[str, sdk.Reward], bool] | None = None,
    replays: dict[str, Any] | None = None,
    env: type[Walk] = Walk,
    **options: Any,
) -> Iterator[Stage]:
    """A page whose place plays trials of `Walk`, with the options of its `Game`."""
    taken: list[int] = []
    make = lambda: env(length, taken)  # noqa: E731
    player = {"name": "ada", "actor_class": "person", "endpoint": "client"}
    params = {"environment": {"endpoint": "local://walk"}, "actors": [player]}
    factory = sdk.GymnasiumEnvironment.factory(make, frames_to=["ada"])
    parts = {"walk": sdk.local_environments({"": factory}), **(local or {})}
    with ExitStack() as stack:
        server = stack.enter_context(
            cogrs.serve_orchestrator(
                {"trial_params": params, **(config or {})}, port=0, local=parts
            )
        )
        where = f"127.0.0.1:{server.port}"
        game = game_of(make, "Walk", takeover=policy is not None, **options)
        controller, client = sdk.TrialController(where), sdk.ClientActor(where)
        left = [trials]

        async def join() -> Any:
            if not left[0]:
                return None
            left[0] -= 1
            trial = await controller.start_trial()
            return await client.join(trial.id, name="ada")

        place = Place(
            game,
            join,
            policy=policy,
            leave=controller.terminate_trial,
            patience=5.0,
            keep_late=keep_late,
        )
        console = Console(controller, where, replays)
        page = Page(console=console)
        http = stack.enter_context(TestClient(page.app, base_url="http://127.0.0.1:8000"))
        try:
            yield Stage(http, page, place, server, console, taken)
        finally:

            async def close() -> None:
                await page.close()
                await asyncio.gather(client.close(), controller.close())

            assert http.portal is not None
            http.portal.call(close)
