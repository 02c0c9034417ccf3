"""Messages as bytes: round trips, absent and empty fields, fields unknown to the reader."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from google.protobuf import (
    any_pb2,
    descriptor_pool,
    message_factory,
)

from cogrs.api import (
    common_pb2,
    datalog_pb2,
    environment_pb2,
    orchestrator_pb2,
)
from tests.api.contract import MESSAGES, as_proto, encode_message, example, message_class, varint


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
def test_empty_message_differs_from_an_absent_message(name: str, field: str) -> None:
    kind = message_class(name)
    absent, empty = kind(), kind(**{field: {}})
    assert len(empty.SerializeToString()) == 2
    assert not kind.FromString(absent.SerializeToString()).HasField(field)
    assert kind.FromString(empty.SerializeToString()).HasField(field)


def test_oneof_holds_one_choice() -> None:
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


def test_reward_of_zero_arrives_as_zero() -> None:
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


def test_readers_without_the_field_end_reason_skip_the_field() -> None:
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
        "TrialListRequest",
        *("TrialStartReply", "TrialStartRequest", "EnvStartReply", "LogExporterSampleRequest"),
        *("TrialRewardReply", "TrialRewardRequest"),
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


def test_unknown_fields_are_skipped() -> None:
    data = common_pb2.Action(content=b"x").SerializeToString() + varint(1000 << 3) + varint(7)
    action = common_pb2.Action.FromString(data)
    assert action.content == b"x"
    assert action.SerializeToString() == data
