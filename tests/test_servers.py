"""The ways to start a server: their handles have the same methods."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import cogrs
from cogrs import orchestrator, sdk
from cogrs.replay import start_server
from tests.orchestrator.party import World

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TOKEN = "a-token-of-enough-length"
ENVIRONMENTS = {"": World}
TEMPLATES = (np.zeros(2, np.float32), *[np.float32(0)] * 6)
TOML = "n_caches = 1\n" + "".join(
    f'[templates.{name}]\ndtype = "<f4"\n'
    for name in ("state", "action", "reward", "prob", "value", "qvest", "info")
)


def replay_server(_path: Path) -> Any:
    server = cogrs.ReplayMemoryServer(*TEMPLATES, 0, "tcp://127.0.0.1:*", 1, log_seconds=None)
    return server.start()


def replay_server_of_file(path: Path) -> Any:
    path.write_text(TOML, encoding="utf-8")
    return start_server(path)


STARTERS: list[Callable[[Path], Any]] = [
    lambda _path: cogrs.serve_orchestrator({}, port=0),
    lambda _path: sdk.serve_endpoint(environments=ENVIRONMENTS),
    replay_server,
    replay_server_of_file,
]


@pytest.mark.parametrize("start", STARTERS)
def test_close_of_a_server_ends_its_block_and_every_wait(
    start: Callable[[Path], Any], tmp_path: Path
) -> None:
    with start(tmp_path / "server.toml") as server:
        assert server.wait(0) is False
        waiting = threading.Thread(target=server.wait, daemon=True)
        waiting.start()
        server.close()
        assert server.wait(60) is True
        waiting.join(60)
        assert not waiting.is_alive()
    server.close()


@pytest.mark.parametrize("start", STARTERS)
def test_wait_for_a_server_refuses_a_negative_timeout(
    start: Callable[[Path], Any], tmp_path: Path
) -> None:
    with (
        start(tmp_path / "server.toml") as server,
        pytest.raises(ValueError, match="timeout: expected seconds >= 0 or None, got -1"),
    ):
        server.wait(-1)


def test_close_on_the_running_loop_stops_the_server() -> None:
    async def main() -> None:
        for server in (
            await orchestrator.serve({}, port=0),
            await sdk.serve(environments=ENVIRONMENTS),
        ):
            assert server.address == f"grpc://127.0.0.1:{server.port}"
            await server.close(timeout=0.1)
            await asyncio.wait_for(server.wait(), 60)

    asyncio.run(main())


def test_controllers_reach_an_orchestrator_by_its_address() -> None:
    with cogrs.serve_orchestrator({}, port=0) as server:
        assert server.address == f"grpc://127.0.0.1:{server.port}"


def test_tokens_of_serve_orchestrator_are_asked_for() -> None:
    async def trials(server: Any, token: str | None) -> Any:
        async with sdk.TrialController(server.address, token=token) as controller:
            return await controller.trials()

    with cogrs.serve_orchestrator({}, port=0, tokens=[TOKEN]) as server:
        assert asyncio.run(trials(server, TOKEN)) == {}
        with pytest.raises(sdk.RemoteCallError, match="authorization: Bearer"):
            asyncio.run(trials(server, None))


def test_serve_orchestrator_refuses_tokens_beside_security() -> None:
    security = orchestrator.Security()
    with pytest.raises(ValueError, match="tokens: expected as fields of `security` only, got both"):
        cogrs.serve_orchestrator({}, port=0, tokens=[TOKEN], security=security)
