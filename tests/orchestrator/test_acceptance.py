"""Many trials on real sockets, whose parties fail at random, end at once, or send anything."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cogrs.api import orchestrator_pb2 as api
from cogrs.api.agent_pb2 import AgentActionReply
from cogrs.api.common_pb2 import Action, TrialParams
from cogrs.orchestrator import Config, Settings, serve
from tests.orchestrator.local_components import PARAMS, Echo, Walls
from tests.orchestrator.net import SOAK, Net, on_loop, resident, whom

if TYPE_CHECKING:
    from collections.abc import Iterable

AGENTS = 50
TRIALS, TICKS = (20, 200) if SOAK else (6, 6)
PATIENT = Settings(end_timeout=0.0, final_timeout=0.0, call_timeout=0.0)
"""How long an answer takes on a busy machine is not what these tests are about."""
REASONS = {
    "environment": "environment {}: OnAction: UNKNOWN",
    "agent": "actor 'a7' at {}: OnObservation: UNKNOWN",
    "terminate": "TerminateTrial was called",
    "nobody": "environment: final update",
}


class Crowd(Net):
    """Agents that answer in any order; in each trial somebody is killed, or nobody is."""

    def __init__(self, seed: int) -> None:
        super().__init__(agents=AGENTS, settings=PATIENT)
        self._random = random.Random(seed)
        self.environment.length = TICKS
        self.victims: dict[str, tuple[str, int]] = {}
        self.agents.act = self._act  # type: ignore[method-assign]
        self._step = self.environment.step
        self.environment.step = self._step_or_die  # type: ignore[method-assign]

    def doom(self, trial_id: str, victim: str) -> None:
        self.victims[trial_id] = victim, self._random.randrange(1, TICKS - 1)

    async def _act(self, trial_id: str, name: str, observation: Any) -> AgentActionReply:
        await asyncio.sleep(self._random.random() * 0.02)
        if (name, ("agent", observation.tick_id)) == ("a7", self.victims.get(trial_id)):
            raise RuntimeError("killed")
        content = f"{name}:{observation.tick_id}".encode()
        return AgentActionReply(action=Action(content=content))

    async def _step_or_die(self, trial_id: str, number: int, request: Any) -> Any:
        victim = self.victims.get(trial_id)
        if victim == ("environment", number):
            raise RuntimeError("killed")
        if victim == ("terminate", number):
            request = api.TerminateTrialRequest()
            await self.lifecycle.TerminateTrial(request, metadata=whom(trial_id))
        return await self._step(trial_id, number, request)


@on_loop
async def test_trials_of_fifty_agents_play_and_end_when_a_party_is_lost() -> None:
    async with Crowd(seed=1) as net:
        trials = [await net.start() for _ in range(TRIALS)]
        for trial_id, victim in zip(trials, [*REASONS] * TRIALS, strict=False):
            net.doom(trial_id, victim)
        reasons = await asyncio.gather(*map(net.end_of, trials))
        for trial_id, reason in zip(trials, reasons, strict=True):
            victim, tick = net.victims[trial_id]
            assert reason.startswith(REASONS[victim].format(net.endpoint))
            sent = [each.action_set.actions for each in net.environment.of(trial_id, "action")]
            expected = TICKS if victim == "nobody" else tick
            assert len(sent) == expected
            for number, actions in enumerate(sent):
                assert list(actions) == [b"a%d:%d" % (k, number) for k in range(AGENTS)]
            ends = [len(net.agents.of(trial_id, f"a{k}", "end")) for k in range(AGENTS)]
            assert ends == [int(k != 7 or victim != "agent") for k in range(AGENTS)] or (
                ends == [1] * AGENTS
            )
    await nothing_is_left()


async def nothing_is_left() -> None:
    """Wait until no task is left but the one that asks."""
    for _ in range(1_200):
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if not left:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(left)


def test_many_agents_can_start_at_once() -> None:
    """Servers cancel calls at random when more than 1,000 wait; nobody may be among them."""

    @on_loop
    async def play() -> None:
        async with Net(agents=AGENTS, settings=PATIENT, max_steps=1) as net:
            trials = await asyncio.gather(*(net.start() for _ in range(1_050 // AGENTS)))
            for trial_id in trials:
                assert "max_steps: 1" in await net.end_of(trial_id)
                ends = [len(net.agents.of(trial_id, f"a{k}", "end")) for k in range(AGENTS)]
                assert ends == [1] * AGENTS

    play()


@on_loop
async def test_many_clients_can_call_at_once() -> None:
    async with Net(agents=0, clients=1) as net:
        calls = [net.lifecycle.GetTrialInfo(api.TrialInfoRequest()) for _ in range(3_000)]
        replies = await asyncio.gather(*calls)
        assert len(replies) == 3_000


def test_trial_ends_when_both_sides_end_the_trial_at_once() -> None:
    trials, at_once = (500, 25) if SOAK else (50, 25)

    @on_loop
    async def play() -> None:
        dice = random.Random(2)
        calls: list[asyncio.Task[Any]] = []

        async def terminate(trial_id: str) -> None:
            await asyncio.sleep(dice.choice([0, 0, 0.001, 0.003]))
            # Who is too late may find nothing any more.
            with suppress(grpc.aio.AioRpcError):
                await net.lifecycle.TerminateTrial(
                    api.TerminateTrialRequest(), metadata=whom(trial_id)
                )

        async with Net(agents=2) as net:
            step = net.environment.step

            async def end(trial_id: str, number: int, request: Any) -> Any:
                calls.append(asyncio.ensure_future(terminate(trial_id)))
                await asyncio.sleep(dice.choice([0, 0, 0.001, 0.003]))
                return await step(trial_id, number, request)

            net.environment.length = 1
            net.environment.step = end  # type: ignore[method-assign]
            for _ in range(trials // at_once):
                ids = [await net.start() for _ in range(at_once)]
                reasons = await asyncio.gather(*map(net.end_of, ids))
                assert set(reasons) <= {REASONS["nobody"], REASONS["terminate"]}
                await asyncio.gather(*calls)
                for trial_id in ids:
                    for name in ("a0", "a1"):
                        assert len(net.agents.of(trial_id, name, "end")) == 1
                    # Whose final update it was gets no OnEnd.
                    assert net.environment.of(trial_id, "end") == []
        await nothing_is_left()

    play()


def test_ended_trials_leave_nothing_in_memory() -> None:
    trials, first = (2000, 200) if SOAK else (300, 100)

    class Forgetful(Walls):
        async def on_action(self, trial_id: str, requests: Any) -> Any:
            async for reply in super().on_action(trial_id, requests):
                self.calls.clear()
                yield reply

    class ForgetfulEcho(Echo):
        async def on_reward(self, trial_id: str, actor_name: str, request: Any) -> Any:
            reply = await super().on_reward(trial_id, actor_name, request)
            self.calls.clear()
            return reply

    @on_loop
    async def play() -> None:
        local = {"walls": Forgetful(), "echo": ForgetfulEcho()}
        config = Config(params=TrialParams(max_steps=10, **PARAMS))
        begin = 0.0
        async with await serve(
            config, port=0, local=local, settings=Settings(retention=0.01)
        ) as running:
            for number in range(trials):
                if number == first:
                    begin = resident()
                await running._orchestrator.start(api.TrialStartRequest())
                await running._orchestrator.wait_idle()
            assert resident() - begin < 20
            for _ in range(200):
                if not running._orchestrator.info(None):
                    break
                await asyncio.sleep(0.05)
            assert running._orchestrator.info(None) == []
            assert running.stats().started == trials

    play()


def test_local_components_may_start_processes() -> None:
    class Spawning(Walls):
        async def on_end(self, trial_id: str, request: Any) -> Any:
            await asyncio.to_thread(subprocess.run, [sys.executable, "-c", ""], check=True)
            return await super().on_end(trial_id, request)

    @on_loop
    async def play() -> None:
        local = {"walls": Spawning(), "echo": Echo()}
        async with Net(local=local, max_steps=3, **PARAMS) as net:
            process = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
            trial_id = await net.start()
            assert "max_steps: 3" in await net.end_of(trial_id)
            assert await process.wait() == 0

    play()


METHODS = {
    "TrialLifecycle": ["StartTrial", "TerminateTrial", "GetTrialInfo", "WatchTrials", "Version"],
    "ClientActor": ["JoinTrial", "Heartbeat", "SendReward", "SendMessage", "Version"],
}
DOCUMENTED = {
    *("OK", "NOT_FOUND", "INVALID_ARGUMENT", "FAILED_PRECONDITION", "ALREADY_EXISTS"),
    *("ABORTED", "UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED"),
}
_printable = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20)
_metadata = st.lists(
    st.tuples(st.sampled_from(["trial-id", "actor-name"]), _printable.map(str.strip))
    | st.tuples(st.sampled_from(["trial-id-bin", "x-bin"]), st.binary(max_size=8))
    | st.tuples(st.just("authorization"), _printable.map(str.strip)),
    max_size=4,
)
_requests = st.binary(max_size=40) | st.sampled_from(
    [
        api.TrialJoinRequest(trial_id="TRIAL", actor_name="c0").SerializeToString(),
        api.TrialJoinRequest(actor_class="player").SerializeToString(),
        api.TrialListRequest(filter=[1, 2]).SerializeToString(),
        api.TrialRewardRequest(rewards=[{"tick_id": -(2**31)}]).SerializeToString(),
        api.TrialMessageRequest(messages=[{"receiver_name": "env"}]).SerializeToString(),
    ]
)
_calls = st.lists(
    st.tuples(
        st.sampled_from([f"/cogment.{s}/{m}" for s, names in METHODS.items() for m in names]),
        _requests,
        _metadata,
        st.booleans(),
    ),
    max_size=30,
)


@given(_calls, st.lists(_requests, max_size=1), _metadata)
@settings(max_examples=200 if SOAK else 15)
@on_loop
async def test_any_request_gets_only_documented_codes(
    calls: list[tuple[str, bytes, Any, bool]], stream: list[bytes], metadata: Any
) -> None:
    async with Net(agents=0, clients=2) as net:
        real = await net.start()
        for method, request, given_metadata, known in calls:
            whole = [*given_metadata, *(whom(real, "c0") if known else ())]
            assert await code_of(net.channel, method, request, whole) in DOCUMENTED
        port = net.orchestrator.port
        code = await asyncio.to_thread(code_of_action_stream, port, stream, metadata)
        assert code in DOCUMENTED
        assert (await net.lifecycle.GetTrialInfo(api.TrialInfoRequest())).trial


async def code_of(
    channel: grpc.aio.Channel, method: str, request: bytes, metadata: Iterable[Any]
) -> str:
    if method.endswith("WatchTrials"):
        return await code_of_stream(channel.unary_stream(method)(request, metadata=metadata))
    try:
        await channel.unary_unary(method)(request, metadata=metadata)
    except grpc.aio.AioRpcError as error:
        return error.code().name
    return "OK"


def code_of_action_stream(port: int, requests: list[bytes], metadata: Any) -> str:
    """The status of a stream, which is cancelled when it is open.

    The blocking client tells it; the other one says INTERNAL when a write fails at the end.
    """
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        open_stream: Any = channel.stream_stream("/cogment.ClientActor/ActionStream")
        call = open_stream(iter(requests), metadata=metadata)
        over = threading.Event()
        if call.add_callback(over.set) and not over.wait(0.05):
            call.cancel()
            return "OK"
        return str(call.code().name)


async def code_of_stream(call: Any) -> str:
    """The status of a stream, which is cancelled when it is open."""
    try:
        async with asyncio.timeout(0.05):
            await call.code()
    except TimeoutError:
        call.cancel()
        return "OK"
    return str((await call.code()).name)


@pytest.mark.parametrize(
    "method", [f"/cogment.{s}/{m}" for s, names in METHODS.items() for m in names]
)
@on_loop
async def test_request_that_is_not_a_message_is_an_invalid_argument(method: str) -> None:
    async with (
        await serve(port=0) as running,
        grpc.aio.insecure_channel(f"127.0.0.1:{running.port}") as channel,
    ):
        call: Any = channel.unary_unary(method)(b"\xff\xff")
        if method.endswith("WatchTrials"):
            call = channel.unary_stream(method)(b"\xff\xff").read()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "request: " in str(caught.value.details())


@on_loop
async def test_unknown_method_is_unimplemented() -> None:
    async with (
        await serve(port=0) as running,
        grpc.aio.insecure_channel(f"127.0.0.1:{running.port}") as channel,
    ):
        assert await code_of(channel, "/cogment.ClientActor/Nothing", b"", ()) == "UNIMPLEMENTED"
