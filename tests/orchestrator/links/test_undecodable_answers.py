"""Components whose answers are not messages of the type that their call has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
import pytest

from cogrs.api import environment_pb2 as environment
from cogrs.api import orchestrator_pb2 as api
from cogrs.api.common_pb2 import EnvironmentParams
from tests.orchestrator.net import Net, on_loop
from tests.orchestrator.world import observation_set

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

BAD_TEXT = b"\x12\x04\x12\x02\xff\xfe" + b"\x1a\x04\x12\x02\xff\xfe"
"""Rewards and messages whose receiver is not UTF-8."""
CUT_SHORT = b"\x0a\x7f"


class Mangler(grpc.aio.ServerInterceptor):
    """Sends other bytes instead of the answers of one method."""

    def __init__(self, method: str, content: bytes) -> None:
        self.method, self.content = method, content

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[Any]], details: Any
    ) -> Any:
        handler = await continuation(details)
        if not details.method.endswith(self.method):
            return handler
        return handler._replace(response_serializer=lambda _: self.content)


@pytest.mark.parametrize(
    ("method", "who", "content"),
    [
        ("EnvironmentEndpoint/OnStart", "environment", CUT_SHORT),
        ("EnvironmentEndpoint/OnAction", "environment", CUT_SHORT),
        ("EnvironmentEndpoint/OnAction", "environment", BAD_TEXT),
        ("AgentEndpoint/OnStart", "actor 'a0'", CUT_SHORT),
        ("AgentEndpoint/OnObservation", "actor 'a0'", CUT_SHORT),
        ("AgentEndpoint/OnObservation", "actor 'a0'", BAD_TEXT),
    ],
)
@on_loop
async def test_undecodable_answer_is_a_failure_of_its_component(
    method: str, who: str, content: bytes
) -> None:
    net = Net()
    net.interceptors.append(Mangler(method, content))
    async with net:
        reason = await net.end_of(await net.start())
    assert reason.startswith(who)
    call = method.partition("/")[2]
    assert reason.endswith(f": {call}: its answer cannot be decoded")


@on_loop
async def test_undecodable_last_data_leaves_end_reason_and_state_unchanged() -> None:
    net = Net(max_steps=2)
    net.interceptors.append(Mangler("EnvironmentEndpoint/OnEnd", BAD_TEXT))
    async with net:
        trial_id = await net.start()
        assert (await net.end_of(trial_id)).startswith("max_steps")
        assert len(net.agents.of(trial_id, "a0", "end")) == 1


@on_loop
async def test_hook_with_an_undecodable_answer_has_refused() -> None:
    net = Net(hooks=1)
    net.interceptors.append(Mangler("TrialHooks/OnPreTrial", CUT_SHORT))
    async with net:
        with pytest.raises(grpc.aio.AioRpcError, match="cannot be decoded") as refused:
            await net.lifecycle.StartTrial(api.TrialStartRequest())
        assert refused.value.code() is grpc.StatusCode.ABORTED


class LocalEnvironment:
    """Gives the answer in `answers` for each call, and a good one where it is not there."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers

    async def on_start(self, trial_id: str, request: Any) -> Any:
        del trial_id, request
        good = environment.EnvStartReply(observation_set=observation_set(1, 0))
        return self.answers.get("on_start", good)

    async def on_action(self, trial_id: str, requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
        del trial_id
        async for _ in requests:
            yield self.answers.get("on_action")

    async def on_end(self, trial_id: str, request: Any) -> Any:
        del trial_id, request
        return environment.EnvActionReply(final_update=True)


@pytest.mark.parametrize(
    "wrong", [None, b"bytes", environment.ObservationSet()], ids=["nothing", "bytes", "other"]
)
@pytest.mark.parametrize(
    ("call", "name", "expected"),
    [("on_start", "OnStart", "EnvStartReply"), ("on_action", "OnAction", "EnvActionReply")],
)
@on_loop
async def test_local_environment_that_returns_the_wrong_type_is_named(
    call: str, name: str, expected: str, wrong: Any
) -> None:
    local = {"env": LocalEnvironment(**{call: wrong})}
    where = EnvironmentParams(endpoint="local://env")
    async with Net(local=local, environment=where) as net:
        reason = await net.end_of(await net.start())
    got = type(wrong).__name__
    said = f"{name}: expected {expected} to be returned, got {got}"
    assert reason == f"environment local://env: {said}"
