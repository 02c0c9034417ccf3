"""Answers of servers that a sampler refuses, and those that are large."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import zmq

import cogrs
from cogrs import Conn, ReplaySampler
from cogrs.api import replay_pb2 as pb
from cogrs.replay.serving.server_state import ServerState
from cogrs.replay.wire import encode
from tests.replay import build
from tests.replay.fake_server import Fake, samples
from tests.replay.network import SLACK, arrived, connected, started, unused_endpoints


def test_sizes_that_cannot_be_are_refused() -> None:
    with Fake(samples) as fake, ReplaySampler([fake.endpoint], timeout=SLACK) as sampler:
        sizes = pb.Sizes(templates=[pb.Template(dtype="|O", shape=[1])] * 7)
        fake.state.answer = lambda frames: [encode(1, sizes=sizes)]
        for _ in range(2):
            with pytest.raises(RuntimeError, match=f"{fake.endpoint}: .* invalid sizes"):
                sampler.get_batch(4)


BAD: dict[str, Callable[[pb.SamplesRequest, ServerState], list[Any]]] = {
    "garbage": lambda asked, state: [b"\xff\xff"],
    "nothing": lambda asked, state: [b""],
    "another kind": lambda asked, state: [encode(1, counter_reply=pb.CounterReply())],
    "another number": lambda asked, state: samples(asked, state, number=asked.number + 1),
    "more rows": lambda asked, state: samples(asked, state, rows=asked.rows + 1),
    "short but full": lambda asked, state: samples(asked, state, shortage="none left"),
    "no sum": lambda asked, state: samples(asked, state, weight_sum=float("nan")),
    "a negative sum": lambda asked, state: samples(asked, state, weight_sum=-1.0),
    "an endless sum": lambda asked, state: samples(asked, state, weight_sum=float("inf")),
    "other templates": lambda asked, state: samples(asked, state, template=1),
    "other flags": lambda asked, state: samples(asked, state, flags=1),
    "other ids": lambda asked, state: samples(asked, state, ids=True),
    "no columns": lambda asked, state: samples(asked, state, frames=lambda frames: []),
    "a column less": lambda asked, state: samples(asked, state, frames=lambda given: given[:-1]),
    "a column more": lambda asked, state: samples(asked, state, frames=lambda given: [*given, b""]),
    "a short column": lambda asked, state: samples(
        asked, state, frames=lambda given: [given[0], given[1][:-1], *given[2:]]
    ),
    "a weight of -1": lambda asked, state: samples(
        asked, state, frames=lambda given: [b"\0\0\x80\xbf" * (len(given[0]) // 4), *given[1:]]
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_reply_is_refused_with_all_its_samples(kind: str) -> None:
    bad = True

    def answer(asked: pb.SamplesRequest, state: ServerState) -> list[Any]:
        made_up = BAD[kind](asked, state) if bad and asked.rows else samples(asked, state)
        return made_up

    with Fake(answer) as fake, ReplaySampler([fake.endpoint], timeout=SLACK) as sampler:
        with pytest.raises(RuntimeError, match=fake.endpoint):
            sampler.get_batch(4)
        assert sampler.stats()[0].kept == sampler.stats()[0].samples == 0
        bad = False
        assert_consistent_states(sampler.get_batch(4))


def assert_consistent_states(batch: cogrs.Batch) -> None:
    """What a fake gives."""
    assert batch.prev.s[:, 0].tolist() == list(range(len(batch.weight)))


def test_refusals_and_other_templates_raise_with_the_endpoint() -> None:
    def refuse(asked: pb.SamplesRequest, state: ServerState) -> list[Any]:
        return [encode(1, refusal=pb.Refusal(reason="not today"))]

    with (
        Fake(refuse) as fake,
        ReplaySampler([fake.endpoint], timeout=SLACK) as sampler,
        pytest.raises(RuntimeError, match=f"{fake.endpoint} refused: not today"),
    ):
        sampler.get_batch(4)
    for changes in ({"s": np.zeros(3)}, {"frame_stack": 2}, {"ids": True}):
        with (
            started(1) as one,
            started(1, **changes) as other,
            ReplaySampler([one.rep_endpoint, other.rep_endpoint], timeout=SLACK) as sampler,
            pytest.raises(RuntimeError, match=f"{other.rep_endpoint} has other templates"),
        ):
            sampler.get_batch(4)


def test_more_than_fits_into_an_answer_is_refused_or_asked_for_in_parts() -> None:
    large = np.zeros(1 << 20, np.uint8)
    with (
        started(1, s=large, reuse_cache=True, cache_size=2) as server,
        connected(server, 8) as client,
        ReplaySampler([server.rep_endpoint], timeout=60) as sampler,
    ):
        states = np.zeros((4, len(large)), np.uint8)
        build.add_uniform(client.rem, 4, s=states)
        client.push_cache()
        arrived(server, 1)
        asked = encode(1, samples_request=pb.SamplesRequest(rows=257, number=1))
        with zmq.Context() as context, context.socket(zmq.REQ) as request:
            request.connect(server.rep_endpoint)
            request.send(asked)
            assert "more than fit" in pb.Header.FromString(request.recv()).refusal.reason
        sampler.get_batch(1)
        sampler._most_rows = 3
        assert len(sampler.get_batch(10).weight) == 10


def test_large_answers_pass_the_proxy_of_a_server() -> None:
    (front, back) = unused_endpoints(2)
    large = np.zeros(1 << 18, np.uint8)  # a cache of one sample is smaller than an answer of eight
    with started(1, s=large, reuse_cache=True, cache_size=1) as server:
        mains = [
            threading.Thread(target=server.rep_proxy_main, args=(front, back)),
            threading.Thread(target=server.rep_worker_main, args=(back, Conn)),
        ]
        with connected(server, 8) as client:
            build.add_uniform(client.rem, 4, s=np.zeros((4, len(large)), np.uint8))
            client.push_cache()
            arrived(server, 1)
        for main in mains:
            main.start()
        with ReplaySampler([front], timeout=SLACK) as sampler:
            assert len(sampler.get_batch(8).weight) == 8
        server.close()
        for main in mains:
            main.join(SLACK)
