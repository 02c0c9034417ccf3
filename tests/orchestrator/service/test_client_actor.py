"""Client actors over gRPC."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import grpc
import grpc.aio
import pytest

from cogrs.api import orchestrator_pb2 as api
from cogrs.api.orchestrator_pb2_grpc import ClientActorStub
from cogrs.orchestrator import Settings
from tests.orchestrator.net import SOAK, Net, act, on_loop, resident, whom
from tests.orchestrator.world import message, reward, texts, values


async def play(stream: Any, name: str = "c0", *, last: int = 10_000) -> list[Any]:
    """Answer all observations up to one tick, and return all replies."""
    replies = []
    while True:
        reply = await stream.read()
        if reply is grpc.aio.EOF:
            return replies
        replies.append(reply)
        for observation in reply.data.observations:
            if observation.tick_id > last:
                return replies
            if not reply.final_data:
                await stream.write(act(b"%s:%d" % (name.encode(), observation.tick_id)))


def ticks(replies: list[Any]) -> list[int]:
    return [each.tick_id for reply in replies for each in reply.data.observations]


@pytest.mark.parametrize("greets", [True, False])
@on_loop
async def test_client_and_agent_play_one_trial_over_grpc(greets: bool) -> None:
    async with Net(agents=1, clients=1) as net:
        started = await net.lifecycle.StartTrial(api.TrialStartRequest())
        trial_id = started.trial_id
        joined = await net.join(trial_id, actor_class="player")
        assert (joined.trial_id, joined.actor_name) == (trial_id, "c0")
        assert list(joined.actors_in_trial) == list(started.actors_in_trial)
        stream = net.client(trial_id)
        # Sent as soon as the stream is accepted: some clients wait for it.
        await stream.initial_metadata()
        if greets:
            await stream.write(api.TrialActionRequest())
        replies = await play(stream)
        assert await stream.code() is grpc.StatusCode.OK
        assert ticks(replies) == [0, 1, 2, 3, 4, 5]
        assert [reply.final_data for reply in replies] == [False] * 5 + [True]
        assert [values(reply.data.rewards) for reply in replies] == [
            [],
            *([(tick, 1.0)] for tick in range(1, 6)),
        ]
        requests = net.environment.of(trial_id, "action")
        assert [list(request.action_set.actions) for request in requests] == [
            [b"a0:%d" % tick, b"c0:%d" % tick] for tick in range(5)
        ]


@on_loop
async def test_stream_is_accepted_before_its_first_message() -> None:
    async with Net(agents=0, clients=2) as net:
        trial_id = await net.start()
        await net.join(trial_id)
        async with asyncio.timeout(20):
            await net.client(trial_id).initial_metadata()
        (info,) = (await net.lifecycle.GetTrialInfo(api.TrialInfoRequest())).trial
        assert info.state == api.PENDING


@on_loop
async def test_several_clients_that_join_in_any_order() -> None:
    async with Net(agents=0, clients=3) as net:
        trials = [await net.start() for _ in range(3)]
        joined = await asyncio.gather(*(net.join(actor_class="player") for _ in range(9)))
        places = sorted((reply.trial_id, reply.actor_name) for reply in joined)
        assert places == sorted((trial, f"c{index}") for trial in trials for index in range(3))
        streams = [net.client(*place) for place in places]
        games = await asyncio.gather(
            *(play(stream, place[1]) for stream, place in zip(streams, places, strict=True))
        )
        assert [ticks(replies) for replies in games] == [list(range(6))] * 9


@on_loop
async def test_clients_send_rewards_and_messages() -> None:
    async with Net(agents=1, clients=1) as net:
        net.environment.length = 1
        trial_id = await net.start()
        to = {"metadata": whom(trial_id, "c0")}
        await net.actors.SendReward(api.TrialRewardRequest(rewards=[reward("a0", 3)]), **to)
        sent = [message("a0", "hello"), message("env", "hi"), message("c0", "myself")]
        await net.actors.SendMessage(api.TrialMessageRequest(messages=sent), **to)
        await net.join(trial_id)
        replies = await play(net.client(trial_id))
        assert [texts(reply.data.messages) for reply in replies] == [[(0, "c0", "myself")], []]
        (got,) = net.environment.of(trial_id, "message")
        assert texts(got.messages) == [(0, "c0", "hi")]
        assert values(net.agents.of(trial_id, "a0", "reward")) == [(0, 3.0)]
        (first,) = net.agents.of(trial_id, "a0", "messages")
        assert texts(first) == [(0, "c0", "hello")]


@on_loop
async def test_half_close_is_not_a_departure() -> None:
    async with Net(agents=0, clients=1, settings=Settings(heartbeat_timeout=0)) as net:
        trial_id = await net.start()
        await net.join(trial_id)
        stream = net.client(trial_id)
        await play(stream, last=1)
        await stream.done_writing()
        # Nobody answers for it any more, but it still hears how the trial ends.
        await net.lifecycle.TerminateTrial(api.TerminateTrialRequest(), metadata=whom(trial_id))
        (final,) = await play(stream)
        assert final.final_data
        assert await net.end_of(trial_id) == "TerminateTrial was called"


@pytest.mark.parametrize("rejoins", [True, False])
@on_loop
async def test_disconnected_client_may_rejoin(rejoins: bool) -> None:
    async with Net(agents=1, clients=1) as net:
        trial_id = await net.start()
        await net.join(trial_id)
        stream = net.client(trial_id)
        assert ticks(await play(stream, last=1))[-1] == 2
        stream.cancel()
        if rejoins:
            assert (await _until_accepted(lambda: net.join(trial_id))).actor_name == "c0"
        stream = await _until_accepted(lambda: _opened(net, trial_id))
        assert ticks(await play(stream)) == [2, 3, 4, 5]
        requests = net.environment.of(trial_id, "action")
        assert [request.reply_with_snapshot for request in requests] == [
            False,
            False,
            True,
            False,
            False,
        ]


async def _opened(net: Net, trial_id: str) -> Any:
    stream = net.client(trial_id)
    await stream.initial_metadata()
    if stream.done():
        await stream.read()
    return stream


async def _until_accepted(attempt: Any) -> Any:
    """Try until the server has noticed that the old stream is gone."""
    for _ in range(200):
        try:
            return await attempt()
        except grpc.aio.AioRpcError as error:
            if error.code().name not in ("ALREADY_EXISTS", "FAILED_PRECONDITION"):
                raise
            await asyncio.sleep(0.02)
    raise AssertionError("never accepted")


@on_loop
async def test_client_that_breaks_off_for_good_ends_the_trial() -> None:
    async with Net(agents=1, clients=1, settings=Settings(reconnect_window=0.2)) as net:
        trial_id = await net.start()
        await net.join(trial_id)
        stream = net.client(trial_id)
        await play(stream, last=0)
        stream.cancel()
        reason = await net.end_of(trial_id)
        assert "'c0' did not return within 0.2 s" in reason
        (final,) = net.agents.of(trial_id, "a0", "end")
        assert [each.data.content for each in final.observations] == [b"o999.0"]


PLAYER = """
import sys, grpc
from cogrs.api.orchestrator_pb2_grpc import ClientActorStub

