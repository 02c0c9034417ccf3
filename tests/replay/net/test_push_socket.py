"""Caches on their way to one server or to several, and errors where they would be lost."""

import logging
import time
from typing import Any

import pytest
import zmq

from cogrs import KeyPair, ReplayMemoryClient, ReplayMemoryServer
from cogrs.api import replay_pb2 as pb
from cogrs.replay.serving import server_state as state_module
from cogrs.replay.serving.server_state import ServerState
from tests.replay import build
from tests.replay.network import (
    SLACK,
    Call,
    arrived,
    connected,
    ended,
    eventually,
    launch,
    made,
    once_free,
    restarted,
    started,
    unused_endpoints,
)


def spread(first: ReplayMemoryServer, pulls: list[str], **options: Any) -> ReplayMemoryClient:
    """A client of one server that pushes to several endpoints."""
    return ReplayMemoryClient(first.pub_endpoint, first.rep_endpoint, pulls, max_step=64, **options)


def test_caches_and_lines_go_to_several_servers_in_turn(tmp_path: Any) -> None:
    with started(8) as one, started(8) as other:
        logs = [tmp_path / "one.log", tmp_path / "other.log"]
        for server, log in zip((one, other), logs, strict=True):
            server.set_logfile(log, "w")
        with spread(one, [one.pull_endpoint, other.pull_endpoint]) as client:
            build.add_uniform(client.rem, 20)
            pushed = 0
            # Both connections stand when both have something.
            while min(_caches(one, other)) == 0:
                pushed += client.push_cache() == 0
            eventually(lambda: sum(_caches(one, other)) == pushed)
            before = _caches(one, other)
            for _ in range(10):
                client.push_cache()
            eventually(lambda: sum(_caches(one, other)) == sum(before) + 10)
            gained = [now - then for now, then in zip(_caches(one, other), before, strict=True)]
            assert gained == [5, 5]
            for line in range(6):
                client.write_log(str(line))
            client.update_counter()
            eventually(lambda: one.stats().log_lines + other.stats().log_lines == 6)
            assert (one.total_episodes, other.total_episodes) == (1, 0)
    lines = [[line.rsplit(",", 1)[1] for line in log.read_text().split()] for log in logs]
    assert [len(each) for each in lines] == [3, 3]
    assert all(each == sorted(each) for each in lines)


def _caches(*servers: ReplayMemoryServer) -> list[int]:
    return [server.total_caches for server in servers]


def test_push_after_an_interrupt_between_two_parts_arrives_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(self: Any, parts: Any, *_: Any, **__: Any) -> None:
        monkeypatch.undo()
        self.send(parts[0], zmq.SNDMORE)
        raise KeyboardInterrupt

    with started(4) as server, connected(server) as client:
        build.add_uniform(client.rem, 20)
        assert client.push_cache() == 0
        arrived(server, 1)
        monkeypatch.setattr(zmq.Socket, "send_multipart", interrupted)
        with pytest.raises(KeyboardInterrupt):
            client.push_cache()
        for _ in range(3):
            assert client.push_cache() == 0
        arrived(server, 4)
        assert server.stats().total_refused == 0


def test_push_to_an_endpoint_without_a_server_sends_nothing_there() -> None:
    with (
        started(4) as server,
        spread(
            server, [*unused_endpoints(3), server.pull_endpoint], timeout=SLACK, hwm=1
        ) as client,
    ):
        build.add_uniform(client.rem, 20)
        for _ in range(20):
            client.push_cache()
        arrived(server, 20)


def test_push_cache_without_any_server_raises_a_timeout() -> None:
    with started(4) as server:
        nobody = unused_endpoints(2)  # the server might take them, were it to start after
        with spread(server, nobody, timeout=1) as client:
            build.add_uniform(client.rem, 20)
            with pytest.raises(TimeoutError, match=f"push_cache: no connection.*{nobody[0]}"):
                client.push_cache()
        assert server.total_caches == 0


SERVER = """
import sys
from tests.replay.network import started

with started(4) as server:
    print(server.pull_endpoint)
    for line in sys.stdin:
        print(server.total_caches)
"""


def test_killed_server_loses_no_later_push() -> None:
    process = launch(SERVER)
    with ended([process]), started(4) as server:
        dying = process.stdout.readline().strip()
        with spread(server, [server.pull_endpoint, dying], timeout=SLACK) as client:
            build.add_uniform(client.rem, 20)
            pushed = 0
            told = 0
            while told == 0:  # until its connection stands
                client.push_cache()
                pushed += 1
                process.stdin.write("\n")
                process.stdin.flush()
                told = int(process.stdout.readline())
            for _ in range(10):
                client.push_cache()
                pushed += 1
            process.kill()
            process.wait()
            # The system tells of it at once; until it is seen, half of them goes the old way.
            eventually(lambda: all_arrive(client, server, 4), 3 * SLACK)
            assert all_arrive(client, server, 50)


def all_arrive(client: ReplayMemoryClient, server: ReplayMemoryServer, count: int) -> bool:
    before = server.total_caches
    for _ in range(count):
        client.push_cache()
    end = time.monotonic() + 3
    while server.total_caches < before + count and time.monotonic() < end:
        time.sleep(0.01)
    return server.total_caches >= before + count


