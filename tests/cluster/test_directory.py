"""The directory of a run: versions, generations, and what is remembered."""

import gc
import time

import pytest

from cogrs import KeyPair
from cogrs.cluster.directory import Directory, LateGenerationError
from cogrs.cluster.directory_client import DirectoryClient
from cogrs.cluster.directory_server import DirectoryServer
from cogrs.replay.net.deadline import Deadline
from tests.replay.network import LOOPBACK, SLACK, Call, eventually


def part(role="shard", index=0, generation=1, report=None, **more):
    told = {"role": role, "index": index, "generation": generation, "node": "n", "pid": 1}
    return told | {"since": 0.0, "report": report or {}} | more


def test_version_grows_with_places_and_not_with_reports():
    directory = Directory()
    first = directory.snapshot()["version"]
    directory.register(part(endpoints=["a"]))
    second = directory.snapshot()["version"]
    directory.register(part(endpoints=["a"], report={"count": 3}))
    assert first < second == directory.snapshot()["version"]
    directory.register(part(endpoints=["b"]))
    assert directory.snapshot()["version"] > second


def test_part_of_an_earlier_generation_is_refused():
    directory = Directory()
    directory.register(part(generation=2))
    with pytest.raises(LateGenerationError, match="shard 0: generation 2 is there"):
        directory.register(part(generation=1))
    directory.register(part(generation=2))


def test_counts_of_replaced_parts_are_kept():
    kept = []
    directory = Directory({"actor-1-1": {"inserted": 3}}, kept.append)
    directory.register(part("actor", report={"rows": {"inserted": 5}}))
    directory.register(part("actor", generation=2))
    expected = {"actor-1-1": {"inserted": 3}, "actor-0-1": {"inserted": 5}}
    assert kept == [expected]
    assert directory.status()["ended"] == expected


def test_later_directory_has_larger_versions():
    one = Directory()
    one.register(part())
    time.sleep(0.005)
    assert Directory().snapshot()["version"] > one.snapshot()["version"]


def test_wait_returns_when_the_version_grows():
    directory = Directory()
    version = directory.snapshot()["version"]
    assert directory.wait(version, 0.01) is None
    waiting = Call(lambda: directory.wait(version, SLACK))
    assert waiting.blocks()
    directory.register(part())
    assert waiting.result()["version"] > version


@pytest.fixture
def keys():
    return {role: KeyPair.new() for role in ("server", "actor", "learner", "stranger")}


@pytest.fixture
def served(keys):
    directory = Directory()
    options = {
        "key": keys["server"],
        "allow": [keys["actor"].public],
        "allow_orders": [keys["learner"].public],
    }
    with DirectoryServer(directory, LOOPBACK, **options) as server:
        yield directory, server


def client(keys, server, role="actor"):
    where = server if callable(server) else lambda: server.endpoint
    return DirectoryClient(where, key=keys[role], server_key=keys["server"].public)


def test_exchange_waits_for_a_newer_snapshot(keys, served):
    directory, server = served
    with client(keys, server) as one, client(keys, server) as other:
        seen = one.exchange(part(), 0, SLACK)["version"]
        waiting = Call(lambda: one.exchange(part(), seen, SLACK))
        assert waiting.blocks()
        other.exchange(part(index=1), 0, SLACK)
        assert [each["index"] for each in waiting.result()["parts"]] == [0, 1]
        began = time.monotonic()
        newest = directory.snapshot()["version"]
        assert one.exchange(part(), newest, 0.2) is None
        assert time.monotonic() - began >= 0.2


def test_threads_of_a_client_take_turns_while_one_asks_again_and_again(keys, served):
    directory, server = served
    with client(keys, server) as one:
        seen = one.exchange(part(), 0, SLACK)["version"]
        rounds = []

        def follow():
            while not rounds or rounds[-1] is None:
                rounds.append(one.exchange(part(), seen, 0.05))

        following = Call(follow)
        assert following.blocks()
        others = []
        for _ in range(40):
            before = len(rounds)
            assert len(one.status()["parts"]) == 1
            others.append(len(rounds) - before)
        # Between two calls this thread may have to wait for a core.
        assert sum(count > 1 for count in others) <= 4
        directory.register(part(index=1))
        following.result()


