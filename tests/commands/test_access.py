"""Tokens on the command line and in `cogment.yaml`, and what commands print of others."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from cogrs import cli, sdk
from cogrs.api import orchestrator_pb2 as api
from cogrs.api.orchestrator_pb2_grpc import (
    TrialLifecycleServicer,
    add_TrialLifecycleServicer_to_server,
)
from cogrs.orchestrator import Security, ServerTls
from cogrs.orchestrator.service.config import read_config
from tests.commands.command import CONFIG, TOKEN, orchestrator, trial
from tests.secured import Authority

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CLIENT = "a-token-of-clients-1"


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o600)
    return path


@pytest.fixture
def files(tmp_path: Path) -> Path:
    write(tmp_path / "tokens", f"{TOKEN}\n")
    write(tmp_path / "clients", f"{CLIENT}\n")
    write(tmp_path / "links", f"host:1 {TOKEN}\n")
    return tmp_path


@pytest.mark.parametrize("where", ["options", "file"])
def test_client_tokens_give_the_right_to_join_only(capsys: Any, files: Path, where: str) -> None:
    section = "security: {tokens: tokens, client_tokens: clients, slot_secrets: required}\n"
    config = write(files / "cogment.yaml", CONFIG + (section if where == "file" else ""))
    options = ("--tokens", files / "tokens", "--client-tokens", files / "clients")
    given = (*options, "--slot-secrets", "required") if where == "options" else ()
    with orchestrator(config, *given) as (process, ports):
        port = ports["port"]
        assert trial(capsys, port, "info", "--token", files / "tokens") == ""
        assert "UNAUTHENTICATED" in trial(capsys, port, "info", code=1)
        err = trial(capsys, port, "info", "--token", files / "clients", code=1)
        assert "PERMISSION_DENIED" in err
        assert "is for controllers" in err
        assert CLIENT not in err

        async def play() -> None:
            async with sdk.ClientActor(f"127.0.0.1:{port}", token=CLIENT) as client:
                await client.join(name="alice")

        # It may join, but no trial is running.
        with pytest.raises(sdk.RemoteCallError, match="FAILED_PRECONDITION: no trial has"):
            asyncio.run(play())
        process.terminate()
        told = process.communicate(timeout=60)[1]
        assert TOKEN not in told
        assert CLIENT not in told


def test_options_replace_the_section_of_the_file(files: Path) -> None:
    ours = Authority(files)
    pair = {f"tls_{kind}": str(path) for kind, path in ours.pair().items()}
    section = {
        **pair,
        "client_ca": str(ours.file),
        "tokens": "tokens",
        "client_tokens": "clients",
        "link_tokens": "links",
        "link_tls": True,
        "slot_secrets": "required",
        "insecure": True,
    }
    path = write(files / "cogment.yaml", CONFIG + "security: " + json.dumps(section))
    security = read_config(path).security
    assert security is not None
    assert security.tls == ServerTls(**ours.pair(), client_ca=ours.file)
    assert (security.tokens, security.client_tokens) == ((TOKEN,), (CLIENT,))
    assert security.link_tokens == {"host:1": TOKEN}
    assert security.link_tls is not None
    assert (security.slot_secrets, security.insecure) == ("required", True)
    assert TOKEN not in repr(read_config(path))


@pytest.mark.parametrize(
    ("section", "words"),
    [
        (f"{{tokens: [{TOKEN}]}}", "security.tokens: expected a path, got list"),
        (f"{{tokens: {TOKEN}}}", "security.tokens: expected the path of a file"),
        (f"{{client_tokens: {TOKEN}}}", "security.client_tokens: expected the path of a file"),
        (f"{{link_tokens: {TOKEN}}}", "security.link_tokens: expected the path of a file"),
        ("{client_tokens: clients}", "client_tokens: expected tokens too"),
        ("{tokens: tokens, client_tokens: tokens}", "client_tokens[0]: expected a token that is"),
        ("{slot_secrets: maybe}", "slot_secrets: expected 'asked' or 'required'"),
        ("{insecure: 1}", "security.insecure: expected true or false, got int"),
        ("{tls_key: tokens}", "security.tls_certificate, security.tls_key: expected both"),
        ("{token: tokens}", "security.token: unknown name: did you mean 'tokens'?"),
        ("{nothing: 1}", "security.nothing: expected one of tls_certificate"),
        (f'{{tokens: "{TOKEN}', "line "),
        (f"{{tokens: {TOKEN}: {TOKEN}}}", "line "),
        ("[tokens]", "security: expected a section, got list"),
    ],
)
def test_bad_section_is_refused_without_showing_secrets(
    capsys: Any, files: Path, section: str, words: str
) -> None:
    config = write(files / "cogment.yaml", f"{CONFIG}security: {section}\n")
    assert cli.main(["orchestrator", "--config", str(config), "--port", "0"]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert TOKEN not in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["orchestrator", "--tokens", TOKEN],
        ["orchestrator", "--client-tokens", TOKEN],
        ["orchestrator", "--link-tokens", TOKEN],
        ["orchestrator", f"--token={TOKEN}"],
        ["orchestrator", f"--to={TOKEN}"],
        ["orchestrator", "--tokns", TOKEN],
        ["trial", "info", "--token", TOKEN],
        ["trial", "info", "--tokeN", TOKEN],
        ["trial", "info", f"--tokeN={TOKEN}"],
        ["trial", "info", f"--t={TOKEN}"],
    ],
)
def test_token_in_place_of_its_file_is_not_shown(
    capsys: Any, files: Path, arguments: list[str]
) -> None:
    config = write(files / "cogment.yaml", CONFIG)
    if arguments[0] == "orchestrator":
        arguments = [*arguments, "--config", str(config)]
    try:
        code = cli.main(arguments)
    except SystemExit as error:
        code = error.code  # type: ignore[assignment]
    assert code == 2
    told = "".join(capsys.readouterr())
    assert TOKEN not in told
    assert TOKEN[5:] not in told


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_metrics_host_beyond_the_loopback_needs_insecure(
    capsys: Any, files: Path, host: str
) -> None:
    config = write(files / "cogment.yaml", CONFIG)
    given = ["--config", str(config), "--port", "0", "--metrics-port", "0", "--metrics-host", host]
    assert cli.main(["orchestrator", *given]) == 2
    err = capsys.readouterr().err
    assert "other machines reach" in err
    assert "or --insecure; got neither" in err
    assert "metrics" in err
    assert len(err.splitlines()) == 1


def test_text_of_a_configuration_is_escaped(capsys: Any, tmp_path: Path) -> None:
    for text in ('trial_params: {"\\e[31m\\x9b\\u202e": 1}', 'security: {"\\e]0;x\\a": 1}'):
        config = write(tmp_path / "cogment.yaml", text)
        assert cli.main(["orchestrator", "--config", str(config), "--port", "0"]) == 2
        err = capsys.readouterr().err
        assert err.removesuffix("\n").isprintable()
        assert r"\x1b" in err


BAD = "\x1b]0;owned\x07\nforged\x9b31m\u202e"


class Hostile(TrialLifecycleServicer):
    """An orchestrator whose texts would write on the terminal of its callers."""

    def StartTrial(self, request: Any, context: Any) -> Any:  # noqa: N802
        return api.TrialStartReply(trial_id=BAD)

    def GetTrialInfo(self, request: Any, context: Any) -> Any:  # noqa: N802
        info = api.TrialInfo(trial_id=BAD, state=api.ENDED, end_reason=BAD, failed=True)
        return api.TrialInfoReply(trial=[info])

    def WatchTrials(self, request: Any, context: Any) -> Any:  # noqa: N802
        yield api.TrialListEntry(trial_id=BAD, state=api.ENDED, end_reason=BAD, failed=True)

    def TerminateTrial(self, request: Any, context: Any) -> Any:  # noqa: N802
        context.abort(grpc.StatusCode.NOT_FOUND, BAD)


@pytest.fixture(scope="module")
def hostile() -> Iterator[int]:
    from concurrent.futures import ThreadPoolExecutor

    server = grpc.server(ThreadPoolExecutor(4))
    add_TrialLifecycleServicer_to_server(Hostile(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield port
    server.stop(0).wait()
    assert threading.main_thread().is_alive()


@pytest.mark.parametrize(
    "arguments",
    [
        ["start"],
        ["start", "--wait"],
        ["start", "--json"],
        ["watch"],
        ["watch", "--json"],
        ["info"],
        ["info", "--json"],
        ["terminate", "x"],
    ],
)
def test_text_of_a_peer_is_escaped(capsys: Any, hostile: int, arguments: list[str]) -> None:
    cli.main(["trial", *arguments, "--endpoint", f"127.0.0.1:{hostile}", "--timeout", "30"])
    told = "".join(capsys.readouterr())
    assert "owned" in told
    assert all(line.isprintable() for line in told.splitlines())
    assert not any(line.startswith("forged") for line in told.splitlines())


def test_errors_of_a_hostile_orchestrator_are_escaped(hostile: int) -> None:
    async def ask() -> str:
        async with sdk.TrialController(f"127.0.0.1:{hostile}") as controller:
            with pytest.raises(sdk.RemoteCallError) as caught:
                await controller.terminate_trial("x")
            return f"{caught.value}{caught.value!r}{caught.value.details()}"

    assert asyncio.run(ask()).isprintable()
    error = sdk.TrialFailedError(sdk.StartedTrial("x", ()), BAD)
    assert str(error).isprintable()


def test_security_argument_replaces_that_of_the_file(files: Path) -> None:
    from cogrs import serve_orchestrator

    config = {"security": {"tokens": str(files / "tokens")}}
    with serve_orchestrator(config, port=0) as running:
        assert _versions(running.port, TOKEN)
        with pytest.raises(sdk.RemoteCallError, match="UNAUTHENTICATED"):
            _versions(running.port, None)
    with serve_orchestrator(config, port=0, security=Security()) as running:
        assert _versions(running.port, None)


def _versions(port: int, token: str | None) -> dict[str, str]:
    async def ask() -> dict[str, str]:
        async with sdk.TrialController(f"127.0.0.1:{port}", token=token) as controller:
            return await controller.versions()

    return asyncio.run(ask())
