"""The wire: names, numbers and types, round trips, and life beside other generated code."""

from __future__ import annotations

import importlib.util
import os
import struct
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    json_format,
    message_factory,
    struct_pb2,
)
from google.protobuf.internal import api_implementation

import cogrs
from cogrs.api import (
    _pool,
    agent_pb2,
    agent_pb2_grpc,
    common_pb2,
    datalog_pb2,
    datalog_pb2_grpc,
    environment_pb2,
    environment_pb2_grpc,
    hooks_pb2,
    hooks_pb2_grpc,
    orchestrator_pb2,
    orchestrator_pb2_grpc,
)
from cogrs.api.any import pack, unpack

ROOT = Path(__file__).resolve().parents[2]
MODULES = (agent_pb2, common_pb2, datalog_pb2, environment_pb2, hooks_pb2, orchestrator_pb2)

# Written by hand from the text of the API and never to be made from the protos: it is what stands
# between an edited proto and the programs of others. `*` is repeated, `?` a choice of a oneof.
MESSAGES = {
    "VersionRequest": "",
    "VersionInfo": "1 versions *VersionInfo.Version",
    "VersionInfo.Version": "1 name string, 2 version string",
    "TrialParams": "1 trial_config TrialConfig, 2 environment EnvironmentParams, "
    "3 actors *ActorParams, 4 max_steps uint32, 5 max_inactivity uint32",
    "EnvironmentParams": "1 endpoint string, 2 config EnvironmentConfig, 3 implementation string",
    "ActorParams": "1 name string, 2 actor_class string, 3 endpoint string, "
    "4 implementation string, 5 config ActorConfig",
    "EnvironmentConfig": "1 content bytes",
    "ActorConfig": "1 content bytes",
    "TrialConfig": "1 content bytes",
    "TrialActor": "1 actor_class string, 2 name string",
    "Observation": "1 tick_id uint64, 2 timestamp fixed64, 3 data ObservationData",
    "ObservationData": "1 content bytes, 2 snapshot bool",
    "Action": "1 content bytes",
    "Message": "1 tick_id int32, 2 sender_name string, 3 receiver_name string, 4 payload Any",
    "RewardSource": "1 sender_name string, 2 value float, 3 confidence float, 4 user_data Any",
    "Reward": "1 receiver_name string, 2 tick_id int32, 3 value float, 4 sources *RewardSource",
    "ActorPeriodData": "1 observations *Observation, 2 rewards *Reward, 3 messages *Message, "
    "1000 end_reason string",
    "ObservationSet": "1 tick_id uint64, 2 timestamp fixed64, 3 observations *ObservationData, "
    "4 actors_map *int32",
    "TrialStartRequest": "1 config TrialConfig, 2 user_id string, 1000 params TrialParams",
    "TrialStartReply": "1 trial_id string, 2 actors_in_trial *TrialActor, 1000 params_taken bool",
    "TerminateTrialRequest": "",
    "TerminateTrialReply": "",
    "TrialInfoRequest": "1 get_latest_observation bool",
    "TrialInfoReply": "1 trial *TrialInfo",
    "TrialInfo": "1 trial_id string, 2 state TrialState, 3 latest_observation ObservationSet, "
    "1000 end_reason string, 1001 failed bool",
    "TrialListRequest": "1 filter *TrialState",
    "TrialListEntry": "1 trial_id string, 2 state TrialState, "
    "1000 end_reason string, 1001 failed bool",
    "TrialJoinRequest": "1 trial_id string, 2 actor_class ?string, 3 actor_name ?string",
    "TrialJoinReply": "1 actor_name string, 2 trial_id string, 3 config ActorConfig, "
    "4 actors_in_trial *TrialActor",
    "TrialHeartbeatRequest": "",
    "TrialHeartbeatReply": "",
    "TrialActionRequest": "1 action Action",
    "TrialActionReply": "1 data ActorPeriodData, 2 final_data bool",
    "TrialRewardRequest": "1 rewards *Reward",
    "TrialRewardReply": "",
    "TrialMessageRequest": "1 messages *Message",
    "TrialMessageReply": "",
    "AgentStartRequest": "1 impl_name string, 2 config ActorConfig, 3 actors_in_trial *TrialActor",
    "AgentStartReply": "",
    "AgentObservationRequest": "1 observation Observation",
    "AgentActionReply": "1 action Action, 2 rewards *Reward, 3 messages *Message",
    "AgentRewardRequest": "1 reward Reward",
    "AgentRewardReply": "",
    "AgentMessageRequest": "1 messages *Message",
    "AgentMessageReply": "",
    "AgentEndRequest": "1 final_data ActorPeriodData",
    "AgentEndReply": "",
    "EnvStartRequest": "1 impl_name string, 2 config EnvironmentConfig, "
    "3 actors_in_trial *TrialActor",
    "EnvStartReply": "1 observation_set ObservationSet",
    "ActionSet": "1 actions *bytes",
    "EnvActionRequest": "1 action_set ActionSet, 2 reply_with_snapshot bool",
    "EnvActionReply": "1 observation_set ObservationSet, 2 rewards *Reward, 3 messages *Message, "
    "4 final_update bool",
    "EnvMessageRequest": "1 messages *Message",
    "EnvMessageReply": "",
    "DatalogSample": "1 user_id string, 2 observations ObservationSet, 3 actions *Action, "
    "4 rewards *Reward, 5 messages *Message, 1000 end_reason string",
    "LogExporterSampleRequest": "1 trial_params ?TrialParams, 2 sample ?DatalogSample",
    "LogExporterSampleReply": "",
    "PreTrialContext": "1 impl_name string, 2 params TrialParams, 3 user_id string",
}
ONEOFS = {"TrialJoinRequest": ["slot_selection"], "LogExporterSampleRequest": ["msg"]}
ENUMS = {
    "TrialState": "0 UNKNOWN, 1 INITIALIZING, 2 PENDING, 3 RUNNING, 4 TERMINATING, 5 ENDED",
}
SERVICES = {
    "TrialLifecycle": "StartTrial TrialStartRequest TrialStartReply, "
    "TerminateTrial TerminateTrialRequest TerminateTrialReply, "
    "GetTrialInfo TrialInfoRequest TrialInfoReply, "
    "WatchTrials TrialListRequest *TrialListEntry, "
    "Version VersionRequest VersionInfo",
    "ClientActor": "JoinTrial TrialJoinRequest TrialJoinReply, "
    "ActionStream *TrialActionRequest *TrialActionReply, "
    "Heartbeat TrialHeartbeatRequest TrialHeartbeatReply, "
    "SendReward TrialRewardRequest TrialRewardReply, "
    "SendMessage TrialMessageRequest TrialMessageReply, "
    "Version VersionRequest VersionInfo",
    "AgentEndpoint": "OnStart AgentStartRequest AgentStartReply, "
    "OnObservation *AgentObservationRequest *AgentActionReply, "
    "OnReward AgentRewardRequest AgentRewardReply, "
    "OnMessage AgentMessageRequest AgentMessageReply, "
    "OnEnd AgentEndRequest AgentEndReply, "
    "Version VersionRequest VersionInfo",
    "EnvironmentEndpoint": "OnStart EnvStartRequest EnvStartReply, "
    "OnAction *EnvActionRequest *EnvActionReply, "
    "OnMessage EnvMessageRequest EnvMessageReply, "
    "OnEnd EnvActionRequest EnvActionReply, "
    "Version VersionRequest VersionInfo",
    "LogExporter": "OnLogSample *LogExporterSampleRequest LogExporterSampleReply, "
    "Version VersionRequest VersionInfo",
    "TrialHooks": "OnPreTrial PreTrialContext PreTrialContext, Version VersionRequest VersionInfo",
}
STUBS = {
    "TrialLifecycle": orchestrator_pb2_grpc,
    "ClientActor": orchestrator_pb2_grpc,
    "AgentEndpoint": agent_pb2_grpc,
    "EnvironmentEndpoint": environment_pb2_grpc,
    "LogExporter": datalog_pb2_grpc,
    "TrialHooks": hooks_pb2_grpc,
}


