"""Messages that a learner has servers elsewhere publish, through its sampler."""

import random
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
import zmq

import cogrs
from cogrs import Conn, KeyPair, ReplayMemoryClient, ReplaySampler
from cogrs.api import replay_pb2 as pb
from cogrs.limits import (
    LARGEST_PUBLICATION,
    PUBLICATION_PART,
)
from cogrs.replay import ReplayProxy
from cogrs.replay.pubsub.topic_key import digest_of_topic
from cogrs.replay.wire import FIELDS, encode
from tests.replay import build, network
from tests.replay.fake_server import Fake, samples
from tests.replay.network import (
    LOOPBACK,
    SLACK,
    Call,
    arrived,
    connected,
    made,
    started,
    unused_endpoints,
)


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 30_000_000])
@pytest.mark.parametrize("with_keys", [False, True], ids=["open", "keys"])
def test_message_of_a_sampler_reaches_the_clients_of_a_server(size: int, with_keys: bool) -> None:
    message = random.Random(size).randbytes(size)
    ours, theirs = KeyPair.new(), KeyPair.new()
    keys = {"key": ours, "allow": [theirs.public]} if with_keys else {}
    options = {"key": theirs, "server_key": ours.public} if with_keys else {}
    with (
        started(1, **keys) as server,
        connected(server, None, **options) as client,
        ReplaySampler([server.rep_endpoint], timeout=SLACK, **options) as sampler,
    ):
        call = Call(lambda: client.sub_bytes("model", timeout=60))
        server.wait_subscribers("model", timeout=SLACK)
        assert sampler.pub_bytes("model", message) == 0
        assert call.result() == message
        assert server.stats().published == 1


def test_every_server_publishes_and_late_clients_get_the_last_message() -> None:
    with ExitStack() as stack:
        servers = [stack.enter_context(started(1)) for _ in range(3)]
        where = [server.rep_endpoint for server in servers]
        sampler = stack.enter_context(ReplaySampler(where, timeout=SLACK))
        for number in range(20):
            assert sampler.pub_bytes("model", b"%d" % number) == 0
        for server in servers:
            client = stack.enter_context(connected(server, None))
            assert client.sub_bytes("model", last=True, timeout=SLACK) == b"19"


def test_publishing_and_batches_do_not_disturb_one_another() -> None:
    with (
        started(1, ids=True, reuse_cache=True) as server,
        connected(server, timeout=SLACK) as client,
        ReplaySampler([server.rep_endpoint], timeout=SLACK) as sampler,
    ):
        build.add_uniform(client.rem, 20)
        client.push_cache()
        arrived(server, 1)
        for number in range(100):
            batch = sampler.get_batch(8)
            assert sampler.update_priority(batch.id, batch.sender, batch.weight) == 0
            assert sampler.pub_bytes("model", str(number)) == 0
        assert client.sub_bytes("model", last=True, timeout=SLACK) == b"99"
        assert server.total_refused == 0


def test_messages_pass_proxies() -> None:
    with ReplayProxy(*[LOOPBACK] * 4) as proxy, made(1) as server:
        call = Call(lambda: server.rep_worker_main(proxy.rep_back, Conn))
        with (
            ReplaySampler([proxy.rep_front], timeout=SLACK) as sampler,
            ReplayMemoryClient(server.pub_endpoint, "", "") as client,
        ):
            assert sampler.pub_bytes("model", bytes(5_000_000)) == 0
            assert client.sub_bytes("model", last=True, timeout=SLACK) == bytes(5_000_000)
        server.close()
        call.result()


def test_server_of_a_file_publishes_for_a_learner(tmp_path: Any) -> None:
    fields = "".join(f'{name} = {{ dtype = "float32" }}\n' for name in FIELDS)
    path = tmp_path / "replay.toml"
    path.write_text(f"n_caches = 1\n[templates]\n{fields}")
    with (
        cogrs.replay.start_server(path) as server,
        ReplayMemoryClient(server.pub_endpoint, "", "") as client,
        ReplaySampler([server.rep_endpoint], timeout=SLACK) as sampler,
    ):
        sampler.pub_bytes("model", np.arange(10).tobytes())
        assert client.sub_bytes("model", last=True, timeout=SLACK) == np.arange(10).tobytes()


