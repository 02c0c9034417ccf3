"""Errors that go back from the learner to the memories that samples came from."""

import contextlib
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cogrs
from cogrs import IdBatch, KeyPair, ReplayMemoryClient, ReplayMemoryServer, ReplaySampler
from cogrs.api import replay_pb2 as pb
from cogrs.replay import AppliedPriorities
from cogrs.replay.priorities import Priorities, topic_of
from cogrs.replay.pubsub import publisher as publisher_module
from cogrs.replay.wire import FIELDS, WireError, encode
from tests.replay import build
from tests.replay.network import (
    SLACK,
    arrived,
    cache_message,
    connected,
    endpoints,
    eventually,
    full_pair,
    made,
    raw,
    restarted,
    started,
)

NOTHING = AppliedPriorities(0, 0, 0, 0)


def served(n_caches: int = 1, **changes: Any) -> ReplayMemoryServer[IdBatch]:
    """A server whose clients send ids."""
    return started(n_caches, ids=True, **changes)


def applied(client: ReplayMemoryClient) -> AppliedPriorities:
    """What came for a client, waited for."""
    return client.apply_priorities(timeout=SLACK)


def listened(server: ReplayMemoryServer[IdBatch], *clients: ReplayMemoryClient) -> None:
    """Wait until the clients would miss nothing."""
    for client in clients:
        server.wait_subscribers(topic_of(client.uuid))


def test_batches_name_the_sender_of_each_row() -> None:
    with served(2) as server, connected(server) as one, connected(server) as other:
        first = {
            client.uuid: build.add_uniform(client.rem, 20, start)
            for client, start in ((one, 0), (other, 100))
        }
        assert one.push_cache() == other.push_cache() == 0
        arrived(server, 2)
        batch = server.get_batch(64)
    assert type(batch) is IdBatch
    assert batch._fields == ("prev", "next", "weight", "id", "sender")
    assert (batch.id.dtype, batch.sender.dtype) == (np.uint64, np.uint32)
    assert set(batch.sender.tolist()) == {one.uuid, other.uuid}
    for state, entry, sender in zip(batch.prev.s[:, 0], batch.id, batch.sender, strict=True):
        start = 0 if sender == one.uuid else 100
        assert int(entry) == first[int(sender)] + int(state) - start
    assert int(batch.id.max()) < 2**63


def test_without_ids_a_batch_has_three_parts() -> None:
    with full_pair(1) as (server, client):
        client.push_cache()
        arrived(server, 1)
        prev, following, weight = server.get_batch(4)
        assert type(server.get_batch(4)) is cogrs.Batch
        with pytest.raises(RuntimeError, match="no ids: make it with ids=True"):
            server.update_priority([1], [2], [3.0])
        with pytest.raises(RuntimeError, match="no ids"):
            client.apply_priorities()
    assert len(prev.s) == len(following.s) == len(weight) == 4


@pytest.mark.parametrize("through", ["server", "sampler"])
def test_absolute_priorities_are_the_weights(through: str) -> None:
    with served(priority_exponent=0.5) as server, connected(server, 64) as client:
        first = build.add_uniform(client.rem, 20)
        listened(server, client)
        client.push_cache()
        arrived(server, 1)
        with ReplaySampler([server.rep_endpoint], timeout=SLACK) as sampler:
            sampler.get_batch(1, wait=SLACK)
            sends = server if through == "server" else sampler
            # The newest priority of an entry counts, whichever kind it is of.
            senders = [client.uuid] * 2
            sends.update_priority([first, first + 1], senders, [9.0, 9.0], absolute=True)
            sends.update_priority([first + 1, first + 2], senders, [4.0, 4.0])
            weight = client.rem.episode(0).weight
            while (weight[0], weight[2]) != (9, 2):
                assert client.apply_priorities(timeout=SLACK).entries > 0
                weight = client.rem.episode(0).weight
    assert weight[:3].tolist() == [9.0, 2.0, 2.0]


def test_absolute_that_is_not_a_flag_is_refused() -> None:
    with served() as server, pytest.raises(TypeError, match="absolute: expected True or False"):
        server.update_priority([1], [1], [1.0], absolute=1)


def test_update_priority_with_ids_by_name_warns() -> None:
    with served() as server, pytest.warns(DeprecationWarning, match="ids= is now id="):
        server.update_priority(ids=[1], sender=[1], priority=[1.0])