def message_class(name: str) -> Any:
    outer, _, inner = name.partition(".")
    found = next(getattr(module, outer) for module in MODULES if hasattr(module, outer))
    return getattr(found, inner) if inner else found


def short(name: str) -> str:
    return name.removeprefix(".").removeprefix("cogment.").removeprefix("google.protobuf.")


def as_proto(module: ModuleType) -> descriptor_pb2.FileDescriptorProto:
    return descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)


def field_text(field: descriptor_pb2.FieldDescriptorProto) -> str:
    kind = descriptor_pb2.FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    star = "*" if field.label == descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED else ""
    choice = "?" if field.HasField("oneof_index") else ""
    return f"{field.number} {field.name} {star}{choice}{short(field.type_name) or kind}"


# --- the checked-in code against the table ---------------------------------------------------


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


def test_the_generated_code_is_up_to_date() -> None:
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


# --- bytes -----------------------------------------------------------------------------------


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    head = b""
    while number > 0x7F:
        head += bytes([number & 0x7F | 0x80])
        number >>= 7
    return head + bytes([number])


def fields_of(name: str) -> list[tuple[int, str, bool, str]]:
    if name == "Any":
        return [(1, "type_url", False, "string"), (2, "value", False, "bytes")]
    texts = MESSAGES[name].split(", ") if MESSAGES[name] else []
    parsed = [text.split() for text in texts]
    # Of the choices of a oneof the last one is taken.
    choices = [field for field in parsed if "?" in field[2]]
    return [
        (int(number), field, "*" in kind, kind.strip("*?"))
        for number, field, kind in parsed
        if [number, field, kind] not in choices[:-1]
    ]


