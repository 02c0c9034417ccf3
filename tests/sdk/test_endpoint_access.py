"""Endpoints of the SDK: who reaches them, with which token, and what failures tell whom."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
import pytest

from cogrs import sdk
from cogrs.api import agent_pb2, common_pb2, datalog_pb2, environment_pb2, hooks_pb2
from cogrs.api.agent_pb2_grpc import AgentEndpointStub
from cogrs.api.datalog_pb2_grpc import LogExporterStub
from cogrs.api.environment_pb2_grpc import EnvironmentEndpointStub
from cogrs.api.hooks_pb2_grpc import TrialHooksStub
from cogrs.orchestrator import ClientTls, Security, ServerTls, serve
from tests.orchestrator.net import on_loop, whom
from tests.sdk.net import Counting, Echo, calls
from tests.secured import TOKEN, Authority, code_of, parts, walk

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "/home/somebody/weights.pt"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "a-machine.test", ""])
@pytest.mark.parametrize("how", [sdk.serve, sdk.serve_endpoint])
@on_loop
async def test_remote_endpoint_without_tls_and_tokens_is_refused(
    host: str, how: Any, tmp_path: Path
) -> None:
    tls = ServerTls(**Authority(tmp_path).pair())
    for given, missing in (
        ({}, "tls and tokens or tls.client_ca"),
        ({"tokens": [TOKEN]}, "tls"),
        ({"tls": tls}, "tokens or tls.client_ca"),
    ):
        with pytest.raises(ValueError, match=f"host: .*{missing}, or insecure=True"):
            await how(**parts(), host=host, **given)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"tokens": TOKEN}, TypeError, "tokens: expected a sequence of strings, got one string"),
        ({"tokens": ["short"]}, ValueError, r"tokens\[0\]: expected 16 to 4096 characters"),
        ({"insecure": "yes"}, TypeError, "insecure: expected True or False"),
        ({"tls": "cert.pem"}, TypeError, "tls: expected a ServerTls or None"),
        ({"host": 3}, TypeError, "host: expected a string"),
    ],
)
@on_loop
async def test_bad_arguments_are_named_in_the_error(
    arguments: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        await sdk.serve(**parts(), **arguments)


@on_loop
async def test_endpoint_with_tokens_answers_callers_with_a_token() -> None:
    everything = {
        **parts(),
        "hooks": {"": lambda trial: None},
        "datalog": lambda: sdk.DatalogSink(),
    }
    async with (
        await sdk.serve(**everything, tokens=["x" * 16, TOKEN]) as endpoint,
        grpc.aio.insecure_channel(endpoint.address.removeprefix("grpc://")) as channel,
    ):
        environment, agent = EnvironmentEndpointStub(channel), AgentEndpointStub(channel)
        hook, log = TrialHooksStub(channel), LogExporterStub(channel)
        for wrong in ((), _bearer(TOKEN[:-1]), _bearer(""), (("authorization", TOKEN),)):
            to = {"metadata": (*whom("t", "a"), *wrong)}
            for call in (
                environment.OnStart(environment_pb2.EnvStartRequest(), **to),
                environment.OnEnd(environment_pb2.EnvActionRequest(), **to),
                environment.Version(common_pb2.VersionRequest(), **to),
                agent.OnStart(agent_pb2.AgentStartRequest(), **to),
                hook.OnPreTrial(hooks_pb2.PreTrialContext(), **to),
                log.OnLogSample(iter([datalog_pb2.LogExporterSampleRequest()]), **to),
            ):
                assert await code_of(call) is grpc.StatusCode.UNAUTHENTICATED
            stream = environment.OnAction(metadata=to["metadata"])
            assert await stream.code() is grpc.StatusCode.UNAUTHENTICATED
        shown = {"metadata": (*whom("t"), *_bearer(TOKEN))}
        assert (await environment.OnStart(environment_pb2.EnvStartRequest(), **shown)) is not None


def _bearer(token: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {token}"),)


@pytest.mark.parametrize("by", ["host:port", "host", "grpc", "other port", "nothing"])
@on_loop
async def test_orchestrator_shows_the_token_of_a_target_and_of_no_other(by: str) -> None:
    seen: list[Any] = []
    everything = {
        **parts(),
        "hooks": {"": lambda trial: seen.append("hook")},
        "datalog": lambda: seen.append("log") or sdk.DatalogSink(),
    }
    async with await sdk.serve(**everything, tokens=[TOKEN]) as endpoint:
        target = endpoint.address.removeprefix("grpc://")
        links = {
            "host:port": {target: TOKEN},
            "host": {"127.0.0.1": TOKEN},
            "grpc": {endpoint.address: TOKEN},
            "other port": {"127.0.0.1:1": TOKEN},
            "nothing": {},
        }[by]
        config = walk(endpoint.address)
        config["trial"] = {"pre_hooks": [endpoint.address]}
        config["datalog"] = {"type": "grpc", "url": endpoint.address}
        async with (
            await serve(config, port=0, security=Security(link_tokens=links)) as server,
            sdk.TrialController(f"127.0.0.1:{server.port}") as controller,
        ):
            if by in ("other port", "nothing"):
                with pytest.raises(sdk.RemoteCallError, match="UNAUTHENTICATED"):
                    await controller.start_trial()
                return
            trial = await controller.start_trial()
            end = await controller.wait_ended(trial.id)
            assert end.reason == "environment: final update"
            assert set(seen) == {"hook", "log"}


class Broken(Counting):
    def start(self, trial: sdk.Trial) -> Any:
        raise FileNotFoundError(SECRET)


class BrokenAgent(Echo):
    def start(self, trial: sdk.Trial) -> Any:
        raise FileNotFoundError(SECRET)


def broken_hook(trial: Any) -> None:
    raise FileNotFoundError(SECRET)


class BrokenLog(sdk.DatalogSink):
    def start(self, trial: Any) -> None:
        raise FileNotFoundError(SECRET)


async def texts_of_failures(port: int, channel: Any, shown: Any = ()) -> list[str]:
    to = {"metadata": (*whom("t", "a"), *shown)}
    start = environment_pb2.EnvStartRequest(actors_in_trial=[])
    found = []

    async def samples() -> Any:
        yield datalog_pb2.LogExporterSampleRequest(trial_params=common_pb2.TrialParams())

    for call in (
        EnvironmentEndpointStub(channel).OnStart(start, **to),
        AgentEndpointStub(channel).OnStart(
            agent_pb2.AgentStartRequest(
                actors_in_trial=[common_pb2.TrialActor(name="a", actor_class="x")]
            ),
            **to,
        ),
        TrialHooksStub(channel).OnPreTrial(hooks_pb2.PreTrialContext(), **to),
        LogExporterStub(channel).OnLogSample(samples(), **to),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
        found.append(caught.value.details() or "")
    return found


@pytest.mark.parametrize("kind", ["loopback", "open", "open, with tokens"])
@on_loop
async def test_error_texts_are_sent_to_authenticated_callers_only(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    everything = {
        "environments": {"": lambda: Broken(calls())},
        "agents": {"": lambda: BrokenAgent(calls())},
        "hooks": {"": broken_hook},
        "datalog": BrokenLog,
    }
    given: dict[str, Any] = {} if kind == "loopback" else {"host": "0.0.0.0", "insecure": True}
    if kind == "open, with tokens":
        given["tokens"] = [TOKEN]
    async with await sdk.serve(**everything, **given) as endpoint:
        target = f"127.0.0.1:{endpoint.port}"
        async with grpc.aio.insecure_channel(target) as channel:
            shown = _bearer(TOKEN) if "tokens" in given else ()
            found = await texts_of_failures(endpoint.port, channel, shown)
    for text in found:
        assert "FileNotFoundError" in text
        assert (SECRET in text) is (kind != "open"), text
        assert "Traceback" not in text
    # The log of the endpoint has all of it.
    assert caplog.text.count(SECRET) >= len(found)


@pytest.mark.parametrize("value", ["\x1b[31m", "a\x85b", "\u202e"])
@on_loop
async def test_metadata_that_does_not_print_is_refused(value: str) -> None:
    from cogrs.sdk.call_error import CallError
    from cogrs.sdk.servicer import _metadata_of

    class Context:
        def invocation_metadata(self) -> Any:
            return (("trial-id", value),)

    with pytest.raises(CallError, match="trial-id: expected printable ASCII") as caught:
        _metadata_of(Context(), ("trial-id",))  # type: ignore[arg-type]
    assert value not in str(caught.value)


@pytest.mark.parametrize("mutual", [False, True])
@on_loop
async def test_open_endpoint_that_is_secured_plays(mutual: bool, tmp_path: Path) -> None:
    ours = Authority(tmp_path)
    ca = {"client_ca": ours.file} if mutual else {}
    pair = ours.pair("somebody.test") if mutual else {}
    tls, tokens = ServerTls(**ours.pair(), **ca), () if mutual else (TOKEN,)
    async with await sdk.serve(**parts(), host="0.0.0.0", tls=tls, tokens=tokens) as endpoint:
        where = f"localhost:{endpoint.port}"
        security = Security(
            link_tls=ClientTls(ca=ours.file, **pair), link_tokens={"localhost": TOKEN}
        )
        async with (
            await serve(walk(where), port=0, security=security) as server,
            sdk.TrialController(f"127.0.0.1:{server.port}") as controller,
        ):
            trial = await controller.start_trial()
            end = await controller.wait_ended(trial.id)
            assert end.reason == "environment: final update"


@on_loop
async def test_secrets_are_neither_shown_nor_pickled() -> None:
    local = {"env": sdk.local_environments({"": lambda: Counting(calls())})}
    actor = {"name": "ann", "actor_class": "x", "endpoint": "client"}
    params = {"environment": {"endpoint": "local://env"}, "actors": [actor]}
    security = Security(tokens=[TOKEN], link_tokens={"host:1": TOKEN[::-1]})
    async with await serve(
        {"trial_params": params}, port=0, local=local, security=security
    ) as server:
        where = f"127.0.0.1:{server.port}"
        async with (
            sdk.TrialController(where, token=TOKEN) as controller,
            sdk.ClientActor(where, token=TOKEN) as client,
        ):
            trial = await controller.start_trial()
            async with await client.join(trial.id, name="ann") as session:
                for each in (
                    *(security, server, controller, client, session, session.trial),
                    *(client.connection, client.stub, controller._stub),
                ):
                    for text in (repr(each), str(each), f"{each}"):
                        assert not any(
                            secret in text for secret in (TOKEN, TOKEN[::-1], session.secret)
                        )
                for each in (security, controller, client, session, client.connection):
                    with pytest.raises(TypeError, match="cannot be pickled: it holds secrets"):
                        pickle.dumps(each)
    import copy

    assert copy.deepcopy(security) is security
    plain = Security(insecure=True)
    assert pickle.loads(pickle.dumps(plain)) == plain
    assert "tokens=<1 hidden>" in repr(security)
