"""Fields of any type: packed, unpacked, and as JSON."""

from __future__ import annotations

import pytest
from google.protobuf import (
    any_pb2,
    json_format,
    struct_pb2,
)

from cogrs.api import (
    common_pb2,
)
from cogrs.api.any import pack, unpack

USERS = struct_pb2.Value(string_value="hello")


def test_payload_takes_a_message_of_any_module() -> None:
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


def test_json_finds_payload_types_in_the_descriptor_pool_of_the_message() -> None:
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