def example(kind: str, number: int = 1) -> Any:
    """Makes a value in which no field has its default."""
    scalars: dict[str, Any] = {
        "string": f"text {number}",
        "bytes": bytes(number),
        "bool": True,
        "float": number / 4,
        "int32": -number,
        "uint32": 300 + number,
        "uint64": 2**63 + number,
        "fixed64": 2**63 + number,
        "TrialState": 1 + number % 5,
    }
    if kind in scalars:
        return scalars[kind]
    return {
        name: [example(inner, field), example(inner, field + 1)]
        if repeated
        else example(inner, field)
        for field, name, repeated, inner in fields_of(kind)
    }


def encode(kind: str, value: Any) -> tuple[int, bytes]:
    """Returns wire type and bytes of one value, by the rules of the format alone."""
    if kind in {"int32", "uint32", "uint64", "bool", "TrialState"}:
        return 0, varint(value)
    if kind == "fixed64":
        return 1, struct.pack("<Q", value)
    if kind == "float":
        return 5, struct.pack("<f", value)
    if kind == "string":
        value = value.encode()
    elif kind != "bytes":
        value = encode_message(kind, value)
    return 2, varint(len(value)) + value


def encode_message(name: str, values: dict[str, Any]) -> bytes:
    out = b""
    for number, field, repeated, kind in fields_of(name):
        items = [encode(kind, item) for item in (values[field] if repeated else [values[field]])]
        if repeated and items[0][0] != 2:
            packed = b"".join(data for _, data in items)
            items = [(2, varint(len(packed)) + packed)]
        out += b"".join(varint(number << 3 | wire) + data for wire, data in items)
    return out


@pytest.mark.parametrize("name", MESSAGES)
def test_every_message_has_the_bytes_of_the_api(name: str) -> None:
    kind = message_class(name)
    values = example(name)
    data = encode_message(name, values)
    message, copy = kind(**values), kind()
    copy.CopyFrom(message)
    for same in (message, copy, kind.FromString(data)):
        assert same.SerializeToString(deterministic=True) == data
    assert kind().SerializeToString() == b""


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("TrialStartRequest", "config"),
        ("TrialParams", "trial_config"),
        ("EnvironmentParams", "config"),
        ("ActorParams", "config"),
        ("TrialJoinReply", "config"),
        ("AgentStartRequest", "config"),
        ("EnvStartRequest", "config"),
        ("TrialActionRequest", "action"),
        ("AgentActionReply", "action"),
        ("EnvActionReply", "observation_set"),
        ("TrialInfo", "latest_observation"),
        ("Message", "payload"),
    ],
)
def test_an_empty_message_is_not_an_absent_one(name: str, field: str) -> None:
    kind = message_class(name)
    absent, empty = kind(), kind(**{field: {}})
    assert len(empty.SerializeToString()) == 2
    assert not kind.FromString(absent.SerializeToString()).HasField(field)
    assert kind.FromString(empty.SerializeToString()).HasField(field)


def test_a_oneof_holds_one_choice() -> None:
    request = orchestrator_pb2.TrialJoinRequest(trial_id="t")
    assert request.WhichOneof("slot_selection") is None
    request.actor_class = "player"
    request.actor_name = ""
    again = orchestrator_pb2.TrialJoinRequest.FromString(request.SerializeToString())
    assert again.WhichOneof("slot_selection") == "actor_name"
    assert again.actor_class == ""

    log = datalog_pb2.LogExporterSampleRequest(trial_params=common_pb2.TrialParams())
    assert log.WhichOneof("msg") == "trial_params"
    log.sample.user_id = "u"
    assert log.WhichOneof("msg") == "sample"