def test_invalid_parts_of_publications_are_refused_and_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    part, digest = bytes(PUBLICATION_PART), digest_of_topic(b"t")

    def ask(socket: Any, pieces: list[bytes], size: int, number: int, **changes: Any) -> pb.Header:
        told = pb.Publish(digest=changes.get("digest", digest), size=size, number=number)
        whole = b"".join(pieces)
        frames = [whole[at : at + (1 << 20)] for at in range(0, len(whole), 1 << 20)]
        socket.send_multipart([encode(changes.get("sender", 1), publish=told), *frames])
        return pb.Header.FromString(socket.recv())

    monkeypatch.setattr("cogrs.replay.serving.message_assembler.MOST_PARTS", 4 * len(part))
    with started(1) as server, network.raw(zmq.REQ, server.rep_endpoint) as socket:
        size = 2 * len(part) + 1
        # Each answer tells how much has come, and the last one that it is published.
        assert ask(socket, [part], size, 1).publish.size == len(part)
        assert ask(socket, [part[1:], b"x"], size, 1).publish.size == 2 * len(part)
        assert ask(socket, [part], size, 1, sender=2).publish.size == len(part)
        assert ask(socket, [b"e"], size, 1).publish_reply.number == 1
        assert server.stats().published == 1
        # What does not go on with what was begun drops it.
        for pieces, changes in (
            ([b"e"], {}),
            ([part, b"e"], {}),
            ([], {}),
            ([part], {"digest": digest_of_topic(b"other")}),
            ([part], {"size": size + 1}),
        ):
            ask(socket, [part], size, 2)
            answer = ask(socket, pieces, changes.pop("size", size), 2, **changes)
            assert answer.refusal.reason
        assert "at most" in ask(socket, [part], LARGEST_PUBLICATION + 1, 3).refusal.reason
        assert server._state._assembler._size == len(part)  # of client 2
        for number in range(10, 20):
            ask(socket, [part], size, number)
        assert server._state._assembler._size == 4 * len(part)
        assert ask(socket, [b"e"], size, 10).refusal.reason
        assert server.stats().published == 1


