"""The generated code: names, numbers and types of messages, paths of services."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from cogrs.api import (
    agent_pb2_grpc,
    datalog_pb2_grpc,
    environment_pb2_grpc,
    hooks_pb2_grpc,
    orchestrator_pb2_grpc,
)
from tests.api.contract import ENUMS, MESSAGES, MODULES, ONEOFS, SERVICES, as_proto, short

ROOT = Path(__file__).resolve().parents[2]
STUBS = {
    "TrialLifecycle": orchestrator_pb2_grpc,
    "ClientActor": orchestrator_pb2_grpc,
    "AgentEndpoint": agent_pb2_grpc,
    "EnvironmentEndpoint": environment_pb2_grpc,
    "LogExporter": datalog_pb2_grpc,
    "TrialHooks": hooks_pb2_grpc,
}


def field_text(field: descriptor_pb2.FieldDescriptorProto) -> str:
    kind = descriptor_pb2.FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    star = "*" if field.label == descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED else ""
    choice = "?" if field.HasField("oneof_index") else ""
    return f"{field.number} {field.name} {star}{choice}{short(field.type_name) or kind}"


def test_messages_have_the_names_numbers_and_types_of_the_api() -> None:
    found: dict[str, str] = {}
    oneofs: dict[str, list[str]] = {}
    enums: dict[str, str] = {}

    def collect(prefix: str, message: descriptor_pb2.DescriptorProto) -> None:
        name = prefix + message.name
        found[name] = ", ".join(field_text(field) for field in message.field)
        if message.oneof_decl:
            oneofs[name] = [oneof.name for oneof in message.oneof_decl]
        assert not message.enum_type
        for nested in message.nested_type:
            collect(name + ".", nested)

    for module in MODULES:
        file = as_proto(module)
        assert (file.package, file.syntax) == ("cogment", "proto3")
        for message in file.message_type:
            collect("", message)
        for enum in file.enum_type:
            enums[enum.name] = ", ".join(f"{value.number} {value.name}" for value in enum.value)
    assert found == MESSAGES
    assert oneofs == ONEOFS
    assert enums == ENUMS


def test_services_have_the_methods_of_the_api() -> None:
    found = {}
    for module in MODULES:
        for service in as_proto(module).service:
            found[service.name] = ", ".join(
                f"{method.name} {'*' * method.client_streaming}{short(method.input_type)} "
                f"{'*' * method.server_streaming}{short(method.output_type)}"
                for method in service.method
            )
    assert found == SERVICES


class RecordingChannel:
    """Stands in for a channel, and keeps what a stub asks it for."""

    def __init__(self) -> None:
        self.methods: dict[str, str] = {}

    def __getattr__(self, kind: str) -> Any:
        request, response = kind.split("_")

        def register(path: str, request_serializer: Any, response_deserializer: Any) -> None:
            del request_serializer
            name = response_deserializer(b"").DESCRIPTOR.full_name
            self.methods[path] = f"{request} {response} {name}"

        return register


@pytest.mark.parametrize("service", SERVICES)
def test_stubs_call_the_paths_that_servers_serve(service: str) -> None:
    module = STUBS[service]
    channel = RecordingChannel()
    getattr(module, f"{service}Stub")(channel)
    handlers: list[Any] = []
    server = SimpleNamespace(add_generic_rpc_handlers=handlers.extend)
    servicer = getattr(module, f"{service}Servicer")()
    getattr(module, f"add_{service}Servicer_to_server")(servicer, server)

    expected = {}
    for method in SERVICES[service].split(", "):
        name, request, response = method.split()
        path = f"/cogment.{service}/{name}"
        streams = ("stream" if "*" in end else "unary" for end in (request, response))
        expected[path] = f"{' '.join(streams)} cogment.{response.removeprefix('*')}"
        handler = handlers[0].service(SimpleNamespace(method=path, invocation_metadata=()))
        assert handler is not None
        assert handler.request_streaming == ("*" in request)
        assert handler.response_streaming == ("*" in response)
        read = handler.request_deserializer(b"")
        assert read.DESCRIPTOR.full_name == f"cogment.{request.removeprefix('*')}"
    assert channel.methods == expected


def test_generated_code_is_up_to_date() -> None:
    script = ROOT / "scripts" / "gen_protos.py"
    spec = importlib.util.spec_from_file_location("gen_protos", script)
    assert spec is not None
    assert spec.loader is not None
    gen_protos = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(gen_protos)
    if not gen_protos.tools_ready():
        pytest.skip("the tools that generate are not there; scripts/gen_protos.py installs them")
    run = subprocess.run(
        [sys.executable, script, "--check"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
