"""Errors of calls to an orchestrator: gRPC's, in one line, with the peer."""

import asyncio
import socket

import grpc
import pytest

from cogrs import orchestrator, sdk
from cogrs.sdk import RemoteCallError, UnreachableError


def run(work):
    async def inside():
        async with (
            await orchestrator.serve({}, port=0) as server,
            sdk.TrialController(f"127.0.0.1:{server.port}") as controller,
        ):
            return server.port, await work(controller)

    return asyncio.run(inside())


async def refusal_of(awaitable):
    with pytest.raises(RemoteCallError) as caught:
        await awaitable
    return caught.value


def test_refused_call_raises_a_grpc_error_of_one_line():
    port, error = run(lambda controller: refusal_of(controller.trial_state("none")))
    assert isinstance(error, grpc.aio.AioRpcError)
    assert error.code() is grpc.StatusCode.NOT_FOUND
    assert error.details() == "no trial 'none'"
    assert str(error) == f"127.0.0.1:{port}: NOT_FOUND: no trial 'none'"
    assert repr(error) == f'RemoteCallError("{error}")'
    assert not isinstance(error, ConnectionError)


def test_refused_start_raises_alike_in_async_and_blocking_calls():
    port, error = run(lambda controller: refusal_of(controller.start_trial()))
    assert str(error).startswith(f"127.0.0.1:{port}: INVALID_ARGUMENT: ")

    with orchestrator.serve_orchestrator({}, port=0) as server:
        with pytest.raises(RemoteCallError) as caught:
            sdk.run_trial(f"127.0.0.1:{server.port}", timeout=30)
        assert caught.value.details() == error.details()


def test_all_calls_without_an_orchestrator_raise_connection_error():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        endpoint = f"127.0.0.1:{bound.getsockname()[1]}"

        async def ask():
            async with sdk.TrialController(endpoint) as controller, sdk.ClientActor(endpoint) as me:
                calls = (
                    controller.start_trial(),
                    controller.terminate_trial("t"),
                    controller.wait_ended("t"),
                    controller.trial_state("t"),
                    controller.trials(),
                    controller.versions(),
                    anext(controller.watch_trials()),
                    me.join(actor_class="a"),
                )
                return [await refusal_of(call) for call in calls]

        for error in asyncio.run(ask()):
            assert isinstance(error, UnreachableError)
            assert isinstance(error, ConnectionError)
            assert error.code() is grpc.StatusCode.UNAVAILABLE
            assert error.endpoint == endpoint
            assert str(error).startswith(f"no orchestrator answers at {endpoint}: ")
            assert "\n" not in str(error)
