"""Actors that do not read: what waits for them is bounded, in ticks and in bytes."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cogrs.api.common_pb2 import Action
from cogrs.api.environment_pb2 import EnvActionReply
from cogrs.orchestrator import ActorOptions, Settings
from cogrs.orchestrator.engine.backlog import Backlog
from cogrs.orchestrator.engine.state import State
from tests.orchestrator.net import SOAK, Net, on_loop, resident
from tests.orchestrator.world import World, observation_set

MEGABYTE = 1_000_000
TICKS = 1000 if SOAK else 150
STANDS_IN = ActorOptions(default_action=b"d", response_timeout=0.005)

steps = st.sampled_from(["append", "append", "popleft", "appendleft", "clear"])


@given(st.lists(st.tuples(steps, st.integers(0, 50))))
def test_backlog_agrees_with_a_naive_one(script: list[tuple[str, int]]) -> None:
    backlog: Backlog[Action] = Backlog()
    naive: list[tuple[Action, int]] = []
    for step, size in script:
        message = Action(content=b"x" * size)
        if step == "append":
            naive.append((message, message.ByteSize() if naive else 0))
            backlog.append(message)
        elif step == "appendleft":
            naive.insert(0, (message, 0))
            backlog.appendleft(message)
        elif step == "clear":
            naive.clear()
            backlog.clear()
        elif naive:
            assert backlog.popleft() is naive.pop(0)[0]
        assert list(backlog) == [each for each, _ in naive]
        assert len(backlog) == len(naive)
        # What was put back before it was measured is still in the sum of what is behind it.
        assert backlog.bytes >= sum(known for _, known in naive[1:])


def slow_client(**limits: Any) -> World:
    settings = Settings(heartbeat_timeout=0.0, reconnect_window=100.0, **limits)
    options = {"c0": ActorOptions(default_action=b"d", response_timeout=1.0)}
    return World(agents=0, clients=1, actor_options=options, settings=settings)


def large(number: int) -> Any:
    made = observation_set(1, number)
    made.observations[0].content = bytes(1000)
    return made


def test_client_is_hung_up_for_the_bytes_and_keeps_the_latest() -> None:
    world = slow_client(client_backlog_bytes=5000)
    client = world.client()
    world.run()
    for number in range(1, 40):
        world.clock.advance(1.1)
        world.step(number, observation_set=large(number))
    assert str(client.reader.error).startswith("actor 'c0': 6 ticks of 51")
    assert world.trial.state is State.RUNNING
    client.open()
    ticks = [reply.data.observations[0].tick_id for reply in client.read()]
    assert ticks == list(range(36, 40))
    assert world.trial.counts["missed ticks"] == 36


def test_one_tick_may_be_larger_than_the_limit() -> None:
    world = slow_client(client_backlog_bytes=1)
    client = world.client()
    world.run()
    for number in range(1, 5):
        client.read()
        client.act()
        world.step(number, observation_set=large(number))
    assert client.reader.error is None


class LargeNet(Net):
    """Observations of a megabyte, to actors for whom a default action stands in."""

    def __init__(self, agents: int, clients: int) -> None:
        limit = Settings(client_backlog_bytes=10 * MEGABYTE, final_timeout=1.0)
        super().__init__(agents, clients, settings=limit)
        self.config = {"class_options": {"player": STANDS_IN, "agent": STANDS_IN}}
        self.environment.step = self.step  # type: ignore[method-assign]

    async def step(self, trial_id: str, number: int, request: Any) -> EnvActionReply:
        del trial_id, request
        made = observation_set(1, number)
        made.observations[0].content = bytes(MEGABYTE)
        return EnvActionReply(observation_set=made, final_update=number == TICKS)


async def read_all(stream: Any) -> None:
    while await stream.read() is not grpc.aio.EOF:
        pass


@on_loop
async def test_client_that_never_reads_takes_no_memory() -> None:
    async with LargeNet(0, 1) as net:
        trial_id = await net.start()
        await net.join(trial_id)
        stream = net.client(trial_id)
        await stream.initial_metadata()
        before = resident()
        await net.until(trial_id)
        assert resident() - before < 100
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await read_all(stream)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "ticks of" in str(caught.value.details())
        dropped = net.orchestrator.stats().dropped
        assert dropped["missed ticks"] > TICKS / 2


@on_loop
async def test_agent_that_never_reads_is_lost_and_takes_no_memory() -> None:
    net = LargeNet(1, 0)

    async def deaf(requests: Any, context: Any) -> Any:
        await asyncio.sleep(60)
        yield

    net.agents.OnObservation = deaf  # type: ignore[method-assign, assignment]
    async with net:
        before = resident()
        reason = await net.end_of(await net.start())
        assert "OnObservation" in reason
        assert "wait to be read" in reason
        assert resident() - before < 100


@on_loop
async def test_agent_that_hangs_in_a_reward_call_is_lost() -> None:
    net = LargeNet(1, 0)

    async def hang(request: Any, context: Any) -> Any:
        await asyncio.sleep(60)

    net.agents.OnReward = hang  # type: ignore[method-assign]
    step = net.environment.step

    async def rewarded(trial_id: str, number: int, request: Any) -> EnvActionReply:
        reply = await step(trial_id, number, request)
        reply.rewards.add(receiver_name="a0", tick_id=-1).sources.add(value=1, confidence=1)
        return reply

    net.environment.step = rewarded  # type: ignore[method-assign]
    async with net:
        before = resident()
        reason = await net.end_of(await net.start())
        assert "wait to be read" in reason
        assert resident() - before < 100