@pytest.mark.parametrize("state", [np.int64(0), np.zeros(40, np.int64)], ids=["record", "columns"])
@pytest.mark.parametrize("reuse_cache", [False, True])
def test_errors_become_weights(state: Any, reuse_cache: bool) -> None:
    changes = {"s": state, "reuse_cache": reuse_cache, "priority_exponent": 0.5}
    with served(**changes) as server, connected(server, 64) as client:
        k = np.arange(20)
        states = np.broadcast_to(k.reshape(-1, *[1] * state.ndim), (20, *state.shape))
        build.add_uniform(client.rem, 20, s=states)
        listened(server, client)
        client.push_cache()
        arrived(server, 1)
        batch = server.get_batch(16)
        out = tuple(batch)
        assert server.get_batch(16, out=out) is out
        errors = batch.prev.r + 1
        server.update_priority(batch.id, batch.sender, errors)
        got = applied(client)
        weight = dict(
            zip(client.rem.episode(0).id.tolist(), client.rem.episode(0).weight, strict=True)
        )
    assert got == AppliedPriorities(16, 0, 0, 0)
    for entry, error in zip(batch.id.tolist(), errors.tolist(), strict=True):
        assert weight[entry] == pytest.approx(error**0.5, rel=1e-6)


def test_each_client_gets_its_own_errors_although_ids_coincide() -> None:
    with served(2) as server, connected(server) as one, connected(server) as other:
        for client in (one, other):
            build.add_uniform(client.rem, 8)
        listened(server, one, other)
        id_of = {client.uuid: int(client.rem.episode(0).id[3]) for client in (one, other)}
        server.update_priority(
            [id_of[one.uuid], id_of[other.uuid]], [one.uuid, other.uuid], [4.0, 9.0]
        )
        assert applied(one).entries == applied(other).entries == 1
        assert one.rem.episode(0).weight[3] == 2
        assert other.rem.episode(0).weight[3] == 3


def test_ids_of_evicted_entries_are_counted() -> None:
    with served() as server, connected(server, 16) as client:
        gone = build.add_uniform(client.rem, 8)
        for _ in range(2):
            kept = build.add_uniform(client.rem, 8)
        listened(server, client)
        server.update_priority([gone, kept + 1], [client.uuid] * 2, [1.0, 2.0])
        assert applied(client) == AppliedPriorities(1, 1, 0, 0)
        assert client.apply_priorities() == NOTHING


def test_ids_of_the_memory_before_are_gone() -> None:
    with served() as server, connected(server) as client:
        before = build.add_uniform(client.rem, 8)
        client.sync_sizes(64)
        build.add_uniform(client.rem, 8)
        listened(server, client)
        server.update_priority(before + np.arange(8), [client.uuid] * 8, [100.0] * 8)
        assert applied(client) == AppliedPriorities(0, 8, 0, 0)
        assert client.rem.episode(0).weight.max() == 1


def test_newest_error_of_an_entry_wins_and_none_of_another_is_lost() -> None:
    with served() as server, connected(server, sub_hwm=2) as client:
        first = build.add_uniform(client.rem, 8)
        listened(server, client)
        for error in range(1, 6):
            server.update_priority([first + 1], [client.uuid], [error**2])
            server.update_priority([first + 1 + error], [client.uuid], [9.0])
        entries = [first + 1 + number for number in range(6)]
        wanted = [5.0] + [3.0] * 5
        dropped = 0

        def all_are_there() -> bool:
            nonlocal dropped
            dropped += client.apply_priorities().dropped
            episode = client.rem.episode(0)
            weight = dict(zip(episode.id.tolist(), episode.weight.tolist(), strict=True))
            return [weight[entry] for entry in entries] == wanted

        eventually(all_are_there)
        assert dropped == 0
        assert client.apply_priorities() == NOTHING


def test_weight_that_would_not_be_finite_is_refused_and_changes_nothing() -> None:
    with served(priority_exponent=3.0) as server, connected(server) as client:
        entry = build.add_uniform(client.rem, 8) + 1
        listened(server, client)
        server.update_priority([entry], [client.uuid], [1e30])
        assert applied(client) == AppliedPriorities(0, 0, 1, 0)
        assert client.rem.episode(0).weight[1] == 1


