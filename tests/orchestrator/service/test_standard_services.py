"""Health and reflection services, which are there when their packages are."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import grpc
import grpc.aio
import pytest

from cogrs.orchestrator import serve
from tests.orchestrator.net import on_loop

SERVICES = ("cogment.TrialLifecycle", "cogment.ClientActor")


@on_loop
async def test_health_reports_serving_until_the_stop() -> None:
    pytest.importorskip("grpc_health")
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    async with (
        await serve(port=0, actor_port=0) as orchestrator,
        grpc.aio.insecure_channel(f"127.0.0.1:{orchestrator.port}") as channel,
    ):
        stub = health_pb2_grpc.HealthStub(channel)
        for service in ("", SERVICES[0]):
            reply = await stub.Check(health_pb2.HealthCheckRequest(service=service))
            assert reply.status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Check(health_pb2.HealthCheckRequest(service=SERVICES[1]))
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        watch = stub.Watch(health_pb2.HealthCheckRequest())
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
        stopping = asyncio.ensure_future(orchestrator.stop(5))
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
        watch.cancel()
        await stopping


@on_loop
async def test_reflection_lists_the_services() -> None:
    pytest.importorskip("grpc_reflection")
    from google.protobuf import descriptor_pb2
    from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

    async with (
        await serve(port=0) as orchestrator,
        grpc.aio.insecure_channel(f"127.0.0.1:{orchestrator.port}") as channel,
    ):
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        stream = stub.ServerReflectionInfo()
        await stream.write(reflection_pb2.ServerReflectionRequest(list_services=""))
        listed = (await stream.read()).list_services_response.service
        assert {service.name for service in listed} >= set(SERVICES)
        request = reflection_pb2.ServerReflectionRequest(file_containing_symbol=SERVICES[1])
        await stream.write(request)
        (first, *_) = (await stream.read()).file_descriptor_response.file_descriptor_proto
        file = descriptor_pb2.FileDescriptorProto.FromString(first)
        assert SERVICES[1].split(".")[1] in [service.name for service in file.service]
        await stream.done_writing()


def test_server_starts_without_health_and_reflection() -> None:
    code = """
import sys
sys.modules["grpc_health"] = sys.modules["grpc_reflection"] = None
import cogrs
with cogrs.serve_orchestrator(port=0):
    print("up")
"""
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "up\n", "")