def test_a_reward_of_zero_arrives_as_zero() -> None:
    sent = orchestrator_pb2.TrialRewardRequest(
        rewards=[
            common_pb2.Reward(
                receiver_name="a", tick_id=-1, sources=[common_pb2.RewardSource(value=0.0)]
            )
        ]
    )
    got = orchestrator_pb2.TrialRewardRequest.FromString(sent.SerializeToString())
    (reward,) = got.rewards
    (source,) = reward.sources
    assert (reward.tick_id, reward.value, source.value, source.confidence) == (-1, 0.0, 0.0, 0.0)


def test_readers_that_do_not_know_the_reason_of_the_end_skip_it() -> None:
    file = as_proto(datalog_pb2)
    sample = next(message for message in file.message_type if message.name == "DatalogSample")
    del sample.field[5]
    pool = descriptor_pool.DescriptorPool()
    for known in (any_pb2, common_pb2, environment_pb2):
        pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    old: Any = message_factory.GetMessageClass(pool.FindMessageTypeByName("cogment.DatalogSample"))
    assert "end_reason" not in old.DESCRIPTOR.fields_by_name

    sent = datalog_pb2.DatalogSample(
        user_id="u", actions=[common_pb2.Action(content=b"x")], end_reason="done"
    )
    got = old.FromString(sent.SerializeToString())
    assert (got.user_id, got.actions[0].content) == ("u", b"x")
    assert datalog_pb2.DatalogSample.FromString(got.SerializeToString()) == sent
    got.DiscardUnknownFields()
    assert datalog_pb2.DatalogSample.FromString(got.SerializeToString()).end_reason == ""


def test_readers_of_the_api_alone_skip_all_additions() -> None:
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(any_pb2.DESCRIPTOR.serialized_pb)
    added: dict[str, list[str]] = {}
    for module in (common_pb2, environment_pb2, datalog_pb2, orchestrator_pb2):
        file = as_proto(module)
        for message in file.message_type:
            extra = [field for field in message.field if field.number >= 1000]
            for field in extra:
                added.setdefault(message.name, []).append(field.name)
                message.field.remove(field)
        pool.AddSerializedFile(file.SerializeToString())
    assert set(added) == {
        *("ActorPeriodData", "DatalogSample", "TrialInfo", "TrialListEntry"),
        *("TrialStartReply", "TrialStartRequest"),
    }
    for name, fields in added.items():
        kind = message_class(name)
        sent = kind(**example(name))
        old: Any = message_factory.GetMessageClass(pool.FindMessageTypeByName(f"cogment.{name}"))
        got = old.FromString(sent.SerializeToString())
        assert kind.FromString(got.SerializeToString()) == sent
        for field in fields:
            sent.ClearField(field)
        got.DiscardUnknownFields()
        assert kind.FromString(got.SerializeToString()).SerializeToString(
            deterministic=True
        ) == _without_additions(sent).SerializeToString(deterministic=True)


def _without_additions(message: Any) -> Any:
    """Clear the additions of what a message contains, too."""
    for field, value in message.ListFields():
        if field.number >= 1000:
            message.ClearField(field.name)
        elif field.type == field.TYPE_MESSAGE:
            repeated = isinstance(value, Iterable) and not isinstance(value, Mapping)
            for each in value if repeated else (value,):
                _without_additions(each)
    return message


def test_fields_that_we_do_not_know_are_skipped() -> None:
    data = common_pb2.Action(content=b"x").SerializeToString() + varint(1000 << 3) + varint(7)
    action = common_pb2.Action.FromString(data)
    assert action.content == b"x"
    assert action.SerializeToString() == data


# --- fields of any type ----------------------------------------------------------------------

USERS = struct_pb2.Value(string_value="hello")


def test_a_payload_takes_a_message_of_any_module() -> None:
    sent = common_pb2.Message(receiver_name="env")
    sent.payload.Pack(USERS)
    got = common_pb2.Message.FromString(sent.SerializeToString())
    assert got.payload.Is(struct_pb2.Value.DESCRIPTOR)
    assert not got.payload.Is(common_pb2.TrialActor.DESCRIPTOR)
    read = struct_pb2.Value()
    assert got.payload.Unpack(read)
    assert read == USERS
    assert not got.payload.Unpack(common_pb2.TrialActor())

    actor = common_pb2.TrialActor(name="a")
    sent.payload.Pack(actor)
    read_actor = common_pb2.TrialActor()
    assert sent.payload.Unpack(read_actor)
    assert read_actor == actor
    plain = any_pb2.Any()
    plain.Pack(actor)
    assert plain.type_url == sent.payload.type_url == "type.googleapis.com/cogment.TrialActor"
    assert plain.Unpack(read_actor)


