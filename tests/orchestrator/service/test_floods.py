"""Floods from clients, over gRPC: refused as a whole, while another trial ticks."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

import grpc.aio
import pytest

from cogrs.api import orchestrator_pb2 as api
from cogrs.api.common_pb2 import ActorParams, Message, Reward, TrialConfig
from tests.orchestrator.floods import (
    EXHAUSTED,
    FLOODS,
    INVALID,
    LONG,
    MEGABYTE,
    MOST_GROWTH,
    REWARDS,
    SENDS,
    SETTINGS,
    SOURCE,
    STARTS,
    Flood,
    Server,
    sends,
    starts,
)
from tests.orchestrator.net import LIMIT, on_loop, whom

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Call = Callable[[bytes, Any], Awaitable[Any]]


def content_of(request: Any) -> bytes:
    if callable(request):
        request = request()
    if isinstance(request, list):
        request = api.TrialRewardRequest(rewards=request)
    return request if isinstance(request, bytes) else bytes(request.SerializeToString())


@pytest.mark.parametrize("kind", FLOODS)
def test_flood_is_refused_without_holding_memory(server: Server, kind: str) -> None:
    name, request, code, text = FLOODS[kind]
    content = content_of(request)

    @on_loop
    async def test() -> None:
        async with Flood(server) as flood:
            server.take()
            server.mark()
            # Of large ones more than are received at once, and than would have room if they stayed.
            count = 8 if len(content) > 14 * MEGABYTE else 2
            calls = [flood.refused(flood.call(name, content)) for _ in range(count)]
            for got, details in await asyncio.gather(*calls):
                assert got is code, details
                assert re.search(text, details), details
                assert len(details) < 1000
            warnings, held, stats = await flood.others_tick()
            assert warnings == []
            assert held == {}
            assert stats.trials["INITIALIZING"] == stats.trials["TERMINATING"] == 0
            assert server.growth() < MOST_GROWTH

    test()


@pytest.mark.parametrize("algorithm", [grpc.Compression.Gzip, grpc.Compression.Deflate])
@on_loop
async def test_compressed_request_is_refused_before_decompression(
    server: Server, algorithm: Any
) -> None:
    async with Flood(server) as flood:
        server.take()
        server.mark()
        bomb = api.TrialStartRequest(user_id="u" * 100 * MEGABYTE).SerializeToString()
        code, details = await flood.refused(flood.call(STARTS, bomb, compression=algorithm))
        assert code is grpc.StatusCode.UNIMPLEMENTED
        assert "Compression algorithm" in details
        await flood.others_tick()
        assert server.growth() < 50


@on_loop
async def test_items_beyond_the_backlog_of_a_sender_are_refused_as_a_whole(server: Server) -> None:
    async with Flood(server) as flood:
        most = SETTINGS.post_backlog
        await flood.actors.SendMessage(
            sends(count=most - 1, receiver="c1"), metadata=whom(flood.trial_id, "c0")
        )
        for name, request in (
            (SENDS, sends(count=2, receiver="c1")),
            (REWARDS, [Reward(receiver_name="c1", tick_id=7, sources=[SOURCE] * 2)]),
        ):
            code, details = await flood.refused(flood.call(name, content_of(request)))
            assert code is EXHAUSTED
            assert f"{most - 1} items of 'c0' wait for their ticks; the limit is {most}" in details
        assert server.take(flood.trial_id)[2] == {"c0": most - 1}
        await flood.call(SENDS, content_of(sends(count=1, receiver="c1")))
        assert server.take(flood.trial_id)[2] == {"c0": most}
        # Each has a share of its own.
        other = whom(flood.trial_id, "c1")
        await flood.actors.SendMessage(sends(count=most, receiver="c0"), metadata=other)
        assert server.take(flood.trial_id)[2] == {"c0": most, "c1": most}


@on_loop
async def test_one_warning_for_all_items_of_a_reason(server: Server) -> None:
    async with Flood(server) as flood:
        server.take()
        names = [f"nobody{number} " * 50 for number in range(900)]
        messages = api.TrialMessageRequest(messages=[Message(receiver_name=n) for n in names])
        rewards = [Reward(receiver_name=name, sources=[SOURCE]) for name in names[:300]]
        rewards += [Reward(receiver_name="c1")] * 300
        rewards += [Reward(receiver_name="c1", tick_id=-7, sources=[SOURCE])] * 300
        for _ in range(5):
            await flood.call(SENDS, content_of(messages))
            await flood.call(REWARDS, content_of(rewards))
        warnings, held, _ = await flood.others_tick()
        assert held == {}
        assert len(warnings) == 4
        assert all("without a warning" in text and len(text) < 400 for text in warnings)


@on_loop
async def test_trials_that_wait_for_clients_are_bounded(server: Server) -> None:
    async with Flood(server) as flood:
        server.take()
        more = SETTINGS.max_waiting_trials - 1
        started = [flood.trial_id, *[await flood.start("c0") for _ in range(more)]]
        calls = [flood.refused(flood.start("c0")) for _ in range(100)]
        for code, details in await asyncio.gather(*calls):
            assert code is EXHAUSTED
            assert "8 trials wait for clients to join; the limit is 8" in details
        # A client that joins makes room.
        await flood.actors.JoinTrial(api.TrialJoinRequest(trial_id=started[-1], actor_name="c0"))
        started.append(await flood.start("c0"))
        warnings, _, stats = await flood.others_tick()
        assert warnings == []
        assert stats.trials["ENDED"] < 50
        for trial_id in started[1:]:
            await flood.terminate(trial_id)


@on_loop
async def test_trials_are_bounded(server: Server) -> None:
    async with Flood(server) as flood:
        agents = [ActorParams(name="a", endpoint="local://agent")]
        request = starts(actors=agents)
        first = server.take()[3].trials
        room = SETTINGS.max_trials - sum(first.values()) + first["ENDED"]
        replies = [await flood.lifecycle.StartTrial(request) for _ in range(room)]
        code, details = await flood.refused(flood.lifecycle.StartTrial(request))
        assert code is EXHAUSTED
        assert "12 trials have not ended; the limit is 12" in details
        for reply in replies:
            await flood.terminate(reply.trial_id)
        await flood.others_tick()
        # However fast they come and go, no more than that many that have ended are listed.
        for _ in range(3 * SETTINGS.max_trials):
            await flood.terminate((await flood.lifecycle.StartTrial(request)).trial_id)
        ended = server.take()[3].trials["ENDED"]
        assert ended == SETTINGS.max_trials


@on_loop
async def test_actors_and_parameters_of_all_trials_are_bounded(server: Server) -> None:
    async with Flood(server) as flood:
        server.take()
        crowd = await flood.start(*(f"c{k}" for k in range(4096)))
        code, details = await flood.refused(flood.start(*(f"c{k}" for k in range(2000))))
        assert code is EXHAUSTED
        assert "the trials that have not ended have 409" in details
        await flood.terminate(crowd)
        large = TrialConfig(content=bytes(15 * MEGABYTE))
        started = [await flood.start("c0", config=large) for _ in range(2)]
        code, details = await flood.refused(flood.start("c0", config=large))
        assert code is EXHAUSTED
        assert "the trials that have not ended have 300" in details
        await flood.terminate(started.pop())
        started.append(await flood.start("c0", config=large))
        for trial_id in started:
            await flood.terminate(trial_id)
        warnings, *_ = await flood.others_tick()
        assert warnings == []


@on_loop
async def test_watchers_are_bounded(server: Server) -> None:
    async with Flood(server) as flood:
        most = SETTINGS.max_watchers
        watches = [flood.lifecycle.WatchTrials(api.TrialListRequest()) for _ in range(most)]
        for watch in watches:
            await watch.initial_metadata()
        late = flood.lifecycle.WatchTrials(api.TrialListRequest())
        code, details = await flood.refused(late.read())
        assert code is EXHAUSTED
        assert "10 calls watch trials; the limit is 10" in details
        for watch in watches:
            watch.cancel()
        # The cancellation takes a moment to arrive.
        async with asyncio.timeout(LIMIT):
            while True:
                watch = flood.lifecycle.WatchTrials(api.TrialListRequest())
                try:
                    await watch.read()
                    break
                except grpc.aio.AioRpcError:
                    continue
        watch.cancel()
        await flood.others_tick()


def test_health_watchers_are_bounded(server: Server) -> None:
    pytest.importorskip("grpc_health")

    @on_loop
    async def test() -> None:
        async with Flood(server) as flood:
            watch = flood.channel.unary_stream("/grpc.health.v1.Health/Watch")
            watches = [watch(b"") for _ in range(100)]
            for each in watches:
                assert await each.read() == b"\x08\x01"
            code, details = await flood.refused(watch(b"").read())
            assert code is EXHAUSTED
            assert "expected at most 100 calls of Watch, got one more" in details
            for each in watches:
                each.cancel()
            code, details = await flood.refused(watch(b"\x0a\xd0\x0f" + b"s" * 2000).read())
            assert code is INVALID
            assert "service: expected at most 1024 bytes" in details
            await flood.others_tick()

    test()


@pytest.mark.parametrize("method", ["Check", "Watch", "List"])
@pytest.mark.parametrize("field", [b"\x0a", b"\xfa\x07"], ids=["service", "unknown"])
def test_large_health_requests_are_refused_and_not_kept(
    server: Server, method: str, field: bytes
) -> None:
    pytest.importorskip("grpc_health")
    content = field + b"\x80\x80\xc0\x07" + b"s" * (15 << 20)

    @on_loop
    async def test() -> None:
        async with Flood(server) as flood:
            call = flood.channel.unary_stream(f"/grpc.health.v1.Health/{method}")
            server.mark()
            for _ in range(6):
                answers = [flood.refused(call(content).read()) for _ in range(4)]
                for code, details in await asyncio.gather(*answers):
                    assert code in (INVALID, grpc.StatusCode.UNIMPLEMENTED)
                    assert method == "List" or "expected at most 1024 bytes" in details
            assert server.growth() < MOST_GROWTH
            await flood.others_tick()

    test()


@on_loop
async def test_metadata_is_bounded(server: Server) -> None:
    async with Flood(server) as flood:
        for data, text in (
            (whom(LONG, "c0"), "metadata: trial-id: expected at most 1024 bytes, got 2000"),
            (whom(flood.trial_id, LONG), "metadata: actor-name: expected at most 1024 bytes"),
        ):
            call = flood.actors.Heartbeat(api.TrialHeartbeatRequest(), metadata=data)
            code, details = await flood.refused(call)
            assert code is INVALID
            assert text in details
