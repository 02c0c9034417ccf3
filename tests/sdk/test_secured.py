"""People and scripts at orchestrators with certificates and tokens."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from cogrs import sdk
from cogrs.orchestrator import ClientTls, Security, Server, ServerTls, serve
from tests.orchestrator.net import on_loop
from tests.sdk.clients import Line
from tests.sdk.net import Counting, calls, named
from tests.secured import TOKEN, Authority

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
def ours(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def theirs(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "theirs")


@asynccontextmanager
async def human(told: Any, security: Security) -> AsyncIterator[tuple[Server, str]]:
    """A secured orchestrator, and where it is, for trials of a person "ann"."""
    local = {"env": sdk.local_environments({"": lambda: Counting(told)})}
    actor = {"name": "ann", "actor_class": "human", "endpoint": "client"}
    params = {"environment": {"endpoint": "local://env"}, "actors": [actor]}
    async with await serve(
        {"trial_params": params}, port=0, local=local, security=security
    ) as server:
        yield server, f"127.0.0.1:{server.port}"


def securities(ours: Authority, kind: str) -> tuple[Security, dict[str, Any]]:
    """An orchestrator's security, and what clients need for it."""
    client = ClientTls(ca=ours.file)
    if kind == "token":
        return Security(tokens=[TOKEN]), {"token": TOKEN}
    if kind == "tls":
        return Security(tls=ServerTls(**ours.pair())), {"tls": client}
    if kind == "mutual":
        known = ClientTls(ca=ours.file, **ours.pair("somebody.test"))
        return Security(tls=ServerTls(**ours.pair(), client_ca=ours.file)), {"tls": known}
    return (
        Security(tls=ServerTls(**ours.pair()), tokens=["x" * 16, TOKEN]),
        {"tls": client, "token": TOKEN},
    )


@pytest.mark.parametrize("kind", ["token", "tls", "mutual", "both"])
def test_people_play_at_a_secured_orchestrator(ours: Authority, kind: str) -> None:
    security, shown = securities(ours, kind)
    told = calls()

    @on_loop
    async def play() -> None:
        async with human(told, security) as (_, where):
            async with sdk.TrialController(where, **shown) as controller:
                trial = (await controller.start_trial()).id
                final = await asyncio.to_thread(
                    sdk.play,
                    where,
                    lambda seen: seen.value,
                    trial,
                    name="ann",
                    timeout=60,
                    **shown,
                )
                assert final is not None
                assert final.observation is not None
                assert final.observation.terminated
                await controller.wait_ended(trial)
            assert len(named(told[trial], "step")) == 5

    play()


@pytest.mark.parametrize("kind", ["token", "both"])
def test_all_calls_of_a_client_show_certificates_and_token(ours: Authority, kind: str) -> None:
    security, shown = securities(ours, kind)
    told = calls()

    @on_loop
    async def play() -> None:
        async with human(told, security) as (server, where):
            line = Line(server.port)
            around = f"127.0.0.1:{await line.start()}"
            async with (
                sdk.TrialController(where, **shown) as controller,
                sdk.ClientActor(around, heartbeat=0.05, reconnect=60, **shown) as client,
            ):
                trial = (await controller.start_trial()).id
                async with await client.join(trial, actor_class="human") as session:
                    await session.send_message(sdk.Message("ann", _payload()))
                    await session.send_reward(sdk.Reward("ann", 1.0))
                    cut = False
                    async for event in session:
                        if isinstance(event, sdk.Observation):
                            if event.tick == 1 and not cut:
                                cut = True
                                line.cut()
                                continue
                            await asyncio.sleep(0.1)  # some heartbeats
                            await session.act(event.value)
                assert session.final is not None
            await line.close()
        assert len(named(told[trial], "step")) == 5

    play()


def _payload() -> Any:
    from cogrs.api.common_pb2 import RewardSource

    return RewardSource(value=1.0)


@pytest.mark.parametrize("token", [None, TOKEN[:-1], TOKEN + "x", "", "Bearer " + TOKEN])
def test_token_that_is_not_known_is_refused_by_name(token: str | None) -> None:
    @on_loop
    async def play() -> None:
        async with (
            human(calls(), Security(tokens=[TOKEN])) as (_, where),
            sdk.ClientActor(where, token=token) as client,
        ):
            refusals = [
                client.join(name="ann"),
                asyncio.to_thread(sdk.play, where, print, name="ann", token=token),
                asyncio.to_thread(sdk.run_trial, where, token=token),
            ]
            for call in refusals:
                with pytest.raises(sdk.RemoteCallError, match=r"as token=$") as caught:
                    await call
                assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
                assert TOKEN[:-1] not in str(caught.value)

    play()


@pytest.mark.parametrize(
    ("fault", "hint"),
    [
        ("no TLS here", "does it require TLS"),
        ("no TLS there", "serve without TLS"),
        ("another authority", "not signed by an authority in tls="),
        ("another name", "has another name"),
        ("no certificate here", "a certificate of the client"),
    ],
)
def test_mismatched_tls_raises_an_error_with_advice(
    ours: Authority, theirs: Authority, fault: str, hint: str
) -> None:
    there = {
        "no TLS there": None,
        "no certificate here": ServerTls(**ours.pair(), client_ca=ours.file),
    }.get(fault, ServerTls(**ours.pair()))
    here = {
        "no TLS here": None,
        "another authority": ClientTls(ca=theirs.file),
        "another name": ClientTls(ca=ours.file, server_name="other.test"),
    }.get(fault, ClientTls(ca=ours.file))

    @on_loop
    async def play() -> None:
        async with (
            human(calls(), Security(tls=there)) as (_, where),
            sdk.ClientActor(where, tls=here) as client,
            sdk.TrialController(where, tls=here) as controller,
        ):
            for call in (
                client.join(name="ann"),
                controller.trials(),
                asyncio.to_thread(sdk.play, where, print, name="ann", tls=here, timeout=60),
                asyncio.to_thread(sdk.run_trial, where, tls=here, timeout=60),
            ):
                with pytest.raises(sdk.UnreachableError) as caught:
                    await call
                assert hint in str(caught.value)
                assert len(str(caught.value).splitlines()) == 1

    play()


def test_arguments_of_security_are_refused_before_anything_is_sent(
    ours: Authority, tmp_path: Path
) -> None:
    text = tmp_path / "text"
    text.write_text("hello")

    def makers(**given: Any) -> Any:
        where = given.pop("where", "127.0.0.1:1")
        return (
            lambda: sdk.ClientActor(where, **given),
            lambda: sdk.TrialController(where, **given),
            lambda: sdk.play(where, print, name="ann", **given),
            lambda: sdk.run_trial(where, **given),
        )

    for given, error, what in (
        ({"tls": True}, TypeError, "tls: expected a ClientTls or None, got bool"),
        ({"tls": ServerTls(**ours.pair())}, TypeError, "tls: expected a ClientTls or None"),
        ({"token": 3}, TypeError, "token: expected a string, got int"),
        ({"token": "a\nb"}, ValueError, "token: expected printable ASCII, got something else"),
        ({"tls": ClientTls(ca=text)}, ValueError, "ca: expected PEM certificates"),
        ({"tls": ClientTls(ca=tmp_path / "none")}, FileNotFoundError, "none"),
        (
            {"token": TOKEN, "where": "192.0.2.1:9000"},
            ValueError,
            r"token: 192\.0\.2\.1:9000 is on another machine: expected tls too",
        ),
    ):
        for make in makers(**given):
            with pytest.raises(error, match=what):
                make()