port, trial_id = sys.argv[1:]
stub = ClientActorStub(grpc.insecure_channel(f"127.0.0.1:{port}"))
metadata = (("trial-id", trial_id), ("actor-name", "c0"))
for reply in stub.ActionStream(iter(()), metadata=metadata):
    print(reply.data.observations[0].tick_id, flush=True)
"""


@on_loop
async def test_client_whose_process_dies_counts_as_departed() -> None:
    settings = Settings(heartbeat_timeout=0, reconnect_window=0.2)
    async with Net(agents=1, clients=1, settings=settings) as net:
        trial_id = await net.start()
        await net.join(trial_id)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", PLAYER, str(net.orchestrator.port), trial_id),
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        assert await process.stdout.readline() == b"0\n"
        process.kill()
        assert "'c0' did not return within 0.2 s" in await net.end_of(trial_id)
        await process.communicate()


@on_loop
async def test_silent_client_gets_an_error() -> None:
    settings = Settings(heartbeat_timeout=0.3, reconnect_window=60)
    async with Net(agents=1, clients=1, settings=settings) as net:
        trial_id = await net.start()
        await net.join(trial_id)
        stream = net.client(trial_id)
        await stream.read()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stream.read()
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert "not heard from within 0.3 s" in str(caught.value.details())
        assert ticks(await play(net.client(trial_id))) == [0, 1, 2, 3, 4, 5]


@on_loop
async def test_heartbeats_keep_a_thinking_client() -> None:
    async with Net(agents=1, clients=1, settings=Settings(heartbeat_timeout=3)) as net:
        trial_id = await net.start()
        await net.join(trial_id)
        stream = net.client(trial_id)
        await stream.read()
        for _ in range(45):
            await net.actors.Heartbeat(api.TrialHeartbeatRequest(), metadata=whom(trial_id, "c0"))
            await asyncio.sleep(0.1)
        await stream.write(act(b"at last"))
        assert ticks(await play(stream)) == [1, 2, 3, 4, 5]


@on_loop
async def test_trial_with_a_free_slot_ends_after_the_timeout() -> None:
    async with Net(agents=1, clients=1, settings=Settings(join_timeout=0.2)) as net:
        trial_id = await net.start()
        assert "nobody joined as actor 'c0'" in await net.end_of(trial_id)
        assert len(net.environment.of(trial_id, "end")) == 1


@on_loop
async def test_request_that_cannot_be_decoded_is_refused() -> None:
    async with Net(agents=0, clients=1) as net:
        trial_id = await net.start()
        await net.join(trial_id)
        stream = net.channel.stream_stream("/cogment.ClientActor/ActionStream")(
            metadata=whom(trial_id, "c0")
        )
        await stream.read()
        await stream.write(b"\xff")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stream.read()
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert ticks(await play(net.client(trial_id))) == [0, 1, 2, 3, 4, 5]


@on_loop
async def test_internal_error_ends_the_trial(caplog: pytest.LogCaptureFixture) -> None:
    async with Net(agents=0, clients=1) as net:
        trial_id = await net.start()
        await net.join(trial_id)
        stream = net.client(trial_id)
        await stream.read()
        actor = net.orchestrator._orchestrator.client(trial_id, "c0")
        actor.received = None  # type: ignore[assignment,method-assign]
        await stream.write(act(b"x"))
        assert "internal error: actor 'c0': TypeError" in await net.end_of(trial_id)
        (final,) = await play(stream)
        assert final.final_data
    assert "a client's stream failed" in caplog.text


@on_loop
async def test_many_joins_and_cancellations_leave_nothing() -> None:
    settings = Settings(retention=0, reconnect_window=0.001)
    begin, tasks = 0.0, 0
    rounds = 5000 if SOAK else 50
    async with Net(agents=0, clients=1, settings=settings) as net:
        for number in range(rounds):
            if number == rounds // 10:
                begin, tasks = resident(), len(asyncio.all_tasks())
            net.environment.calls.clear()
            trial_id = await net.start()
            await net.join(trial_id)
            stream = net.client(trial_id)
            await stream.read()
            stream.cancel()
        for _ in range(200):
            if not (await net.lifecycle.GetTrialInfo(api.TrialInfoRequest())).trial:
                break
            await asyncio.sleep(0.05)
        assert net.orchestrator._orchestrator.info(None) == []
        # Some streams were still ending when they were counted.
        assert len(asyncio.all_tasks()) < tasks + rounds / 2
    assert resident() - begin < 20


# One client pings each second, the fastest that is allowed; another idles for a minute, as behind
# proxies.
_PINGS = [(1, 5), (1, 65), (10, 65)] if SOAK else [(1, 5)]


@pytest.mark.parametrize(("every", "seconds"), _PINGS)
@on_loop
async def test_frequent_pings_of_clients_are_accepted(every: int, seconds: int) -> None:
    async with Net(agents=0, clients=1, settings=Settings(heartbeat_timeout=0)) as net:
        options = [
            ("grpc.keepalive_time_ms", 1000 * every),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.max_pings_without_data", 0),
            ("grpc.http2.min_time_between_pings_ms", 500),
        ]
        trial_id = await net.start()
        await net.join(trial_id)
        where = f"127.0.0.1:{net.orchestrator.port}"
        async with grpc.aio.insecure_channel(where, options=options) as channel:
            stream = ClientActorStub(channel).ActionStream(metadata=whom(trial_id, "c0"))
            assert (await stream.read()).data.observations[0].tick_id == 0
            await asyncio.sleep(seconds)
            await stream.write(act(b"x"))
            assert (await stream.read()).data.observations[0].tick_id == 1
