"""Requests that are large, or many: those of other connections are answered meanwhile."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc.aio
import pytest

from cogrs.api import orchestrator_pb2 as api
from cogrs.orchestrator import Settings
from cogrs.orchestrator.service.throttle import PeerThrottle
from tests.orchestrator.floods import (
    EXHAUSTED,
    INVALID,
    MEGABYTE,
    MOST_GROWTH,
    Flood,
    Server,
)
from tests.orchestrator.net import LIMIT, Net, act, on_loop, whom

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Call = Callable[[bytes, Any], Awaitable[Any]]


def content_of(request: Any) -> bytes:
    if isinstance(request, list):
        request = api.TrialRewardRequest(rewards=request)
    return request if isinstance(request, bytes) else bytes(request.SerializeToString())


@on_loop
async def test_small_calls_leave_time_to_others(server: Server) -> None:
    async with Flood(server) as flood:
        await flood.actors.JoinTrial(api.TrialJoinRequest(trial_id=flood.trial_id, actor_name="c0"))
        me = whom(flood.trial_id, "c0")
        server.take()
        for _ in range(3):
            calls: list[Any] = []
            for _ in range(100):
                calls += [
                    flood.actors.Heartbeat(api.TrialHeartbeatRequest(), metadata=me),
                    flood.refused(flood.actors.JoinTrial(api.TrialJoinRequest(actor_name="x"))),
                    flood.lifecycle.GetTrialInfo(api.TrialInfoRequest(get_latest_observation=True)),
                ]
            await asyncio.gather(*calls)
        await flood.others_tick()


@on_loop
async def test_calls_without_a_request_block_only_their_own_connection(server: Server) -> None:
    async with Flood(server) as flood:
        # A connection of its own: channels of one process share them by their options.
        silent = grpc.aio.insecure_channel(
            f"127.0.0.1:{server.port}", options=[("grpc.use_local_subchannel_pool", 1)]
        )
        async with silent:
            call = silent.stream_unary("/cogment.TrialLifecycle/GetTrialInfo")
            stuck = [call() for _ in range(50)]
            await asyncio.gather(*(each.wait_for_connection() for each in stuck))
            for _ in range(20):
                await flood.lifecycle.GetTrialInfo(api.TrialInfoRequest())
            for each in stuck:
                each.cancel()
        await flood.others_tick()


async def exchange(stream: Any, content: bytes) -> None:
    await stream.write(content)
    while await stream.read() is not grpc.aio.EOF:
        pass


@pytest.mark.parametrize(
    ("content", "code", "text"),
    [
        (b"\x0a\x00" * 300_000, INVALID, "request: action: expected at most 131072 fields"),
        (b"\xf8\x07\x00" * 300_000, INVALID, "request: unknown field 127: expected at most"),
        (b"\x0a" * 17 * MEGABYTE, EXHAUSTED, "larger than max"),
    ],
    ids=["fields", "unknown fields", "bytes"],
)
@on_loop
async def test_oversized_action_ends_only_its_own_stream(
    server: Server, content: bytes, code: grpc.StatusCode, text: str
) -> None:
    async with Flood(server) as flood:
        for name in ("c0", "c1"):
            join = api.TrialJoinRequest(trial_id=flood.trial_id, actor_name=name)
            await flood.actors.JoinTrial(join)
        server.mark()
        call = flood.channel.stream_stream("/cogment.ClientActor/ActionStream")
        stream = call(metadata=whom(flood.trial_id, "c0"))
        other = flood.actors.ActionStream(metadata=whom(flood.trial_id, "c1"))
        assert (await other.read()).data.observations
        with pytest.raises((grpc.aio.AioRpcError, asyncio.InvalidStateError)):
            await exchange(stream, content)
        assert await stream.code() is code
        assert text in await stream.details()
        other.cancel()
        await flood.others_tick()
        assert server.growth() < MOST_GROWTH


FIELDS = b"\xf8\x07\x00" * 100_000
"""Almost as many unknown fields as a message may have."""


@pytest.mark.parametrize(
    ("method", "content"),
    [
        ("cogment.ClientActor/ActionStream", FIELDS),
        ("cogment.ClientActor/ActionStream", act(b"x" * 15 * MEGABYTE).SerializeToString()),
        ("grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", FIELDS),
    ],
    ids=["fields", "bytes", "reflection"],
)
def test_large_requests_of_streams_leave_time_to_others(
    server: Server, method: str, content: bytes
) -> None:
    names = [f"c{number}" for number in range(4)]

    @on_loop
    async def test() -> None:
        async with Flood(server) as flood:
            trial_id = await flood.start(*names)

            async def send(name: str) -> None:
                join = api.TrialJoinRequest(trial_id=trial_id, actor_name=name)
                await flood.actors.JoinTrial(join)
                call = flood.channel.stream_stream(f"/{method}")
                stream = call(metadata=whom(trial_id, name))
                for _ in range(2):
                    await stream.write(content)
                # It is refused when all before it were read.
                with pytest.raises((grpc.aio.AioRpcError, asyncio.InvalidStateError)):
                    await exchange(stream, b"\xff" * 20)
                assert await stream.code() is not grpc.StatusCode.OK

            server.take()
            await asyncio.gather(*map(send, names))
            delays = server.take()[0]
            # Without rests a few ticks at most come between the requests of all streams.
            assert len(delays) > 4 * len(names)
            await flood.terminate(trial_id)
            await flood.others_tick()

    test()


def test_throttled_connection_delays_no_other_connection() -> None:
    async def test() -> None:
        pace = PeerThrottle()
        async with pace.turn("flood", 10**12):  # which calls for a rest of an hour
            pass

        async def take(peer: str) -> None:
            async with pace.turn(peer, 0):
                pass

        held = [asyncio.ensure_future(take("flood")) for _ in range(3)]
        async with asyncio.timeout(LIMIT):
            for _ in range(3):
                await take("other")
        assert not any(task.done() for task in held)
        for task in held:
            task.cancel()
        await asyncio.wait(held)
        # What leaves nothing behind is forgotten, and what rests is not, though nobody waits.
        async with asyncio.timeout(LIMIT):
            while len(pace._peers) > 1:  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert list(pace._peers) == ["flood"]

    asyncio.run(test())


@on_loop
async def test_calls_beyond_the_limit_of_a_connection_wait() -> None:
    async with Net(settings=Settings(max_streams=2)) as net:
        watches = [net.lifecycle.WatchTrials(api.TrialListRequest()) for _ in range(2)]
        for watch in watches:
            await watch.initial_metadata()
        late = asyncio.ensure_future(net.start())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(late), 0.2)
        watches.pop().cancel()
        assert await late
        watches.pop().cancel()