def test_pack_makes_an_any_that_fields_take() -> None:
    ready_made = any_pb2.Any()
    ready_made.Pack(USERS)
    with pytest.raises(TypeError):
        common_pb2.Message(payload=ready_made)

    for payload in (pack(ready_made), pack(USERS), pack(pack(USERS))):
        message = common_pb2.Message(payload=payload)
        assert message.payload.type_url == ready_made.type_url
        assert message.payload.value == ready_made.value
        source = common_pb2.RewardSource(user_data=payload)
        assert source.user_data == message.payload
        message.payload.CopyFrom(payload)


def test_unpack_reads_an_any_of_either_kind() -> None:
    ready_made = any_pb2.Any()
    ready_made.Pack(USERS)
    for packed in (pack(USERS), ready_made):
        read = struct_pb2.Value()
        assert unpack(packed, read)
        assert read == USERS
        assert not unpack(packed, common_pb2.TrialActor())
        copy = any_pb2.Any()
        assert unpack(packed, copy)
        assert copy == ready_made
        message = common_pb2.Message()
        assert unpack(packed, message.payload)
        assert message.payload.value == ready_made.value


def test_json_finds_the_types_of_payloads_in_the_pool_that_holds_them() -> None:
    users = common_pb2.Message(sender_name="a", payload=pack(USERS))
    text = json_format.MessageToJson(users)
    assert json_format.Parse(text, common_pb2.Message()) == users

    ours = common_pb2.Message(payload=pack(common_pb2.TrialActor(name="b")))
    with pytest.raises(TypeError, match=r"cogment\.TrialActor"):
        json_format.MessageToJson(ours)
    pool = common_pb2.DESCRIPTOR.pool
    text = json_format.MessageToJson(ours, descriptor_pool=pool)
    read = json_format.Parse(text, common_pb2.Message(), descriptor_pool=pool)
    assert read.payload.value == ours.payload.value


# --- other generated code in the same process ------------------------------------------------

OTHERS = """
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.internal import builder

file = descriptor_pb2.FileDescriptorProto(name="common.proto", package="cogment", syntax="proto3")
for name in ("Observation", "Reward"):
    field = file.message_type.add(name=name).field.add(name="theirs", number=1)
    field.type, field.label = field.TYPE_STRING, field.LABEL_OPTIONAL
others = {}
added = descriptor_pool.Default().AddSerializedFile(file.SerializeToString())
builder.BuildMessageAndEnumDescriptors(added, others)
builder.BuildTopDescriptorsAndMessages(added, "common_pb2", others)
"""
OURS = """
from cogrs.api import agent_pb2_grpc, datalog_pb2_grpc, environment_pb2_grpc, hooks_pb2_grpc
from cogrs.api import common_pb2, orchestrator_pb2_grpc
"""
BOTH = """
from google.protobuf import descriptor_pool

assert others["Observation"](theirs="x").SerializeToString() == b"\\n\\x01x"
assert common_pb2.Observation(tick_id=1).SerializeToString() == b"\\x08\\x01"
found = descriptor_pool.Default().FindMessageTypeByName("cogment.Observation")
assert found.file.name == "common.proto"
try:
    descriptor_pool.Default().FindMessageTypeByName("cogment.TrialParams")
except KeyError:
    pass
else:
    raise AssertionError("our messages are in the default pool")
"""


@pytest.mark.parametrize("implementation", ["upb", "python"])
@pytest.mark.parametrize("order", ["others first", "ours first"])
def test_other_generated_code_for_the_package_can_be_loaded(
    order: str, implementation: str
) -> None:
    first, second = (OTHERS, OURS) if order == "others first" else (OURS, OTHERS)
    check = f"""
        from google.protobuf.internal import api_implementation
        assert api_implementation.Type() == {implementation!r}
    """
    assert cogrs.__file__ is not None
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(cogrs.__file__).parents[1]),
        "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": implementation,
    }
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(check) + first + second + BOTH],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr


def test_error_of_the_pool_says_what_failed() -> None:
    with pytest.raises(ImportError, match=r"protobuf \d+\.\d+.* private descriptor pool .*cogment"):
        _pool.add_file(b"no descriptor")


def test_this_run_uses_the_usual_implementation() -> None:
    wanted = os.environ.get("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "upb")
    assert api_implementation.Type() == wanted
