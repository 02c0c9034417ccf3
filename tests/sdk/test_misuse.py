"""Calls of clients and controllers that cannot work: each is refused at once, by name."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from cogrs import sdk
from cogrs.api.common_pb2 import RewardSource
from tests.orchestrator.net import on_loop
from tests.sdk.clients import game
from tests.sdk.net import calls

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

LIMIT = 60.0

SERVER = """
import cogrs
from cogrs import sdk

class Endless(sdk.Environment):
    def start(self, trial):
        return sdk.Update([0])
    def step(self, actions):
        return sdk.Update([0])

local = {"env": sdk.local_environments({"": Endless})}
actor = {"name": "c0", "actor_class": "human", "endpoint": "client"}
params = {"environment": {"endpoint": "local://env"}, "actors": [actor]}
with cogrs.serve_orchestrator({"trial_params": params}, port=0, local=local) as server:
    print(server.port, flush=True)
    server.wait()
"""


@contextmanager
def program() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """An orchestrator in a process of its own, which can be killed."""
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True) as it:
        assert it.stdout is not None
        try:
            yield it, f"127.0.0.1:{it.stdout.readline().strip()}"
        finally:
            it.kill()


@asynccontextmanager
async def joined(
    **options: Any,
) -> AsyncIterator[tuple[sdk.TrialController, sdk.ClientActor, sdk.ClientSession]]:
    async with (
        game(calls(), **options) as (_, controller, where),
        sdk.ClientActor(where) as client,
    ):
        trial = await controller.start_trial()
        session = await client.join(trial.id, name="c0")
        yield controller, client, session
        await session.leave()
        await controller.terminate_trial(trial.id)
        await controller.wait_ended(trial.id)


async def code_of(call: Any) -> grpc.StatusCode:
    with pytest.raises(sdk.RemoteCallError) as caught:
        await call
    return caught.value.code()


@pytest.mark.parametrize("what", ["run_trial", "wait_ended", "watch_trials", "session"])
def test_orchestrator_that_is_killed_is_a_connection_error(what: str) -> None:
    with program() as (process, where):

        async def work() -> None:
            async with (
                sdk.TrialController(where) as controller,
                sdk.ClientActor(where, reconnect=0.5) as client,
            ):
                if what == "watch_trials":
                    changes = controller.watch_trials()
                    await controller.start_trial()
                    await anext(changes)
                    process.kill()
                    async for _ in changes:
                        pass
                trial = await controller.start_trial()
                if what == "wait_ended":
                    threading.Timer(0.5, process.kill).start()
                    await controller.wait_ended(trial.id)
                async with await client.join(trial.id, name="c0") as session:
                    await anext(session)
                    process.kill()
                    await anext(session)

        def call() -> None:
            if what == "run_trial":
                threading.Timer(0.5, process.kill).start()
                sdk.run_trial(where, timeout=LIMIT)
            else:
                asyncio.run(asyncio.wait_for(work(), LIMIT))

        with pytest.raises(ConnectionError) as caught:
            call()
    told = str(caught.value)
    assert where in told
    assert "was lost" in told or "no orchestrator answers" in told
    assert len(told.splitlines()) == 1


@on_loop
async def test_unknown_trials_and_names_are_refused() -> None:
    async with joined(clients=2) as (controller, client, session):
        trial, code = session.trial.id, grpc.StatusCode
        assert await code_of(controller.terminate_trial("")) is code.NOT_FOUND
        assert await code_of(controller.trial_state("no such")) is code.NOT_FOUND
        assert await code_of(client.join("no such", name="c0")) is code.NOT_FOUND
        assert await code_of(client.join(trial, name="nobody")) is code.NOT_FOUND
        assert await code_of(client.join(trial, actor_class="none")) is code.INVALID_ARGUMENT
        assert await code_of(client.join(name="nobody")) is code.FAILED_PRECONDITION
        # Twice.
        assert await code_of(client.join(trial, name="c0")) is code.FAILED_PRECONDITION
        for call in (
            lambda: controller.terminate_trial(3),  # type: ignore[arg-type]
            lambda: controller.wait_ended(None),  # type: ignore[arg-type]
            lambda: client.join(3, name="c0"),  # type: ignore[arg-type]
            lambda: client.play(3, name="c0"),  # type: ignore[arg-type]
            lambda: controller.start_trial("x"),  # type: ignore[arg-type]
        ):
            with pytest.raises(TypeError, match="expected"):
                await call()


@on_loop
async def test_ended_trial_refuses_joins_rewards_and_messages() -> None:
    async with joined() as (controller, client, session):
        trial = session.trial.id
        await controller.terminate_trial(trial)
        await controller.wait_ended(trial)
        over = grpc.StatusCode.FAILED_PRECONDITION
        assert await code_of(client.join(trial, name="c0")) is over
        assert await code_of(client.play(lambda seen: 0, trial, name="c0")) is over
        reward, message = sdk.Reward("c0", 1.0), sdk.Message("c0", RewardSource(value=1.0))
        # The session may not know yet: these are dropped.
        await session.send_reward(reward)
        await session.send_message(message)
        await controller.terminate_trial(trial)
        events = [event async for event in session]
        assert isinstance(events[-1], sdk.Final)
        assert await code_of(session.send_reward(reward)) is over
        assert await code_of(session.send_message(message)) is over
        await session.act([0])  # an answer after the end is not an error
        assert [event async for event in session] == []


@on_loop
async def test_actor_that_has_left_cannot_act() -> None:
    async with joined() as (_, _, session):
        assert isinstance(await anext(session), sdk.Observation)
        await session.leave()
        await session.leave()
        with pytest.raises(RuntimeError, match="actor 'c0' has left trial"):
            await session.act([0])
        with pytest.raises(StopAsyncIteration):
            await anext(session)


@on_loop
async def test_actor_cannot_answer_twice() -> None:
    async with joined() as (_, _, session):
        event = await anext(session)
        assert isinstance(event, sdk.Observation)
        await session.act(event.value)
        with pytest.raises(RuntimeError, match="every observation has been answered already"):
            await session.act(event.value)


@on_loop
async def test_session_is_refused_in_another_loop() -> None:
    async with joined() as (_, _, session):
        assert isinstance(await anext(session), sdk.Observation)

        def elsewhere(call: Any) -> None:
            async def work() -> None:
                async with asyncio.timeout(LIMIT):
                    await call()

            with pytest.raises(RuntimeError, match=r"another event loop|belongs to an event loop"):
                asyncio.run(work())

        for call in (
            lambda: session.act([0]),
            lambda: anext(session),
            lambda: session.send_reward(sdk.Reward("c0", 1.0)),
            session.leave,
        ):
            await asyncio.to_thread(elsewhere, call)
        # It goes on in its own.
        await session.act([0])
        assert isinstance(await anext(session), sdk.ReceivedReward)


@pytest.mark.parametrize(
    ("states", "error"),
    [
        (5, TypeError),
        (sdk.TrialState.RUNNING, TypeError),
        (None, TypeError),
        ("RUNNING", ValueError),
        (["RUNNING"], ValueError),
        ([99], ValueError),
        ([None], ValueError),
    ],
)
@on_loop
async def test_invalid_states_are_refused(states: Any, error: type[Exception]) -> None:
    async with sdk.TrialController("127.0.0.1:1") as controller:
        with pytest.raises(error, match="states: expected an iterable of TrialState, got"):
            await anext(controller.watch_trials(states))


def test_player_that_raises_timeout_error_is_not_taken_for_a_late_one() -> None:
    def late(_: sdk.Observation) -> int:
        raise TimeoutError("the person has gone")

    with program() as (_, where):

        async def start() -> str:
            async with sdk.TrialController(where) as controller:
                return (await controller.start_trial()).id

        for timeout in (None, LIMIT):
            with pytest.raises(TimeoutError, match=r"^the person has gone$"):
                sdk.play(where, late, asyncio.run(start()), name="c0", timeout=timeout)