def test_restarted_server_gets_its_share_again() -> None:
    one, other = started(4), started(4)
    where = other.pull_endpoint
    with one, spread(one, [one.pull_endpoint, where], timeout=SLACK) as client:
        build.add_uniform(client.rem, 20)
        eventually(lambda: client.push_cache() == 0 and min(_caches(one, other)) > 0)
        other.close()
        client.push_cache()
        with once_free(lambda: made(4).start(pull_endpoint=where)) as again:
            eventually(lambda: client.push_cache() == 0 and again.total_caches > 0)


@pytest.mark.parametrize("endpoints", [[], ["tcp://127.0.0.1:1", 7], ["inproc://x"]])
def test_bad_endpoints_are_refused_by_name(endpoints: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="push_endpoint: expected"):
        ReplayMemoryClient("tcp://127.0.0.1:1", "tcp://127.0.0.1:1", endpoints)


# Keys that do not match.


def keys() -> tuple[KeyPair, dict[str, Any]]:
    """A client's pair, and the options of a server that takes it."""
    actor = KeyPair.new()
    return actor, {"key": KeyPair.new(), "allow": [actor.public]}


def test_first_push_without_keys_to_a_server_with_keys_raises() -> None:
    _, locked = keys()
    with started(4) as plain, started(4, **locked) as server:
        where = plain.pub_endpoint, plain.rep_endpoint, server.pull_endpoint
        with ReplayMemoryClient(*where, max_step=64, timeout=SLACK) as client:
            build.add_uniform(client.rem, 20)
            for push in (client.push_cache, lambda: client.write_log("line"), client.push_cache):
                with pytest.raises(ConnectionError, match=f"{where[2]}.*one of them has keys"):
                    push()
        assert server.total_caches == 0


def test_client_with_keys_gets_an_error_from_a_server_without_keys() -> None:
    actor, locked = keys()
    with started(4, **locked) as server, started(4) as plain:
        where = server.pub_endpoint, server.rep_endpoint, plain.pull_endpoint
        options: Any = {"key": actor, "server_key": locked["key"].public}
        with ReplayMemoryClient(*where, max_step=64, timeout=SLACK, **options) as client:
            build.add_uniform(client.rem, 20)
            with pytest.raises(ConnectionError, match=f"push_cache: {where[2]}"):
                client.push_cache()
        assert plain.total_caches == 0


def test_server_that_restarts_with_keys_is_detected() -> None:
    _, locked = keys()
    with started(4) as server, connected(server, timeout=SLACK) as client:
        build.add_uniform(client.rem, 20)
        client.push_cache()
        arrived(server, 1)
        server.close()
        with once_free(lambda: restarted(server, 4, **locked)):

            def refused() -> bool:
                try:
                    client.push_cache()
                except ConnectionError:
                    return True
                return False

            eventually(refused)
        # Without keys again, the same client goes on.
        with once_free(lambda: restarted(server, 4)) as again:
            eventually(lambda: _pushed(client) and again.total_caches > 0)


def _pushed(client: ReplayMemoryClient) -> bool:
    try:
        return client.push_cache() == 0
    except ConnectionError:
        return False


def test_server_with_other_keys_among_several_is_skipped_and_warned_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    _, locked = keys()
    with started(4) as server, started(4, **locked) as other:
        where = [server.pull_endpoint, other.pull_endpoint]
        with (
            caplog.at_level(logging.WARNING, "cogrs.replay"),
            spread(server, where, timeout=SLACK) as client,
        ):
            build.add_uniform(client.rem, 20)
            told: list[Any] = []

            def once() -> bool:
                client.push_cache()
                told[:] = [each for each in caplog.records if "gets nothing" in each.getMessage()]
                return bool(told)

            eventually(once)
            before = server.total_caches
            for _ in range(10):
                client.push_cache()
            arrived(server, before + 10)
            assert once()
            assert len(told) == 1
            assert where[1] in told[0].getMessage()


def test_pushes_to_a_server_that_is_away_wait_up_to_the_high_water_mark() -> None:
    with started(4) as server, connected(server, timeout=0.2, hwm=3) as client:
        build.add_uniform(client.rem, 20)
        server.close()
        assert [client.push_cache() for _ in range(3)] == [0, 0, 0]
        with pytest.raises(TimeoutError, match="3 messages wait to be taken by"):
            client.push_cache()


def test_closing_wakes_a_first_push() -> None:
    (nobody,) = unused_endpoints(1)
    with started(4) as server:
        client = spread(server, [nobody, *unused_endpoints(1)], timeout=60)
        build.add_uniform(client.rem, 20)
        call = Call(client.push_cache)
        assert call.blocks()
        client.close()
        with pytest.raises(RuntimeError, match="closed"):
            call.result()


# Counters of many clients.


def test_totals_of_clients_long_silent_are_forgotten_and_others_never_count_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(state_module, "_MOST_COUNTERS", 3)
    state = ServerState(build.memory(), 1, None, None)

    def told(sender: int, episodes: int) -> int:
        state._count(sender, pb.Counter(episodes=episodes, steps=0, dropped=0))
        return state.total_episodes

    assert [told(sender, 10) for sender in (1, 2, 3)] == [10, 20, 30]
    assert told(1, 10) == 30
    assert told(1, 12) == 32
    assert told(4, 10) == 42  # the second goes
    assert [told(sender, episodes) for sender, episodes in ((1, 12), (3, 10), (4, 9))] == [42] * 3
    assert len(state._counters) == 3
    assert told(2, 10) == 52  # it is new again