def test_many_clients_wait_side_by_side(keys, served):
    directory, server = served
    seen = directory.snapshot()["version"]
    clients = [client(keys, server) for _ in range(8)]
    waiting = [Call(lambda each=each: each.exchange(None, seen, SLACK)) for each in clients]
    assert all(each.blocks(0.02) for each in waiting)
    directory.register(part())
    for each in waiting:
        assert each.result()["version"] > seen
    for each in clients:
        each.close()


def test_late_generation_reaches_the_client_as_its_error(keys, served):
    directory, server = served
    directory.register(part(generation=5))
    with client(keys, server) as late, pytest.raises(LateGenerationError, match="generation 5"):
        late.exchange(part(generation=4), 0, SLACK)


def test_only_learner_and_drivers_may_give_orders(keys, served):
    directory, server = served
    with client(keys, server) as actor, pytest.raises(RuntimeError, match="may not give orders"):
        actor.order(stop=1.0)
    assert directory.snapshot()["order"] == {}
    with client(keys, server, "learner") as driver:
        driver.order(actors=3)
    assert directory.snapshot()["order"] == {"actors": 3}


def test_stranger_reaches_no_directory(keys, served):
    _, server = served
    with (
        client(keys, server, "stranger") as stranger,
        pytest.raises(TimeoutError, match="no answer from tcp://"),
    ):
        stranger.status()


def test_client_finds_a_directory_that_moves_during_a_wait(keys, served):
    _, server = served
    other = Directory()
    options = {"key": keys["server"], "allow": [keys["actor"].public], "allow_orders": []}
    with DirectoryServer(other, LOOPBACK, **options) as moved:
        where = [server.endpoint]
        with client(keys, lambda: where[0]) as asking:
            seen = other.snapshot()["version"] + 1_000_000
            waiting = Call(lambda: asking.exchange(part(), seen, 3.0))
            assert waiting.blocks()
            where[0] = moved.endpoint
            assert waiting.result() is None
            assert [each["index"] for each in other.snapshot()["parts"]] == [0]


def test_client_waits_for_an_endpoint_that_is_not_known_yet(keys, served):
    _, server = served
    where = [None]
    with client(keys, lambda: where[0]) as early:
        waiting = Call(early.status)
        assert waiting.blocks()
        where[0] = server.endpoint
        assert waiting.result()["parts"] == []
        where[0] = None
        with pytest.raises(TimeoutError, match="which is not known yet"):
            early.status()


def test_closing_wakes_a_client_that_waits(keys, served):
    directory, server = served
    asking = client(keys, server)
    waiting = Call(lambda: asking.exchange(None, directory.snapshot()["version"], 60.0))
    assert waiting.blocks()
    asking.close()
    with pytest.raises(RuntimeError, match="closed"):
        waiting.result()


@pytest.mark.parametrize(
    "request_",
    [b"", b"{", b"[]", b'"x"', b"{}", b'{"call": "no"}', b"[" * 100_000, b'{"call": "exchange"}'],
)
def test_malformed_request_is_refused_and_the_directory_goes_on(keys, served, request_):
    directory, server = served
    with client(keys, server) as one:
        reply = one._exchange(request_, Deadline(SLACK))
        assert set(reply) == {"error"}
        one._disconnect()
        assert one.status()["parts"] == []
    assert directory.snapshot()["parts"] == []


def test_client_that_is_forgotten_closes(keys, served):
    _, server = served
    asking = client(keys, server)
    asking.status()
    transport = asking._transport
    del asking
    gc.collect()
    assert transport.closed
    eventually(lambda: not [each for each in transport._sockets if not each.closed])