@pytest.mark.parametrize("message", [b"", b"\xff\xff", encode(1, counter=pb.Counter())])
def test_invalid_priority_messages_are_counted_as_refused(message: bytes) -> None:
    with served() as server, connected(server) as client:
        listened(server, client)
        server.pub_bytes(topic_of(client.uuid), message)
        assert applied(client) == AppliedPriorities(0, 0, 1, 0)


@given(st.binary(max_size=40), st.binary(max_size=40), st.binary(max_size=40))
def test_priorities_from_a_network_are_read_or_refused(
    ids: bytes, senders: bytes, errors: bytes
) -> None:
    told = pb.Priorities(ids=ids, senders=senders, errors=errors)
    with contextlib.suppress(WireError):
        read = Priorities.from_message(encode(1, priorities=told))
        assert len(read.ids) == len(read.errors)
        assert (read.errors >= 0).all()


@given(
    st.lists(
        st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 3), st.floats(0, 1e30)), max_size=50
    )
)
@settings(deadline=None)
def test_messages_hold_each_row_once_and_in_order(rows: list[tuple[int, int, float]]) -> None:
    columns = [np.array([row[at] for row in rows], kind) for at, kind in enumerate("QIf")]
    sent: dict[bytes, list[bytes]] = {}
    priorities = Priorities.of(*columns)
    priorities.publish(7, lambda topic, body: sent.setdefault(topic, []).append(body))
    expected: dict[bytes, list[tuple[int, float]]] = {}
    for entry, sender, error in zip(*(column.tolist() for column in columns), strict=True):
        expected.setdefault(topic_of(sender), []).append((entry, error))
    got = {}
    for topic, (body,) in sent.items():
        read = Priorities.from_message(body)
        got[topic] = list(zip(read.ids.tolist(), read.errors.tolist(), strict=True))
    assert got == expected


def test_ids_of_64_bits_may_be_python_integers() -> None:
    ids = [1, 2**63, 2**64 - 1]
    assert Priorities.of(ids, [1, 2, 3], [1, 1, 1]).ids.tolist() == ids


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (([1], [1, 2], [1.0]), ValueError, "expected one of each per row"),
        (([1], [1], [1.0, 2.0]), ValueError, "expected one of each per row"),
        (([-1], [1], [1.0]), ValueError, r"id: expected integers in \[0"),
        (([1], [2**32], [1.0]), ValueError, r"sender: expected integers in \[0, 4294967295\]"),
        (([1], [1], [-1.0]), ValueError, "priority: expected finite numbers >= 0"),
        (([1], [1], [np.nan]), ValueError, "priority: expected finite"),
        (([1], [1], [1e39]), ValueError, "priority: expected finite"),
        (([1.5], [1], [1.0]), TypeError, "id: expected integers, got float64"),
        (([1], ["a"], [1.0]), TypeError, "sender: expected integers"),
        (([1], [1], ["a"]), TypeError, "priority: expected numbers"),
        ((np.ma.masked_equal([1], 1), [1], [1.0]), TypeError, "id: .*without a mask"),
        (([1], [1], np.ma.masked_equal([1.0], 1)), TypeError, "priority: .*without a mask"),
        ((1, 1, 1.0), ValueError, r"id: expected shape \(B,\)"),
        (([2**64, 1], [1, 1], [1.0, 1.0]), ValueError, r"id: expected integers in \[0"),
        (([True], [1], [1.0]), TypeError, "id: expected integers, got bool"),
        (([[1, 2], [3]], [1], [1.0]), ValueError, "^id: expected"),
        (([1], [[1, 2], [3]], [1.0]), ValueError, "^sender: expected"),
        (([1], [1], [[1.0, 2.0], [3.0]]), ValueError, "^priority: expected"),
    ],
)
def test_bad_arguments_are_refused_by_name(arguments: Any, error: type, text: str) -> None:
    with made(1, ids=True) as server, pytest.raises(error, match=text):
        server.update_priority(*arguments)


def test_ids_have_to_be_a_bool() -> None:
    with pytest.raises(TypeError, match="ids: expected True or False, got int"):
        made(1, ids=1)


def test_caches_with_and_without_ids_do_not_mix() -> None:
    with served() as server, connected(server) as client:
        build.add_uniform(client.rem, 20)
        with raw(8, server.pull_endpoint) as push:
            push.send_multipart(cache_message(client))
            eventually(lambda: server.stats().refused["layout"] == 1)
        where = server
    with restarted(where, 1, ids=False) as plain:
        with connected(plain) as fresh:
            build.add_uniform(fresh.rem, 20)
            assert fresh.push_cache() == 0
            arrived(plain, 1)
        client.close()


