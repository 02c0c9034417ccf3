"""A client's first answer, which may have no bytes, on real sockets."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from cogrs import orchestrator, sdk
from cogrs.api import orchestrator_pb2 as pb
from cogrs.api.common_pb2 import Action
from cogrs.sdk.action_stream import ActionStream
from tests.orchestrator.net import on_loop
from tests.sdk.clients import Line

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Recorder(sdk.Environment):
    """Keeps the actions of three steps."""

    def __init__(self, steps: list[dict[str, bytes]]) -> None:
        self.steps = steps

    def start(self, trial: sdk.Trial) -> sdk.Update:
        del trial
        return sdk.Update(b"0")

    def step(self, actions: Any) -> sdk.Update:
        self.steps.append(dict(actions))
        return sdk.Update(b"%d" % len(self.steps), final=len(self.steps) == 3)


@asynccontextmanager
async def recording(
    steps: list[dict[str, bytes]], *, agent: bool = False
) -> AsyncIterator[tuple[orchestrator.Server, str]]:
    """A started trial of a client "c", and of an agent "a" whose answers have no bytes."""
    codec = sdk.BytesCodec()
    local = {
        "env": sdk.local_environments({"": lambda: Recorder(steps)}, codec=codec),
        "agent": sdk.local_agents({"": sdk.FunctionAgent(lambda _: b"")}, codec=codec),
    }
    actors = [{"name": "c", "actor_class": "human", "endpoint": "client"}]
    if agent:
        actors.append({"name": "a", "actor_class": "bot", "endpoint": "local://agent"})
    params = {"environment": {"endpoint": "local://env"}, "actors": actors}
    async with (
        await orchestrator.serve({"trial_params": params}, port=0, local=local) as server,
        sdk.TrialController(f"127.0.0.1:{server.port}") as controller,
    ):
        trial = await controller.start_trial()
        yield server, trial.id


def client_of(port: int) -> sdk.ClientActor:
    return sdk.ClientActor(f"127.0.0.1:{port}", codec=sdk.BytesCodec())


@pytest.mark.parametrize("first", [b"", b"x"])
@on_loop
async def test_first_action_of_the_sdk_counts_with_any_bytes(first: bytes) -> None:
    steps: list[dict[str, bytes]] = []
    async with recording(steps, agent=True) as (server, trial), client_of(server.port) as client:

        async def play(session: sdk.ActorSession) -> None:
            async for event in session:
                if isinstance(event, sdk.Observation):
                    # Observation 0 is there, and so is whatever the client sends by itself.
                    await asyncio.sleep(0.05)
                    await session.act(first if event.tick == 0 else b"%d" % event.tick)

        await client.play(play, trial, name="c")
    assert [step["c"] for step in steps] == [first, b"1", b"2"]
    assert [step["a"] for step in steps] == [b"", b"", b""]


@on_loop
async def test_empty_first_answer_counts_after_a_lost_connection() -> None:
    steps: list[dict[str, bytes]] = []
    async with recording(steps) as (server, trial):
        line = Line(server.port)
        async with client_of(await line.start()) as client:

            async def play(session: sdk.ActorSession) -> None:
                seen: list[int] = []
                async for event in session:
                    if isinstance(event, sdk.Observation):
                        seen.append(event.tick)
                        if seen.count(1) == 1 and event.tick == 1:
                            line.cut()
                            continue
                        await session.act(b"")

            await client.play(play, trial, name="c")
        await line.close()
    assert [step["c"] for step in steps] == [b"", b"", b""]


@pytest.mark.parametrize("action", [None, Action()])
@pytest.mark.parametrize("late", [False, True])
@on_loop
async def test_clients_of_others_shake_hands_before_or_after_observation_0(
    late: bool, action: Action | None
) -> None:
    steps: list[dict[str, bytes]] = []
    async with recording(steps) as (server, trial), client_of(server.port) as client:
        await client.stub.JoinTrial(pb.TrialJoinRequest(trial_id=trial, actor_name="c"))
        stream = client.stub.ActionStream(metadata=(("trial-id", trial), ("actor-name", "c")))
        if not late:
            await stream.write(pb.TrialActionRequest(action=action))
        await stream.read()
        if late:
            await stream.write(pb.TrialActionRequest(action=action))
        for answer in (b"0", b"", b"2"):
            await stream.write(pb.TrialActionRequest(action=Action(content=answer)))
            await stream.read()
        await stream.code()
    assert [step["c"] for step in steps] == [b"0", b"", b"2"]


class StubbornCall:
    """A call whose first write waits until it is let through."""

    def __init__(self) -> None:
        self.sent: list[pb.TrialActionRequest] = []
        self.through, self.over = asyncio.Event(), asyncio.Event()

    async def write(self, request: pb.TrialActionRequest) -> None:
        await self.through.wait()
        self.sent.append(request)

    def __aiter__(self) -> StubbornCall:
        return self

    async def __anext__(self) -> pb.TrialActionReply:
        await self.over.wait()
        raise StopAsyncIteration

    def cancel(self) -> None:
        self.over.set()


@on_loop
async def test_handshake_is_sent_before_a_reply_that_overtakes_the_handshake() -> None:
    call = StubbornCall()
    stream = ActionStream(call)
    answer = pb.TrialActionRequest(action=Action())
    writing = asyncio.ensure_future(stream.write(answer))
    await asyncio.sleep(0)
    call.through.set()
    await writing
    assert call.sent == [pb.TrialActionRequest(), answer]
    await stream.close()


@on_loop
async def test_stream_closes_while_its_hand_shake_waits() -> None:
    call = StubbornCall()
    stream = ActionStream(call)
    await asyncio.sleep(0)
    await stream.close()
    await stream.write(pb.TrialActionRequest(action=Action()))
    assert call.sent == []
