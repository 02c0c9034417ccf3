"""Client actors on real sockets: they join, act, send, leave, lose their connection, return."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from typing import Any

import grpc
import numpy as np
import pytest

from cogrs import orchestrator, sdk
from cogrs.api.common_pb2 import RewardSource
from cogrs.orchestrator import Settings
from tests.orchestrator.net import on_loop
from tests.sdk.clients import Line, cut_off, game
from tests.sdk.net import Counting, calls, named, rewards


@on_loop
async def test_client_and_agent_play_in_one_trial() -> None:
    told, heard = calls(), calls()
    events: list[Any] = []

    async def play(session: sdk.ActorSession) -> None:
        assert session.trial.actor_names == ("c0", "a")
        async for event in session:
            events.append(event)
            if isinstance(event, sdk.Observation):
                await session.act(
                    event.value * 10,
                    rewards=[sdk.Reward("a", 2.0)] if event.tick == 2 else [],
                    messages=[sdk.Message("a", RewardSource(value=event.tick))],
                )

    async with game(told, heard) as (_, controller, where), sdk.ClientActor(where) as client:
        trial = (await controller.start_trial()).id
        final = await client.play(play, actor_class="human")
        await controller.wait_ended(trial)
    assert final is not None
    assert final is events[-1]
    assert final.observation is not None
    assert (final.observation.tick, final.observation.terminated) == (5, True)
    observed = [each.tick for each in events if isinstance(each, sdk.Observation)]
    assert observed == [0, 1, 2, 3, 4]
    steps = [step["c0"] for step in named(told[trial], "step")]
    assert steps == [[10 * k, 0] for k in range(5)]
    # What is sent at tick 2 arrives with tick 3, with the environment's: the mean of 1 and 2.
    assert rewards(heard[trial, "a"]) == [(1, 1.0), (2, 1.0), (3, 1.5), (4, 1.0), (5, 1.0)]
    assert len(named(heard[trial, "a"], "message")) == 4


@on_loop
async def test_many_clients_of_one_connection_do_not_mix() -> None:
    told = calls()
    seen: defaultdict[Any, list[Any]] = defaultdict(list)

    async def play(session: sdk.ActorSession) -> None:
        async for event in session:
            if isinstance(event, sdk.Observation):
                seen[session.trial.id, session.trial.name].append(event.value.tolist())
                await asyncio.sleep(0)
                await session.act(event.value)

    async with (
        game(told, clients=2) as (_, controller, where),
        sdk.ClientActor(where) as client,
        asyncio.TaskGroup() as tasks,
    ):
        trials = [(await controller.start_trial()).id for _ in range(10)]
        for trial in trials:
            for name in ("c0", "c1"):
                tasks.create_task(client.play(play, trial, name=name))
    assert len(seen) == 20
    for (_, name), values in seen.items():
        assert values == [[tick, int(name[1])] for tick in range(5)]


@on_loop
async def test_actor_that_left_and_returns_sees_the_latest_observation() -> None:
    told = calls()
    async with (
        game(told) as (_, controller, where),
        sdk.ClientActor(where) as client,
    ):
        del where
        trial = (await controller.start_trial()).id
        async with await client.join(trial, name="c0") as session:
            async for event in session:
                if isinstance(event, sdk.Observation):
                    if event.tick == 2:
                        break
                    await session.act(event.value)
        assert session.final is None
        with pytest.raises(StopAsyncIteration):
            await anext(session)
        seen = []

        async def play(session: sdk.ActorSession) -> None:
            async for event in session:
                if isinstance(event, sdk.Observation):
                    seen.append(event.tick)
                    await session.act(event.value)

        final = await client.play(play, trial, name="c0")
        assert seen == [2, 3, 4]
        assert final is not None
        assert final.observation is not None
        assert final.observation.terminated
    assert len(named(told[trial], "step")) == 5


@pytest.mark.parametrize("thought", [0.0, 0.003, 0.3])
@on_loop
async def test_action_after_the_end_does_not_hide_the_end(thought: float) -> None:
    async with game(calls()) as (_, controller, where), sdk.ClientActor(where) as client:
        trial = (await controller.start_trial()).id
        async with await client.join(trial, name="c0") as session:
            first = await anext(session)
            assert isinstance(first, sdk.Observation)
            await controller.terminate_trial(trial)
            await asyncio.sleep(thought)
            await session.act(first.value)
            assert [type(event) async for event in session] == [sdk.Final]


@on_loop
async def test_place_that_was_left_can_be_taken_at_once() -> None:
    async with (
        game(calls(), clients=2) as (_, controller, where),
        sdk.ClientActor(where) as client,
        sdk.ClientActor(where) as other,
    ):
        trial = (await controller.start_trial()).id
        secret = ""
        bob = asyncio.ensure_future(other.play(lambda seen: seen.value, trial, name="c1"))
        for turn in range(20):
            mine = client if turn % 3 else other
            session = await mine.join(trial, name="c0", secret=secret)
            secret = session.secret
            if turn % 2:
                assert isinstance(await anext(session), sdk.Observation)
            await session.leave()
        assert await client.play(lambda seen: seen.value, trial, name="c0") is not None
        assert await bob is not None


@on_loop
async def test_join_waits_until_the_orchestrator_knows_that_the_client_left() -> None:
    async with (
        game(calls()) as (server, controller, where),
        sdk.ClientActor(where) as other,
    ):
        line = Line(server.port)
        async with sdk.ClientActor(f"127.0.0.1:{await line.start()}", heartbeat=0.05) as client:
            trial = (await controller.start_trial()).id
            session = await client.join(trial, name="c0")
            assert isinstance(await anext(session), sdk.Observation)
            # A client that has not left keeps its place, and joining again fails at once.
            with pytest.raises(sdk.RemoteCallError, match="actor 'c0' is taken"):
                await client.join(trial, name="c0")
            line.flows.clear()
            await session.leave()
            joining = asyncio.ensure_future(other.join(trial, name="c0", secret=session.secret))
            done, _ = await asyncio.wait({joining}, timeout=0.5)
            assert not done
            line.flows.set()
            async with await joining as again:
                assert isinstance(await anext(again), sdk.Observation)
            await controller.terminate_trial(trial)
        await line.close()


@on_loop
async def test_client_reconnects_after_its_connection_is_cut() -> None:
    told = calls()
    async with game(told) as (server, controller, _):
        line = Line(server.port)
        port = await line.start()
        async with sdk.ClientActor(f"127.0.0.1:{port}", reconnect=60) as client:
            trial = (await controller.start_trial()).id
            seen: list[int] = []
            final = await client.play(cut_off(seen, line.cut), trial, name="c0")
        await line.close()
        assert final is not None
        # A cut shows the same observation again.
        assert seen == [0, 1, 1, 2, 3, 3, 4]
        assert len(named(told[trial], "step")) == 5


@on_loop
async def test_without_reconnect_a_cut_is_an_error() -> None:
    async with game(calls()) as (server, controller, _):
        line = Line(server.port)
        port = await line.start()
        async with sdk.ClientActor(f"127.0.0.1:{port}", reconnect=0) as client:
            trial = (await controller.start_trial()).id
            async with await client.join(trial, name="c0") as session:
                await anext(session)
                line.cut()
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await anext(session)
        await line.close()
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        await controller.terminate_trial(trial)


@on_loop
async def test_heartbeats_keep_a_slow_client_in_the_trial() -> None:
    settings = Settings(heartbeat_timeout=1.0)
    async with (
        game(calls(), settings=settings) as (_, controller, where),
        sdk.ClientActor(where, heartbeat=0.1) as client,
    ):
        trial = (await controller.start_trial()).id

        async def ponder(session: sdk.ActorSession) -> None:
            async for event in session:
                if isinstance(event, sdk.Observation):
                    await asyncio.sleep(2.0 if event.tick == 0 else 0)
                    await session.act(event.value)

        final = await client.play(ponder, trial, name="c0")
        assert final is not None
        assert final.observation is not None
        assert final.observation.terminated


@on_loop
async def test_wrong_call_of_a_client_raises() -> None:
    async with game(calls()) as (_, controller, where), sdk.ClientActor(where) as client:
        trial = (await controller.start_trial()).id
        for given in ({}, {"name": "c0", "actor_class": "human"}):
            with pytest.raises(ValueError, match="name, actor_class: expected one of them"):
                await client.join(trial, **given)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await client.join(trial, name="nobody")
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        async with await client.join(trial, name="c0") as session:
            with pytest.raises(RuntimeError, match="every observation has been answered already"):
                await session.act([0])
            await anext(session)
            with pytest.raises(TypeError, match="action of 'c0': expected numbers or booleans"):
                await session.act("left")
            await session.act([0])
        await controller.terminate_trial(trial)
    for seconds in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="heartbeat: expected seconds > 0"):
            sdk.ClientActor("h:1", heartbeat=seconds)
    with pytest.raises(ValueError, match="reconnect: expected seconds >= 0"):
        sdk.ClientActor("h:1", reconnect=-1)


class Nothing(sdk.BytesCodec):
    def decode(self, content: bytes) -> sdk.Decoded:
        raise ValueError(f"expected nothing, got {len(content)} bytes")


@on_loop
async def test_observations_that_cannot_be_decoded_name_actor_and_trial() -> None:
    async with (
        game(calls()) as (_, controller, where),
        sdk.ClientActor(where, codec=Nothing()) as client,
    ):
        trial = (await controller.start_trial()).id
        async with await client.join(trial, name="c0") as session:
            with pytest.raises(ValueError, match=f"trial {trial}: actor 'c0': observation of 'c0'"):
                await anext(session)
        await controller.terminate_trial(trial)


def test_scripts_play_without_a_loop() -> None:
    told = calls()
    with sdk.serve_endpoint(environments={"": lambda: Counting(told)}) as endpoint:
        actor = {"name": "c0", "actor_class": "human", "endpoint": "client"}
        params = {"environment": {"endpoint": endpoint.address}, "actors": [actor]}
        with orchestrator.serve_orchestrator({"trial_params": params}, port=0) as server:
            where = f"127.0.0.1:{server.port}"
            trial: list[Any] = []
            starter = threading.Thread(target=lambda: trial.append(sdk.run_trial(where)))
            starter.start()
            while True:
                try:
                    final = sdk.play(
                        where, lambda seen: seen.value + 1, actor_class="human", timeout=60
                    )
                    break
                except grpc.aio.AioRpcError as error:  # the trial has not started yet
                    if error.code() is not grpc.StatusCode.FAILED_PRECONDITION:
                        raise
            starter.join()
    assert final is not None
    assert final.observation is not None
    np.testing.assert_array_equal(final.observation.value, [5, 0])
    steps = [step["c0"] for step in named(told[trial[0].id], "step")]
    assert steps == [[k + 1, 1] for k in range(5)]


def test_late_player_gets_an_error() -> None:
    with sdk.serve_endpoint(environments={"": lambda: Counting(calls())}) as endpoint:
        actor = {"name": "c0", "actor_class": "human", "endpoint": "client"}
        params = {"environment": {"endpoint": endpoint.address}, "actors": [actor]}
        with orchestrator.serve_orchestrator({"trial_params": params}, port=0) as server:
            where = f"127.0.0.1:{server.port}"

            async def start() -> str:
                async with sdk.TrialController(where) as controller:
                    return (await controller.start_trial()).id

            trial = asyncio.run(start())
            released = threading.Event()
            with pytest.raises(TimeoutError, match=r"not over within 0\.5 s"):
                sdk.play(where, lambda _: released.wait(60), trial, name="c0", timeout=0.5)
            released.set()
            server.stop(0)


@pytest.mark.parametrize("error", [SystemExit, StopIteration, asyncio.CancelledError])
@on_loop
async def test_exception_of_a_player_function_reaches_its_caller(
    error: type[BaseException],
) -> None:
    def fails(_: sdk.Observation) -> int:
        raise error("no more")

    async with game(calls()) as (_, controller, where), sdk.ClientActor(where) as client:
        trial = (await controller.start_trial()).id
        expected = SystemExit if error is SystemExit else RuntimeError
        with pytest.raises(expected, match="no more"):
            await client.play(fails, trial, name="c0")
        await controller.terminate_trial(trial)