def test_keys_do_not_matter_to_priorities() -> None:
    learner, actor = KeyPair.new(), KeyPair.new()
    with (
        served(key=learner, allow=[actor.public]) as server,
        connected(server, key=actor, server_key=learner.public) as client,
    ):
        entry = build.add_uniform(client.rem, 20) + 1
        listened(server, client)
        client.push_cache()
        server.get_batch(4, wait=SLACK)
        server.update_priority([entry], [client.uuid], [9.0])
        assert applied(client).entries == 1
        assert client.rem.episode(0).weight[1] == 3


def test_waiting_for_priorities_ends_in_time_and_by_closing() -> None:
    with served() as server, connected(server) as client:
        begun = time.monotonic()
        assert client.apply_priorities(timeout=0.05) == NOTHING
        assert time.monotonic() - begun < SLACK
        with pytest.raises(ValueError, match="timeout"):
            client.apply_priorities(timeout=-1)
    with pytest.raises(RuntimeError, match="closed"):
        client.apply_priorities()
    with pytest.raises(RuntimeError, match="closed"):
        server.update_priority([1], [1], [1.0])


def test_topics_of_clients_long_silent_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publisher_module, "_MOST_PRIORITY_TOPICS", 3)
    with served() as server, connected(server) as client:
        entry = build.add_uniform(client.rem, 8) + 1
        listened(server, client)
        for error in (4.0, 9.0):
            server.update_priority([entry], [client.uuid], [error])
            assert applied(client).entries == 1
            others = [client.uuid ^ number for number in range(1, 10)]
            server.update_priority([1] * 9, others, [1.0] * 9)
        assert len(server._publisher._last) == 3
        assert client.rem.episode(0).weight[1] == 3


def test_requests_spread_priorities_and_bad_ones_are_refused() -> None:
    with served() as server, connected(server) as client, raw(3, server.rep_endpoint) as request:
        entry = build.add_uniform(client.rem, 8) + 1
        listened(server, client)

        def asked(**columns: bytes) -> str:
            request.send(encode(5, priorities=pb.Priorities(**columns)))
            return pb.Header.FromString(request.recv()).WhichOneof("body")

        ids, errors = np.uint64([entry]).tobytes(), np.float32([4]).tobytes()
        senders = np.uint32([client.uuid]).tobytes()
        assert asked(ids=ids, senders=senders, errors=errors) == "priorities_reply"
        assert applied(client).entries == 1
        assert asked(ids=ids, errors=errors) == "refusal"
        assert asked(ids=ids, senders=senders, errors=b"123") == "refusal"
        assert asked(ids=ids, senders=senders, errors=np.float32([-1]).tobytes()) == "refusal"
        assert server.stats().refused["cache"] == 3
        assert endpoints(server)[1] == server.rep_endpoint


def test_config_file_can_set_ids(tmp_path: Any) -> None:
    fields = "".join(f'{name} = {{ dtype = "float32" }}\n' for name in FIELDS)
    path = tmp_path / "replay.toml"
    path.write_text(f"n_caches = 1\nids = true\n[templates]\n{fields}")
    with cogrs.replay.start_server(path) as server, connected(server) as client:
        build.add_uniform(client.rem, 20)
        client.push_cache()
        assert isinstance(server.get_batch(4, wait=SLACK), IdBatch)
    path.write_text(f"n_caches = 1\nids = 1\n[templates]\n{fields}")
    with pytest.raises(ValueError, match="ids: expected True or False"):
        cogrs.replay.start_server(path)


def test_batches_with_ids_become_jax_arrays() -> None:
    as_arrays = pytest.importorskip("cogrs.jax").as_arrays
    small = {"s": np.float32(0), "a": np.int32(0), "i": np.float32(0)}
    with served(**small) as server, connected(server) as client:
        k = np.float32(np.arange(20))
        build.add_uniform(client.rem, 20, s=k, a=np.int32(k), i=k)
        client.push_cache()
        batch = server.get_batch(4, wait=SLACK)
        arrays = as_arrays(batch)
    assert type(arrays) is IdBatch
    assert arrays.id is batch.id
    assert arrays.sender.tolist() == batch.sender.tolist()
