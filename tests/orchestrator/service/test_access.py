"""Who may do what: tokens of controllers and of clients, and secrets of places, on sockets."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
import pytest

from cogrs import sdk
from cogrs.api import orchestrator_pb2 as api
from cogrs.api.common_pb2 import VersionRequest
from cogrs.orchestrator import ClientTls, Security, ServerTls, Settings, serve
from tests.orchestrator.net import Net, act, on_loop, whom
from tests.orchestrator.world import message, reward, texts, values
from tests.secured import Authority, code_of

if TYPE_CHECKING:
    from pathlib import Path

OURS = "token-of-controllers-1"
THEIRS = "token-of-clients-1234"
OK = grpc.StatusCode.OK
DENIED = grpc.StatusCode.PERMISSION_DENIED

Shown = tuple[tuple[str, str], ...]


def token(text: str) -> Shown:
    return (("authorization", f"Bearer {text}"),)


def secret(text: str) -> Shown:
    return (("slot-secret", text),)


CONTROLLER, CLIENT = token(OURS), token(THEIRS)
BOTH = Security(tokens=[OURS], client_tokens=[THEIRS])
REQUIRED = Security(tokens=[OURS], client_tokens=[THEIRS], slot_secrets="required")


async def join(net: Net, trial_id: str, shown: Shown, name: str = "c0") -> str:
    """Join, and return the secret that was given; or ""."""
    request = api.TrialJoinRequest(trial_id=trial_id, actor_name=name)
    call = net.actors.JoinTrial(request, metadata=shown)
    await call
    return str(dict(await call.initial_metadata()).get("slot-secret", ""))


def calls_as(net: Net, trial_id: str, shown: Shown, name: str = "c0") -> dict[str, Any]:
    """All calls that an actor makes."""
    to = {"metadata": (*whom(trial_id, name), *shown)}

    async def stream() -> None:
        call = net.actors.ActionStream(**to)
        await call.read()
        call.cancel()

    rewards = api.TrialRewardRequest(rewards=[reward("c1", 5)])
    messages = api.TrialMessageRequest(messages=[message("c1", "hello")])
    return {
        "ActionStream": stream,
        "Heartbeat": lambda: net.actors.Heartbeat(api.TrialHeartbeatRequest(), **to),
        "SendReward": lambda: net.actors.SendReward(rewards, **to),
        "SendMessage": lambda: net.actors.SendMessage(messages, **to),
    }


async def codes_of(calls: dict[str, Any]) -> set[grpc.StatusCode]:
    return {await code_of(call()) for call in calls.values()}


@on_loop
async def test_client_token_joins_and_plays_and_nothing_else() -> None:
    async with Net(agents=0, clients=2, security=BOTH, shown=CONTROLLER) as net:
        trial_id = await net.start()
        life, of_trial = net.lifecycle, (*whom(trial_id), *CLIENT)
        refused = {
            "StartTrial": life.StartTrial(api.TrialStartRequest(), metadata=CLIENT),
            "TerminateTrial": life.TerminateTrial(api.TerminateTrialRequest(), metadata=of_trial),
            "GetTrialInfo": life.GetTrialInfo(api.TrialInfoRequest(), metadata=of_trial),
            "WatchTrials": life.WatchTrials(api.TrialListRequest(), metadata=CLIENT).read(),
        }
        for name, call in refused.items():
            with pytest.raises(grpc.aio.AioRpcError, match=f"{name}.*is for controllers") as caught:
                await call
            assert caught.value.code() is DENIED
            assert THEIRS not in repr(caught.value)
        for stub in (life, net.actors):
            await stub.Version(VersionRequest(), metadata=CLIENT)
        places = {name: await join(net, trial_id, CLIENT, name) for name in ("c0", "c1")}
        assert places == {"c0": "", "c1": ""}
        for name in places:
            assert await codes_of(calls_as(net, trial_id, CLIENT, name)) == {OK}


@pytest.mark.parametrize("wrong", [(), token(OURS[:-1]), token(THEIRS + "x"), token("")])
@on_loop
async def test_unknown_token_has_no_rights(wrong: Shown) -> None:
    async with Net(agents=0, clients=1, security=BOTH, shown=CONTROLLER) as net:
        trial_id = await net.start()
        unknown = grpc.StatusCode.UNAUTHENTICATED
        assert await code_of(join(net, trial_id, wrong)) is unknown
        assert await codes_of(calls_as(net, trial_id, wrong)) == {unknown}


@pytest.mark.parametrize("shown", [CLIENT, CONTROLLER, ()], ids=["client", "controller", "off"])
@on_loop
async def test_bound_slot_refuses_calls_without_its_secret(shown: Shown) -> None:
    security = BOTH if shown else None
    async with Net(
        agents=0, clients=2, security=security, shown=CONTROLLER if shown else ()
    ) as net:
        trial_id = await net.start()
        given = await join(net, trial_id, (*shown, *secret("new")))
        assert len(given) >= 32
        other = await join(net, trial_id, (*shown, *secret("new")), "c1")
        assert other != given
        for wrong in ((), secret("new"), secret(other), secret(given[:-1]), secret(given + "x")):
            for name, call in calls_as(net, trial_id, (*shown, *wrong)).items():
                with pytest.raises(
                    grpc.aio.AioRpcError, match="slot-secret: expected the secret"
                ) as caught:
                    await call()
                assert caught.value.code() is DENIED, name
                assert "actor 'c0'" in caught.value.details()
                assert given not in repr(caught.value)
                assert other not in repr(caught.value)
        assert await codes_of(calls_as(net, trial_id, (*shown, *secret(given)))) == {OK}


@pytest.mark.parametrize("shown", [CLIENT, CONTROLLER])
@on_loop
async def test_slot_of_a_client_that_does_not_ask_is_not_bound(shown: Shown) -> None:
    async with Net(agents=0, clients=2, security=BOTH, shown=CONTROLLER) as net:
        trial_id = await net.start()
        for name in ("c0", "c1"):
            assert await join(net, trial_id, shown, name) == ""
        for name in ("c0", "c1"):
            assert await codes_of(calls_as(net, trial_id, shown, name)) == {OK}


@pytest.mark.parametrize("shown", [CLIENT, CONTROLLER])
@on_loop
async def test_required_secrets_refuse_clients_that_do_not_ask(shown: Shown) -> None:
    async with Net(agents=0, clients=1, security=REQUIRED, shown=CONTROLLER) as net:
        trial_id = await net.start()
        with pytest.raises(grpc.aio.AioRpcError, match="slot-secret: expected") as caught:
            await join(net, trial_id, shown)
        assert caught.value.code() is DENIED
        # The place was not taken by that.
        given = await join(net, trial_id, (*shown, *secret("new")))
        assert await codes_of(calls_as(net, trial_id, (*shown, *secret(given)))) == {OK}


@on_loop
async def test_client_token_cannot_act_for_agents_or_free_slots() -> None:
    async with Net(agents=1, clients=2, security=BOTH, shown=CONTROLLER) as net:
        trial_id = await net.start()
        agent, free = (calls_as(net, trial_id, CLIENT, name) for name in ("a0", "c0"))
        controller = calls_as(net, trial_id, CONTROLLER, "a0")
        for name in ("SendReward", "SendMessage"):
            assert await code_of(agent[name]()) is DENIED
            assert await code_of(free[name]()) is grpc.StatusCode.FAILED_PRECONDITION
            assert await code_of(controller[name]()) is OK


async def leave(net: Net, trial_id: str, shown: Shown) -> None:
    """Open the stream of c0, and break it off."""
    stream = net.actors.ActionStream(metadata=(*whom(trial_id, "c0"), *shown))
    await stream.initial_metadata()
    stream.cancel()
    actor = net.orchestrator._orchestrator.client(trial_id, "c0", Known(shown))
    while not actor.returnable:  # noqa: ASYNC110
        await asyncio.sleep(0.005)


def Known(shown: Shown) -> Any:  # noqa: N802
    from cogrs.orchestrator.engine.slot_secret import Caller

    return Caller(dict(shown).get("slot-secret", ""))


@on_loop
async def test_lost_client_returns_only_with_its_secret() -> None:
    async with Net(agents=0, clients=1, security=BOTH, shown=CONTROLLER) as net:
        trial_id = await net.start()
        given = await join(net, trial_id, (*CLIENT, *secret("new")))
        mine = (*CLIENT, *secret(given))
        await leave(net, trial_id, mine)
        for wrong in ((), secret("new"), secret(given[:-1])):
            assert await code_of(join(net, trial_id, (*CLIENT, *wrong))) is DENIED
        # Nothing of a refusal is kept: the place is free for its client alone.
        assert await join(net, trial_id, mine) == ""
        assert await codes_of(calls_as(net, trial_id, mine)) == {OK}


@pytest.mark.parametrize("asks", [True, False])
@on_loop
async def test_controller_can_take_over_a_lost_slot(asks: bool) -> None:
    async with Net(agents=0, clients=1, security=BOTH, shown=CONTROLLER) as net:
        trial_id = await net.start()
        old = secret(await join(net, trial_id, (*CLIENT, *secret("new"))))
        await leave(net, trial_id, (*CLIENT, *old))
        new = await join(net, trial_id, (*CONTROLLER, *(secret("new") if asks else ())))
        assert bool(new) is asks
        shown = secret(new) if asks else ()
        assert await codes_of(calls_as(net, trial_id, (*CLIENT, *shown))) == {OK}
        if asks:  # the old secret is void
            assert await codes_of(calls_as(net, trial_id, (*CLIENT, *old))) == {DENIED}


@on_loop
async def test_text_of_a_failure_is_sent_to_controllers_only() -> None:
    net = Net(agents=0, clients=1, security=BOTH, shown=CONTROLLER, log=True)

    async def step(*_: Any) -> Any:
        raise FileNotFoundError("/home/somebody/model.pt")

    net.environment.step = step  # type: ignore[method-assign]
    async with net:
        trial_id = await net.start()
        await join(net, trial_id, CLIENT)
        stream = net.actors.ActionStream(metadata=(*whom(trial_id, "c0"), *CLIENT))
        await stream.read()
        await stream.write(act(b"go"))
        final = await stream.read()
        assert final.final_data
        assert final.data.end_reason == "environment: OnAction failed"
        assert "/home/somebody/model.pt" in await net.end_of(trial_id)
        request = api.TrialInfoRequest()
        of_trial = (*whom(trial_id), *CONTROLLER)
        (info,) = (await net.lifecycle.GetTrialInfo(request, metadata=of_trial)).trial
        assert "/home/somebody/model.pt" in info.end_reason
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await join(net, trial_id, CLIENT)
        assert (
            "does not take clients; reason: environment: OnAction failed" in caught.value.details()
        )
        await net.log.over.get()
        assert "model.pt" in net.log.requests[trial_id][-1].sample.end_reason


@on_loop
async def test_internal_error_is_not_sent_to_callers(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise KeyError("/home/somebody/secret")

    async with Net(agents=0, clients=1) as net:
        trial_id = await net.start()
        monkeypatch.setattr(net.orchestrator._orchestrator, "client", fail)
        monkeypatch.setattr(net.orchestrator._orchestrator, "send", fail)
        for call in calls_as(net, trial_id, ()).values():
            with pytest.raises(grpc.aio.AioRpcError, match="internal error: KeyError") as caught:
                await call()
            assert "somebody" not in repr(caught.value)
    assert "/home/somebody/secret" in caplog.text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"client_tokens": [THEIRS]}, "client_tokens: expected tokens too"),
        ({"tokens": [OURS], "client_tokens": [OURS]}, r"client_tokens\[0\]: expected a token that"),
        ({"tokens": [OURS], "client_tokens": ["short"]}, r"client_tokens\[0\]: expected 16"),
        ({"tokens": ["x" * 4097]}, r"tokens\[0\]: expected 16 to 4096 characters"),
        ({"slot_secrets": "maybe"}, "slot_secrets: expected 'asked' or 'required', got 'maybe'"),
        ({"link_tokens": {"host:1": "short"}}, r"link_tokens\['host:1'\]: expected 16"),
    ],
)
def test_invalid_security_is_refused_without_showing_secrets(
    arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        Security(**arguments)
    assert not any(text in str(caught.value) for text in (OURS, THEIRS, "short"))


def players(ours: Authority, kind: str) -> tuple[Security | None, dict[str, Any], dict[str, Any]]:
    """An orchestrator's security, and what its controllers and its clients need."""
    if kind == "off":
        return None, {}, {}
    if kind == "tokens":
        return Security(tokens=[OURS]), {"token": OURS}, {"token": OURS}
    if kind == "client tokens":
        return BOTH, {"token": OURS}, {"token": THEIRS}
    tls, client = ServerTls(**ours.pair()), {"tls": ClientTls(ca=ours.file)}
    if kind == "tls":
        return Security(tls=tls), client, client
    everything = Security(tls=tls, tokens=[OURS], client_tokens=[THEIRS], slot_secrets="required")
    return everything, {**client, "token": OURS}, {**client, "token": THEIRS}


