"""Floods from clients, over gRPC: refused as a whole, while another trial ticks."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

import grpc.aio
import numpy as np
import pytest

from cogrs.api import orchestrator_pb2 as api
from cogrs.api.common_pb2 import ActorParams, Message, Reward, TrialConfig
from cogrs.api.orchestrator_pb2_grpc import ClientActorStub, TrialLifecycleStub
from cogrs.orchestrator import Settings
from cogrs.orchestrator.service.throttle import PeerThrottle
from tests.orchestrator.flooded import SETTINGS, Server, flooded, params
from tests.orchestrator.floods import (
    EXHAUSTED,
    FLOODS,
    INVALID,
    LONG,
    MEGABYTE,
    MOST_GROWTH,
    REWARDS,
    SENDS,
    SOURCE,
    STARTS,
    sends,
    starts,
)
from tests.orchestrator.net import LIMIT, Net, act, on_loop, whom

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    Call = Callable[[bytes, Any], Awaitable[Any]]


class Flood:
    """A channel to the process, and a trial of two clients that waits for the second."""

    def __init__(self, server: Server, **options: Any) -> None:
        self.server = server
        sizes = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
        self.channel = grpc.aio.insecure_channel(
            f"127.0.0.1:{server.port}", options=[*sizes, *options.items()]
        )
        self.lifecycle = TrialLifecycleStub(self.channel)
        self.actors = ClientActorStub(self.channel)

    async def __aenter__(self) -> Flood:
        self.trial_id = await self.start("c0", "c1")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.terminate(self.trial_id)
        await self.channel.close()

    async def start(self, *names: str, **fields: Any) -> str:
        request = api.TrialStartRequest(params=params(*names), **fields)
        return str((await self.lifecycle.StartTrial(request)).trial_id)

    async def terminate(self, trial_id: str) -> None:
        await self.lifecycle.TerminateTrial(api.TerminateTrialRequest(), metadata=whom(trial_id))

    def call(self, name: str, content: bytes, **arguments: Any) -> Awaitable[Any]:
        call = self.channel.unary_unary(f"/cogment.{name}")
        return call(content, metadata=whom(self.trial_id, "c0"), **arguments)

    async def refused(self, awaited: Awaitable[Any]) -> tuple[grpc.StatusCode, str]:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await awaited
        return caught.value.code(), str(caught.value.details())

    async def others_tick(self) -> tuple[list[str], dict[str, int], Any]:
        """Wait for ticks of the other trial, check how late they were, and tell the rest."""
        delays, warnings, held, stats = self.server.take(self.trial_id)
        async with asyncio.timeout(LIMIT):
            while len(delays) < 5:
                await asyncio.sleep(0.01)
                delays += self.server.take()[0]
        # Ten times what they are allowed on a machine that does nothing else.
        assert np.median(delays) <= 0.5
        assert np.percentile(delays, 99) <= 2.0
        return warnings, held, stats


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with flooded() as running:
        yield running


def content_of(request: Any) -> bytes:
    if isinstance(request, list):
        request = api.TrialRewardRequest(rewards=request)
    return request if isinstance(request, bytes) else bytes(request.SerializeToString())


@pytest.mark.parametrize("kind", FLOODS)
def test_a_flood_is_refused_whole(server: Server, kind: str) -> None:
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
def test_a_compressed_request_is_refused_before_it_is_decompressed(
    server: Server, algorithm: Any
) -> None:
    @on_loop
    async def test() -> None:
        async with Flood(server) as flood:
            server.take()
            server.mark()
            bomb = api.TrialStartRequest(user_id="u" * 100 * MEGABYTE).SerializeToString()
            code, details = await flood.refused(flood.call(STARTS, bomb, compression=algorithm))
            assert code is grpc.StatusCode.UNIMPLEMENTED
            assert "Compression algorithm" in details
            await flood.others_tick()
            assert server.growth() < 50

    test()


def test_what_waits_of_a_sender_is_taken_whole_or_not(server: Server) -> None:
    @on_loop
    async def test() -> None:
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
                assert (
                    f"{most - 1} items of 'c0' wait for their ticks, of at most {most}" in details
                )
            assert server.take(flood.trial_id)[2] == {"c0": most - 1}
            await flood.call(SENDS, content_of(sends(count=1, receiver="c1")))
            assert server.take(flood.trial_id)[2] == {"c0": most}
            # Each has a share of its own.
            other = whom(flood.trial_id, "c1")
            await flood.actors.SendMessage(sends(count=most, receiver="c0"), metadata=other)
            assert server.take(flood.trial_id)[2] == {"c0": most, "c1": most}

    test()


def test_one_warning_for_all_items_of_a_reason(server: Server) -> None:
    @on_loop
    async def test() -> None:
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
            assert all("without a word" in text and len(text) < 400 for text in warnings)

    test()


def test_trials_that_wait_for_clients_are_bounded(server: Server) -> None:
    @on_loop
    async def test() -> None:
        async with Flood(server) as flood:
            server.take()
            more = SETTINGS.max_waiting_trials - 1
            started = [flood.trial_id, *[await flood.start("c0") for _ in range(more)]]
            calls = [flood.refused(flood.start("c0")) for _ in range(100)]
            for code, details in await asyncio.gather(*calls):
                assert code is EXHAUSTED
                assert "8 trials wait for clients to join, of at most 8" in details
            # A client that joins makes room.
            await flood.actors.JoinTrial(
                api.TrialJoinRequest(trial_id=started[-1], actor_name="c0")
            )
            started.append(await flood.start("c0"))
            warnings, _, stats = await flood.others_tick()
            assert warnings == []
            assert stats.trials["ENDED"] < 50
            for trial_id in started[1:]:
                await flood.terminate(trial_id)

    test()


def test_trials_are_bounded(server: Server) -> None:
    @on_loop
    async def test() -> None:
        async with Flood(server) as flood:
            agents = [ActorParams(name="a", endpoint="local://agent")]
            request = starts(actors=agents)
            first = server.take()[3].trials
            room = SETTINGS.max_trials - sum(first.values()) + first["ENDED"]
            replies = [await flood.lifecycle.StartTrial(request) for _ in range(room)]
            code, details = await flood.refused(flood.lifecycle.StartTrial(request))
            assert code is EXHAUSTED
            assert "12 trials have not ended, of at most 12" in details
            for reply in replies:
                await flood.terminate(reply.trial_id)
            await flood.others_tick()
            # However fast they come and go, no more than that many that have ended are listed.
            for _ in range(3 * SETTINGS.max_trials):
                await flood.terminate((await flood.lifecycle.StartTrial(request)).trial_id)
            ended = server.take()[3].trials["ENDED"]
            assert ended == SETTINGS.max_trials

    test()


def test_actors_and_parameters_of_all_trials_are_bounded(server: Server) -> None:
    @on_loop
    async def test() -> None:
        async with Flood(server) as flood:
            server.take()
            crowd = await flood.start(*(f"c{k}" for k in range(4096)))
            code, details = await flood.refused(flood.start(*(f"c{k}" for k in range(2000))))
            assert code is EXHAUSTED
            assert "actors: the trials that have not ended have 409" in details
            await flood.terminate(crowd)
            large = TrialConfig(content=bytes(15 * MEGABYTE))
            started = [await flood.start("c0", config=large) for _ in range(2)]
            code, details = await flood.refused(flood.start("c0", config=large))
            assert code is EXHAUSTED
            assert "params: the trials that have not ended have 300" in details
            await flood.terminate(started.pop())
            started.append(await flood.start("c0", config=large))
            for trial_id in started:
                await flood.terminate(trial_id)
            warnings, *_ = await flood.others_tick()
            assert warnings == []

    test()


def test_watchers_are_bounded(server: Server) -> None:
    @on_loop
    async def test() -> None:
        async with Flood(server) as flood:
            most = SETTINGS.max_watchers
            watches = [flood.lifecycle.WatchTrials(api.TrialListRequest()) for _ in range(most)]
            for watch in watches:
                await watch.initial_metadata()
            late = flood.lifecycle.WatchTrials(api.TrialListRequest())
            code, details = await flood.refused(late.read())
            assert code is EXHAUSTED
            assert "10 calls watch trials, of at most 10" in details
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

    test()


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


def test_metadata_is_bounded(server: Server) -> None:
    @on_loop
    async def test() -> None:
        async with Flood(server) as flood:
            for data, text in (
                (whom(LONG, "c0"), "metadata: trial-id: expected at most 1024 bytes, got 2000"),
                (whom(flood.trial_id, LONG), "metadata: actor-name: expected at most 1024 bytes"),
            ):
                call = flood.actors.Heartbeat(api.TrialHeartbeatRequest(), metadata=data)
                code, details = await flood.refused(call)
                assert code is INVALID
                assert text in details

    test()


def test_small_calls_leave_time_to_others(server: Server) -> None:
    @on_loop
    async def test() -> None:
        async with Flood(server) as flood:
            await flood.actors.JoinTrial(
                api.TrialJoinRequest(trial_id=flood.trial_id, actor_name="c0")
            )
            me = whom(flood.trial_id, "c0")
            server.take()
            for _ in range(3):
                calls: list[Any] = []
                for _ in range(100):
                    calls += [
                        flood.actors.Heartbeat(api.TrialHeartbeatRequest(), metadata=me),
                        flood.refused(flood.actors.JoinTrial(api.TrialJoinRequest(actor_name="x"))),
                        flood.lifecycle.GetTrialInfo(
                            api.TrialInfoRequest(get_latest_observation=True)
                        ),
                    ]
                await asyncio.gather(*calls)
            await flood.others_tick()

    test()


def test_calls_without_a_request_hold_up_their_own_connection_alone(server: Server) -> None:
    @on_loop
    async def test() -> None:
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

    test()


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
def test_an_action_that_is_a_flood_ends_its_stream_alone(
    server: Server, content: bytes, code: grpc.StatusCode, text: str
) -> None:
    @on_loop
    async def test() -> None:
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

    test()


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


def test_connection_that_rests_holds_up_itself_alone() -> None:
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


def test_calls_beyond_those_of_a_connection_wait() -> None:
    @on_loop
    async def test() -> None:
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

    test()
