"""The contract of the wire as a table, and values and bytes that are made from the table alone."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from google.protobuf import descriptor_pb2

from cogrs.api import (
    agent_pb2,
    common_pb2,
    datalog_pb2,
    environment_pb2,
    hooks_pb2,
    orchestrator_pb2,
)

if TYPE_CHECKING:
    from types import ModuleType

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
    "TrialListRequest": "1 filter *TrialState, 1000 report_period uint32",
    "TrialListEntry": "1 trial_id string, 2 state TrialState, "
    "1000 end_reason string, 1001 failed bool, 1002 report TrialsReport",
    "TrialsReport": "1 trials *TrialProgress, 2 unlisted uint64, 3 started uint64, "
    "4 concluded uint64, 5 cut uint64, 6 ticks uint64, 7 dropped *TrialsReport.Count, "
    "8 log_waiting uint64, 9 log_lost uint64",
    "TrialsReport.Count": "1 name string, 2 count uint64",
    "TrialProgress": "1 trial_id string, 2 state TrialState, 3 tick_id int32, "
    "4 awaited *TrialsReport.Count, 5 waited uint64",
    "TrialJoinRequest": "1 trial_id string, 2 actor_class ?string, 3 actor_name ?string",
    "TrialJoinReply": "1 actor_name string, 2 trial_id string, 3 config ActorConfig, "
    "4 actors_in_trial *TrialActor",
    "TrialHeartbeatRequest": "",
    "TrialHeartbeatReply": "",
    "TrialActionRequest": "1 action Action",
    "TrialActionReply": "1 data ActorPeriodData, 2 final_data bool",
    "TrialRewardRequest": "1 rewards *Reward, 1000 late bool",
    "TrialRewardReply": "1000 taken uint32",
    "TrialMessageRequest": "1 messages *Message",
    "TrialMessageReply": "",
    "AgentStartRequest": "1 impl_name string, 2 config ActorConfig, 3 actors_in_trial *TrialActor",
    "AgentStartReply": "1000 takes_feedback bool",
    "AgentObservationRequest": "1 observation Observation, 1000 rewards *Reward, "
    "1001 messages *Message",
    "AgentActionReply": "1 action Action, 2 rewards *Reward, 3 messages *Message, "
    "1000 feedback_error string",
    "AgentRewardRequest": "1 reward Reward",
    "AgentRewardReply": "",
    "AgentMessageRequest": "1 messages *Message",
    "AgentMessageReply": "",
    "AgentEndRequest": "1 final_data ActorPeriodData, 1000 unanswered *AgentObservationRequest",
    "AgentEndReply": "",
    "EnvStartRequest": "1 impl_name string, 2 config EnvironmentConfig, "
    "3 actors_in_trial *TrialActor",
    "EnvStartReply": "1 observation_set ObservationSet, 1000 spaces string, 1001 messages *Message",
    "ActionSet": "1 actions *bytes",
    "EnvActionRequest": "1 action_set ActionSet, 2 reply_with_snapshot bool",
    "EnvActionReply": "1 observation_set ObservationSet, 2 rewards *Reward, 3 messages *Message, "
    "4 final_update bool",
    "EnvMessageRequest": "1 messages *Message",
    "EnvMessageReply": "",
    "DatalogSample": "1 user_id string, 2 observations ObservationSet, 3 actions *Action, "
    "4 rewards *Reward, 5 messages *Message, 1000 end_reason string, 1001 stood_in *uint32",
    "LogExporterSampleRequest": "1 trial_params ?TrialParams, 2 sample ?DatalogSample, "
    "1000 spaces string",
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


def message_class(name: str) -> Any:
    outer, _, inner = name.partition(".")
    found = next(getattr(module, outer) for module in MODULES if hasattr(module, outer))
    return getattr(found, inner) if inner else found


def short(name: str) -> str:
    return name.removeprefix(".").removeprefix("cogment.").removeprefix("google.protobuf.")


def as_proto(module: ModuleType) -> descriptor_pb2.FileDescriptorProto:
    return descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)


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
