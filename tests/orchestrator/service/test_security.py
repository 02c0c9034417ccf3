"""Certificates and tokens, on real sockets; and what is refused without them."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
import pytest

from cogrs import sdk
from cogrs.api import orchestrator_pb2 as api
from cogrs.api.common_pb2 import VersionRequest
from cogrs.api.orchestrator_pb2_grpc import ClientActorStub, TrialLifecycleStub
from cogrs.orchestrator import ClientTls, Config, Security, ServerTls, Settings, serve
from tests.orchestrator.net import Net, on_loop, whom
from tests.secured import TOKEN, Authority, code_of, parts, walk

if TYPE_CHECKING:
    from pathlib import Path

OTHER = "another-token-that-is-known"


@pytest.fixture
def ours(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def theirs(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "theirs")


@pytest.mark.parametrize("mutual", [False, True])
def test_trial_runs_over_encrypted_links(ours: Authority, mutual: bool) -> None:
    @on_loop
    async def play() -> None:
        ca = ours.file if mutual else None
        server = ServerTls(**ours.pair(), client_ca=ca)
        client = ClientTls(ca=ours.file, **(ours.pair("somebody.test") if mutual else {}))
        security = Security(tls=server, link_tls=client)
        async with await sdk.serve(**parts(), tls=server) as endpoint:
            config = walk(endpoint.address)
            async with (
                await serve(config, port=0, security=security) as running,
                sdk.TrialController(f"127.0.0.1:{running.port}", tls=client) as controller,
            ):
                trial = await controller.start_trial()
                await controller.wait_ended(trial.id)
                reason = running._orchestrator._trials.get(trial.id).end_reason
                assert reason == "environment: final update"

    play()


def test_links_to_hooks_and_logs_use_certificates_too(ours: Authority) -> None:
    @on_loop
    async def play() -> None:
        async with Net(tls=ServerTls(**ours.pair())) as net:
            there = net.endpoint
            config = Config(params=net.params(), hooks=(there,), log_url=there)
            security = Security(link_tls=ClientTls(ca=ours.file))
            async with (
                await serve(config, port=0, security=security) as running,
                sdk.TrialController(f"127.0.0.1:{running.port}") as controller,
            ):
                trial = await controller.start_trial()
                await controller.wait_ended(trial.id)
                assert [trial_id for trial_id, _ in net.hook.contexts] == [trial.id]
                assert await net.log.over.get() == trial.id
                assert len(net.log.requests[trial.id]) == 1 + 6

    play()


@pytest.mark.parametrize("who", ["plain", "stranger", "trusts others", "nobody"])
def test_client_without_a_trusted_certificate_is_refused(
    ours: Authority, theirs: Authority, who: str
) -> None:
    @on_loop
    async def play() -> None:
        security = Security(tls=ServerTls(**ours.pair(), client_ca=ours.file))
        tls = {
            "plain": None,
            "stranger": ClientTls(ca=ours.file, **theirs.pair("somebody.test")),
            "trusts others": ClientTls(ca=theirs.file, **ours.pair("somebody.test")),
            "nobody": ClientTls(ca=ours.file),
        }[who]
        async with (
            await serve(port=0, security=security) as running,
            sdk.TrialController(f"127.0.0.1:{running.port}", tls=tls) as controller,
        ):
            assert await code_of(controller.versions()) is grpc.StatusCode.UNAVAILABLE

    play()


def test_component_with_another_host_name_needs_server_name(ours: Authority) -> None:
    @on_loop
    async def play() -> None:
        server = ServerTls(**ours.pair("environment.test"))
        for name in (None, "environment.test"):
            link = ClientTls(ca=ours.file, server_name=name)
            async with await sdk.serve(**parts(), tls=server) as endpoint:
                config, security = walk(endpoint.address), Security(link_tls=link)
                async with (
                    await serve(config, port=0, security=security) as running,
                    sdk.TrialController(f"127.0.0.1:{running.port}") as controller,
                ):
                    trial = await controller.start_trial()
                    await controller.wait_ended(trial.id)
                    reason = running._orchestrator._trials.get(trial.id).end_reason
            if name is None:
                assert endpoint.address in reason
                assert "OnStart: UNAVAILABLE" in reason
                assert len(reason.splitlines()) == 1
            else:
                assert reason == "environment: final update"

    play()


def test_calls_without_a_known_token_are_refused() -> None:
    @on_loop
    async def play() -> None:
        async with await serve(port=0, security=Security(tokens=[OTHER, TOKEN])) as running:
            where = f"127.0.0.1:{running.port}"
            for token in (OTHER, TOKEN):
                async with sdk.TrialController(where, token=token) as controller:
                    assert "orchestrator" in await controller.versions()
                    assert await controller.trials() == {}
            for token in (None, TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "", "Bearer " + TOKEN):
                async with sdk.TrialController(where, token=token) as controller:
                    refused = grpc.StatusCode.UNAUTHENTICATED
                    assert await code_of(controller.versions()) is refused
                    assert await code_of(controller.start_trial()) is refused
                    assert await code_of(anext(controller.watch_trials())) is refused

    play()


def test_streams_are_refused_before_anything_is_sent() -> None:
    @on_loop
    async def play() -> None:
        async with (
            await serve(port=0, security=Security(tokens=[TOKEN])) as running,
            grpc.aio.insecure_channel(f"127.0.0.1:{running.port}") as channel,
        ):
            stream = ClientActorStub(channel).ActionStream(metadata=whom("t", "c0"))
            assert await stream.code() is grpc.StatusCode.UNAUTHENTICATED
            assert "Bearer TOKEN" in await stream.details()
            known = (("authorization", f"Bearer {TOKEN}"),)
            request = api.TrialInfoRequest()
            assert not (
                await TrialLifecycleStub(channel).GetTrialInfo(request, metadata=known)
            ).trial

    play()


def test_run_trial_takes_certificates_and_tokens(ours: Authority) -> None:
    @on_loop
    async def play() -> None:
        tls = ClientTls(ca=ours.file)
        security = Security(tls=ServerTls(**ours.pair()), link_tls=tls, tokens=[TOKEN])
        async with (
            await sdk.serve(**parts(), tls=ServerTls(**ours.pair())) as endpoint,
            await serve(walk(endpoint.address), port=0, security=security) as running,
        ):
            where = f"localhost:{running.port}"
            options = {"timeout": 30.0, "tls": tls, "token": TOKEN}
            trial = await asyncio.to_thread(sdk.run_trial, where, **options)
            assert [actor.name for actor in trial.actors] == ["a"]

    play()


def test_health_needs_no_token() -> None:
    @on_loop
    async def play() -> None:
        from grpc_health.v1 import health_pb2, health_pb2_grpc

        async with (
            await serve(port=0, security=Security(tokens=[TOKEN])) as running,
            grpc.aio.insecure_channel(f"127.0.0.1:{running.port}") as channel,
        ):
            answer = await health_pb2_grpc.HealthStub(channel).Check(
                health_pb2.HealthCheckRequest()
            )
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
            call = TrialLifecycleStub(channel).Version(VersionRequest())
            assert await code_of(call) is grpc.StatusCode.UNAUTHENTICATED

    play()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "somewhere.test"])
def test_remote_host_needs_tls_and_tokens(ours: Authority, host: str) -> None:
    tls = ServerTls(**ours.pair())
    for security, missing in (
        (None, "tls and tokens or tls.client_ca"),
        (Security(tokens=[TOKEN]), "tls"),
        (Security(tls=tls), "tokens or tls.client_ca"),
    ):
        with pytest.raises(ValueError, match=f"expected {missing}, or insecure=True") as caught:
            asyncio.run(serve(host=host, port=0, security=security))
        assert len(str(caught.value).splitlines()) == 1
    for good in (
        Security(insecure=True),
        Security(tls=tls, tokens=[TOKEN]),
        Security(tls=ServerTls(certificate=tls.certificate, key=tls.key, client_ca=ours.file)),
    ):
        good.check_listen(host)


def test_secured_server_listens_on_all_addresses() -> None:
    @on_loop
    async def play() -> None:
        security = Security(insecure=True)
        async with await serve(host="0.0.0.0", port=0, security=security) as running:
            assert running.port > 0

    play()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost", "[::1]"])
def test_loopback_needs_no_security(host: str) -> None:
    Security().check_listen(host)
    assert Security().find_fault(f"{host}:9000") is None


@on_loop
async def test_links_to_remote_components_need_certificates() -> None:
    there = "grpc://192.0.2.1:9000"
    for config in (Config(hooks=(there,)), Config(log_url=there)):
        with pytest.raises(ValueError, match=f"{there} is on another machine: expected link_tls"):
            await serve(config, port=0)
    settings = Settings(start_timeout=0.1)
    for security in (Security(), Security(insecure=True), Security(link_tls=ClientTls())):
        async with (
            await serve(walk(there), port=0, settings=settings, security=security) as running,
            sdk.TrialController(f"127.0.0.1:{running.port}") as controller,
        ):
            refused = grpc.StatusCode.INVALID_ARGUMENT
            expected = refused if security == Security() else grpc.StatusCode.OK
            assert await code_of(controller.start_trial()) is expected
            await running.stop(0)


def test_tokens_are_not_sent_to_remote_components_in_the_clear() -> None:
    with pytest.raises(ValueError, match=r"token: 192\.0\.2\.1:9000 is on another machine"):
        sdk.run_trial("192.0.2.1:9000", token=TOKEN)


@pytest.mark.parametrize(
    "tokens", [["short"], [""], ["with a space in between"], [TOKEN, "\n" * 20], [3], [b"x" * 20]]
)
def test_value_that_is_not_a_token_is_refused_and_not_shown(tokens: Any) -> None:
    with pytest.raises(ValueError, match=r"tokens\[\d\]: expected 16 to 4096 characters") as caught:
        Security(tokens=tokens)
    assert not any(str(token) in str(caught.value) for token in tokens if len(str(token)) > 3)


def test_single_string_in_place_of_tokens_is_refused() -> None:
    with pytest.raises(TypeError, match="tokens: expected a sequence"):
        Security(tokens=TOKEN)


@pytest.mark.parametrize("what", ["no file", "no PEM", "another key", "a key with a password"])
def test_bad_certificates_are_refused_in_one_line(
    ours: Authority, theirs: Authority, tmp_path: Path, what: str
) -> None:
    files: dict[str, Any] = ours.pair()
    if what == "no file":
        files["certificate"] = tmp_path / "nowhere"
    elif what == "no PEM":
        files["certificate"] = tmp_path / "text"
        files["certificate"].write_text("hello")
    elif what == "another key":
        files["key"] = theirs.pair()["key"]
    else:
        from cryptography.hazmat.primitives import serialization

        secret = serialization.load_pem_private_key(files["key"].read_bytes(), None)
        hidden = secret.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
        files["key"].write_bytes(hidden)
    error = FileNotFoundError if what == "no file" else ValueError
    for make in (ServerTls(**files), ClientTls(**files)):
        with pytest.raises(error) as caught:
            make.credentials()
        assert str(files["certificate"]) in str(caught.value)
        assert len(str(caught.value).splitlines()) == 1


def test_bad_authorities_are_refused_by_name(ours: Authority, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("hello")
    with pytest.raises(ValueError, match="client_ca: expected PEM certificates"):
        ServerTls(**ours.pair(), client_ca=text).credentials()
    with pytest.raises(ValueError, match="ca: expected PEM certificates"):
        sdk.TrialController("localhost:1", tls=ClientTls(ca=text))
    with pytest.raises(ValueError, match="certificate, key: expected both or neither"):
        ClientTls(certificate=text)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_handle_in_a_fork_refuses_calls() -> None:
    """In a process of its own: gRPC and forks do not go together in one that goes on."""
    from tests.program import program

    script = """
import os, sys, warnings
warnings.simplefilter("ignore")
from cogrs import serve_orchestrator
handle = serve_orchestrator(port=0)
child = os.fork()
if child == 0:
    told = 0
    for call in (handle.stop, handle.wait):
        try:
            call()
        except RuntimeError as error:
            told += "forked" in str(error)
    os._exit(0 if told == 2 else 1)
_, status = os.waitpid(child, 0)
handle.stop()
sys.exit(os.waitstatus_to_exitcode(status))
"""
    with program(script) as process:
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
