"""Messages and requests with any content are refused or answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import hypothesis.strategies as st
import pytest
import zmq
from hypothesis import given

import cogrs
from cogrs.api import orchestrator_pb2, replay_pb2
from cogrs.replay.serving.server_state import ServerState
from cogrs.replay.wire import VERSION
from tests.fuzz.harness import prolonged
from tests.fuzz.strategies import bytes_like
from tests.replay import build

if TYPE_CHECKING:
    from collections.abc import Iterator


def headers() -> st.SearchStrategy[bytes]:
    counter = replay_pb2.Counter(episodes=1, steps=2)
    priorities = replay_pb2.Priorities()
    bodies: list[dict[str, Any]] = [
        {"sizes_request": replay_pb2.SizesRequest()},
        {"counter": counter},
        {"samples_request": replay_pb2.SamplesRequest(rows=1)},
        {"priorities": priorities},
        {"publish": replay_pb2.Publish()},
        {"cache": replay_pb2.Cache()},
        {"log": replay_pb2.Log(text="x")},
    ]
    sound = [replay_pb2.Header(version=VERSION, sender=1, **body) for body in bodies]
    return st.sampled_from([each.SerializeToString() for each in sound]).flatmap(bytes_like)


@prolonged
@given(headers(), st.lists(st.binary(max_size=40), max_size=3))
def test_replay_message_with_any_content_is_refused_or_answered(
    header: bytes, rest: list[bytes]
) -> None:
    state = ServerState(build.memory(), 1, None, None)
    frames = [zmq.Frame(each) for each in (header, *rest)]
    answer = state.answer(frames)
    assert replay_pb2.Header.FromString(answer[0]).version == VERSION
    state.take(frames)


UNARY = {
    "/cogment.TrialLifecycle/StartTrial": orchestrator_pb2.TrialStartRequest(user_id="u"),
    "/cogment.TrialLifecycle/TerminateTrial": orchestrator_pb2.TerminateTrialRequest(),
    "/cogment.TrialLifecycle/GetTrialInfo": orchestrator_pb2.TrialInfoRequest(),
    "/cogment.ClientActor/JoinTrial": orchestrator_pb2.TrialJoinRequest(trial_id="t"),
    "/cogment.ClientActor/SendReward": orchestrator_pb2.TrialRewardRequest(),
    "/cogment.ClientActor/SendMessage": orchestrator_pb2.TrialMessageRequest(),
    "/cogment.ClientActor/Heartbeat": orchestrator_pb2.TrialHeartbeatRequest(),
}
INTERNAL = (
    # What an exception in the server, a server that is gone, and one that hangs look like.
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
)


@pytest.fixture(scope="module")
def channel() -> Iterator[grpc.Channel]:
    with (
        cogrs.serve_orchestrator({"trial": {"accept_params": True}}, port=0) as running,
        grpc.insecure_channel(f"localhost:{running.port}") as made,
    ):
        yield made


@prolonged
@given(data=st.data())
def test_trial_request_with_any_content_is_refused_or_answered(
    channel: grpc.Channel, data: Any
) -> None:
    path = data.draw(st.sampled_from(sorted(UNARY)))
    content = data.draw(bytes_like(UNARY[path].SerializeToString() or b"\x0a\x01a"))
    name = st.sampled_from(["", "a", "env", "x" * 300, "00000000-0000-4000-8000-000000000000"])
    metadata = [("trial-id", data.draw(name)), ("actor-name", data.draw(name))]
    try:
        channel.unary_unary(path)(content, metadata=metadata, timeout=60)
        code = grpc.StatusCode.OK
    except grpc.RpcError as error:
        code = error.code()
    assert code not in INTERNAL