KINDS = ["off", "tls", "tokens", "client tokens", "tls, tokens, required secrets"]


@pytest.mark.parametrize("kind", KINDS)
def test_api_is_the_same_however_the_orchestrator_is_secured(tmp_path: Path, kind: str) -> None:
    """Joins, observations, actions, heartbeats, rewards, messages, final data, data log."""
    security, controls, plays = players(Authority(tmp_path), kind)
    credentials = plays["tls"].credentials() if "tls" in plays else None
    shown = {
        who: token(given["token"]) if "token" in given else ()
        for who, given in (("controller", controls), ("client", plays))
    }
    raw = (*shown["client"], *(secret("new") if "required" in kind else ()))

    @on_loop
    async def play() -> None:
        async with Net(
            agents=1,
            clients=1,
            log=True,
            settings=Settings(heartbeat_timeout=30),
            security=security,
            shown=shown["controller"],
            credentials=credentials,
        ) as net:
            net.environment.length = 2
            trial_id = await net.start()
            given = await join(net, trial_id, raw)
            to = (*whom(trial_id, "c0"), *shown["client"], *(secret(given) if given else ()))
            await net.actors.SendReward(
                api.TrialRewardRequest(rewards=[reward("a0", 3)]), metadata=to
            )
            await net.actors.SendMessage(
                api.TrialMessageRequest(messages=[message("a0", "x"), message("env", "y")]),
                metadata=to,
            )
            stream = net.actors.ActionStream(metadata=to)
            await stream.write(api.TrialActionRequest())
            replies = []
            while (reply := await stream.read()) is not grpc.aio.EOF:
                replies.append(reply)
                await net.actors.Heartbeat(api.TrialHeartbeatRequest(), metadata=to)
                if not reply.final_data:
                    await stream.write(act(b"c%d" % len(replies)))
            assert await stream.code() is OK
            seen = [each.tick_id for reply in replies for each in reply.data.observations]
            assert seen == [0, 1, 2]
            assert [reply.final_data for reply in replies] == [False, False, True]
            assert values(replies[1].data.rewards) == [(1, 1.0)]
            assert replies[2].data.end_reason == "environment: final update"
            # It comes before the first observations, or with the reward of the environment.
            assert values(net.agents.of(trial_id, "a0", "reward"))[0] in [(0, 3.0), (1, 2.0)]
            (got,) = net.environment.of(trial_id, "message")
            assert texts(got.messages) == [(0, "c0", "y")]
            requests = net.environment.of(trial_id, "action")
            assert [list(each.action_set.actions) for each in requests] == [
                [b"a0:0", b"c1"],
                [b"a0:1", b"c2"],
            ]
            assert await net.log.over.get() == trial_id
            assert len(net.log.requests[trial_id]) == 1 + 3

    play()