@pytest.mark.parametrize("size", [1, PUBLICATION_PART // 2, PUBLICATION_PART * 2, 9_000_000])
def test_server_that_asks_for_other_parts_is_refused(size: int) -> None:
    def answer(frames: list[Any]) -> list[bytes]:
        told = pb.Header.FromString(frames[0].bytes)
        if told.WhichOneof("body") == "publish":
            return [encode(1, publish=pb.Publish(number=told.publish.number, size=size))]
        return real(frames)

    with Fake(samples) as fake, ReplaySampler([fake.endpoint], timeout=SLACK) as sampler:
        real, fake.state.answer = fake.state.answer, answer
        with pytest.raises(RuntimeError, match="was not sent"):
            sampler.pub_bytes("t", bytes(9_000_000))


@pytest.mark.parametrize("skip_down", [False, True])
def test_server_that_is_not_there_is_named_or_counted(skip_down: bool) -> None:
    (nowhere,) = unused_endpoints(1)
    with started(1) as server, connected(server, None) as client:
        where = [nowhere, server.rep_endpoint]
        with ReplaySampler(where, timeout=1.0, skip_down=skip_down) as sampler:
            if skip_down:
                assert sampler.pub_bytes("model", b"m") == 1
            else:
                with pytest.raises(
                    TimeoutError, match=f"pub_bytes: no answer from {nowhere} after"
                ):
                    sampler.pub_bytes("model", b"m")
            assert client.sub_bytes("model", last=True, timeout=SLACK) == b"m"
    with (
        ReplaySampler([nowhere], timeout=0.2, skip_down=skip_down) as sampler,
        pytest.raises(TimeoutError, match=f"no answer from {nowhere}.*no connection"),
    ):
        sampler.pub_bytes("model", b"m")


def test_bad_arguments_are_refused_by_name_before_the_call() -> None:
    with started(1) as server, ReplaySampler([server.rep_endpoint], timeout=SLACK) as sampler:
        for topic in (None, 1, ["t"]):
            with pytest.raises(TypeError, match=r"^topic"):
                sampler.pub_bytes(topic, b"m")
        for message in (None, 1, np.zeros(2)):
            with pytest.raises(TypeError, match=r"^message"):
                sampler.pub_bytes("t", message)
        with pytest.raises(ValueError, match=f"^message: expected at most {LARGEST_PUBLICATION} b"):
            sampler.pub_bytes("t", bytes(LARGEST_PUBLICATION + 1))
        assert server.stats().published == 0
    with pytest.raises(RuntimeError, match="closed"):
        sampler.pub_bytes("t", b"m")


BROKEN = {
    "short": (pb.Publish(digest=digest_of_topic(b"t"), size=5), [b"1234"]),
    "long": (pb.Publish(digest=digest_of_topic(b"t"), size=5), [b"1234", b"56"]),
    "no digest": (pb.Publish(size=1), [b"1"]),
    "a piece missing": (pb.Publish(digest=digest_of_topic(b"t"), size=2**60), []),
    "thousands of pieces": (pb.Publish(digest=digest_of_topic(b"t"), size=5_000), [b"1"] * 5_000),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_message_that_is_not_whole_is_refused(kind: str) -> None:
    told, pieces = BROKEN[kind]
    with started(1) as server, network.raw(3, server.rep_endpoint) as request:
        request.send_multipart([encode(1, publish=told), *pieces])
        assert pb.Header.FromString(request.recv()).WhichOneof("body") == "refusal"
        assert server.stats().refused["frames"] == 1
        assert server.stats().published == 0


@pytest.mark.parametrize("call", ["pub_bytes", "get_batch"])
def test_timeout_of_a_sampler_after_its_server_left_does_not_mention_keys(call: str) -> None:
    with started() as server, ReplaySampler([server.rep_endpoint], timeout=SLACK) as sampler:
        calls = {"pub_bytes": ("topic", b"message"), "get_batch": (4,)}
        assert sampler.pub_bytes("topic", b"message") == 0
        sampler._timeout = 0.3
        server.close()
        for _ in range(2):
            with pytest.raises(TimeoutError, match="no answer from") as caught:
                getattr(sampler, call)(*calls[call])
            assert "keys" not in str(caught.value)


@pytest.mark.parametrize("limit", ["MOST_CLIENTS_TOPICS", "MOST_CLIENTS_TOPICS_BYTES"])
def test_topics_of_clients_are_bounded(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    most = {"MOST_CLIENTS_TOPICS": 8, "MOST_CLIENTS_TOPICS_BYTES": 8_000}
    monkeypatch.setattr(f"cogrs.replay.pubsub.publisher.{limit}", most[limit])
    with (
        started(1, ids=True) as server,
        connected(server, None) as client,
        ReplaySampler([server.rep_endpoint], timeout=SLACK) as sampler,
    ):
        server.pub_bytes("ours", b"ours")
        call = Call(lambda: client.sub_bytes("0", timeout=60))
        server.wait_subscribers("0", timeout=SLACK)
        sampler.pub_bytes("0", bytes(1000))
        assert call.result() == bytes(1000)
        for number in range(1, 30):
            sampler.pub_bytes(str(number), bytes([number]) * 1000)
        assert len(server._publisher._last) == 1 + 8
        # One that was forgotten goes on, and those of the server stay.
        sampler.pub_bytes("0", b"again")
        assert client.sub_bytes("0", timeout=SLACK) == b"again"
        assert client.sub_bytes("ours", last=True, timeout=SLACK) == b"ours"
        assert client.sub_bytes("29", last=True, timeout=SLACK) == bytes([29]) * 1000
        # A topic that the server publishes to as well is the server's, even if a client began.
        for number in range(20, 60):
            server.pub_bytes(str(number), b"m")
            sampler.pub_bytes(str(number), b"n")
        server.update_priority([1], [client.uuid], [1.0])
        sampler.pub_bytes(f"cogrs.priorities.{client.uuid:08x}", b"none")
        assert client.sub_bytes("20", last=True, timeout=SLACK) == b"n"
        publisher = server._publisher
        sizes = [len(publisher._last[digest][2]) for digest in publisher._client_streams]
        assert publisher._client_bytes == sum(sizes)
        sampler.pub_bytes("large", bytes(10_000))
        assert client.sub_bytes("large", last=True, timeout=SLACK) == bytes(10_000)
