"""The order of lines in the log file of a server."""

import tempfile
import threading
from pathlib import Path

import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st

from cogrs.api import replay_pb2 as pb
from cogrs.replay.wire import encode
from tests.replay import network
from tests.replay.log_lines import lines, messages, open_log, take_in
from tests.replay.network import SLACK, Call, connected, eventually, pair, started


@given(st.permutations(range(12)))
def test_lines_that_arrive_out_of_order_are_written_in_order(order: list[int]) -> None:
    got = written(order)
    assert got == list(range(12))


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=20, unique=True))
def test_line_after_a_lost_one_is_written(numbers: list[int]) -> None:
    assert written(numbers) == sorted(numbers)


def written(numbers: list[int]) -> list[int]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log")
        with open_log(path) as book:
            for number in numbers:
                book.add(1, 7, number, str(number))
        return [int(message) for message in messages(path)]


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=30))
def test_clients_do_not_wait_for_each_other(calls: list[tuple[int, bool]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log")
        numbers = dict.fromkeys(range(4), 0)
        with open_log(path) as book:
            book.add(9, 99, 1, "waits")
            for client, _ in calls:
                book.add(client, client, numbers[client], f"{client} {numbers[client]}")
                numbers[client] += 1
        got = messages(path)
        assert got.pop() == "waits"
        for client, count in numbers.items():
            own = [message for message in got if message.startswith(f"{client} ")]
            assert own == [f"{client} {number}" for number in range(count)]


def test_late_lines_are_written(tmp_path: Path) -> None:
    with started() as server, network.raw(zmq.PUSH, server.pull_endpoint) as socket:
        server.set_logfile(tmp_path / "log", "w")
        for number in (2, 1, 0, 3):
            log = pb.Log(stream=5, number=number, text=str(number))
            if number == 1:
                eventually(lambda: messages(tmp_path / "log") == ["2"])
            socket.send(encode(1, log=log))
        eventually(lambda: sorted(messages(tmp_path / "log")) == ["0", "1", "2", "3"])


def test_lines_through_several_workers_are_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A worker may be kept from its work for longer than a line waits for those before it.
    monkeypatch.setattr("cogrs.replay.serving.log_file._PERIOD", 6 * SLACK)
    with started() as server:
        ends = [server.pull_endpoint]
        for _ in range(2):
            server.start()
            ends.append(server.pull_endpoint)
        server.set_logfile(tmp_path / "log", "w")
        at = (server.pub_endpoint, server.rep_endpoint, ends)
        clients = [network.ReplayMemoryClient(*at, input_uuid=uuid, max_step=4) for uuid in (1, 2)]
        for number in range(300):
            for client in clients:
                client.write_log(str(number))
        eventually(lambda: server.stats().log_lines == 600)
        for client in clients:
            client.close()
    for client in clients:
        own = [line for line in lines(tmp_path / "log") if f",{client.uuid:08x}," in line]
        assert [line.rpartition(",")[2] for line in own] == [str(number) for number in range(300)]


def test_lines_from_several_threads_are_all_there(tmp_path: Path) -> None:
    with pair() as (server, client):
        server.set_logfile(tmp_path / "log", "w")

        def writes(thread: int) -> None:
            for number in range(50):
                client.write_log(f"{thread} {number}")

        for call in [Call(lambda thread=thread: writes(thread)) for thread in range(4)]:
            call.result()
        take_in(server, client)
    for thread in range(4):
        own = [each for each in messages(tmp_path / "log") if each.startswith(f"{thread} ")]
        assert own == [f"{thread} {number}" for number in range(50)]


def test_lines_of_a_second_client_with_the_same_uuid_are_written(tmp_path: Path) -> None:
    with started() as server:
        server.set_logfile(tmp_path / "log", "w")
        for _ in range(3):
            with connected(server, input_uuid=5) as client:
                client.write_log("first")
                client.write_log("second")
                take_in(server, client)
    assert messages(tmp_path / "log") == ["first", "second"] * 3


def test_many_threads_write_whole_lines(tmp_path: Path) -> None:
    with open_log(tmp_path / "log") as book:
        barrier = threading.Barrier(4)

        def adds(stream: int) -> None:
            barrier.wait(SLACK)
            for number in range(200):
                book.add(stream, stream, number, f"{stream} {number}")
                book.tick()

        for call in [Call(lambda stream=stream: adds(stream)) for stream in range(4)]:
            call.result()
    assert len(messages(tmp_path / "log")) == 800


def test_early_lines_wait_only_while_there_are_few(tmp_path: Path) -> None:
    text = "x" * (1 << 20)
    with open_log(tmp_path / "log") as book:
        for number in range(1, 40):  # the first one never comes
            book.add(1, 7, number, text)
        # Before it is time to look after them.
        assert (tmp_path / "log").stat().st_size >= 30 << 20
    assert len(messages(tmp_path / "log")) == 39


def test_repeated_log_line_is_written_once(tmp_path: Path) -> None:
    text = "x" * (1 << 20)
    with open_log(tmp_path / "log") as book:
        for _ in range(40):
            book.add(1, 7, 1, text)
        assert (tmp_path / "log").stat().st_size == 0
        book.add(1, 7, 0, "first")
    assert [message[:5] for message in messages(tmp_path / "log")] == ["first", "xxxxx"]


def test_streams_without_end_are_forgotten(tmp_path: Path) -> None:
    with open_log(tmp_path / "log") as book:
        for _ in range(2):
            for stream in range(20_000):
                book.add(1, stream, 5, "early")
            book._due = 0.0
            book.tick()
        book.add(1, 1, 0, "line")
        assert len(book._next) <= 10_000
    assert len(messages(tmp_path / "log")) == 40_001