@pytest.mark.parametrize("kind", KINDS)
def test_sdk_plays_however_the_orchestrator_is_secured(tmp_path: Path, kind: str) -> None:
    from tests.sdk.net import Counting, calls, named

    security, controls, plays = players(Authority(tmp_path), kind)
    told = calls()
    local = {"env": sdk.local_environments({"": lambda: Counting(told)})}
    actors = [{"name": name, "actor_class": "x", "endpoint": "client"} for name in ("ann", "bob")]
    params = {"environment": {"endpoint": "local://env"}, "actors": actors}

    @on_loop
    async def play() -> None:
        async with await serve(
            {"trial_params": params}, port=0, local=local, security=security
        ) as server:
            where = f"127.0.0.1:{server.port}"
            async with (
                sdk.TrialController(where, **controls) as controller,
                sdk.ClientActor(where, heartbeat=0.05, **plays) as client,
                sdk.ClientActor(where, **plays) as other,
            ):
                trial = (await controller.start_trial()).id
                ann = await client.join(trial, name="ann")
                assert ann.secret
                assert ann.secret not in repr(vars(server._orchestrator._trials.get(trial)))
                bob = asyncio.ensure_future(
                    other.play(lambda seen: seen.value, trial, actor_class="x")
                )
                # The same client returns by name; another one with the secret.
                await anext(ann)
                await ann.leave()
                again = await client.join(trial, name="ann")
                assert again.secret == ann.secret
                await anext(again)
                await again.leave()
                async with await other.join(trial, name="ann", secret=ann.secret) as last:
                    await last.send_reward(sdk.Reward("bob", 1.0))
                    async for event in last:
                        if isinstance(event, sdk.Observation):
                            await last.act(event.value)
                assert last.final is not None
                assert last.final.reason == "environment: final update"
                assert (await bob) is not None
                assert len(named(told[trial], "step")) == 5

    play()
