"""The log file of a server."""

import contextlib
import os
import re
import tempfile
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st

from cogrs import ReplayMemoryClient, ReplayMemoryServer
from cogrs.api import replay_pb2 as pb
from cogrs.replay.serving.log_file import LogFile
from cogrs.replay.wire import encode
from tests.replay import build, network
from tests.replay.network import SLACK, Call, arrived, connected, eventually, pair, started

LINE = re.compile(r"(?P<time>[^,]+),(?P<uuid>[0-9a-f]{8}),(?P<message>.*)")
FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")


def lines(path: Path) -> list[str]:
    """The lines of a file, each whole."""
    text = path.read_text(encoding="utf-8")
    assert not text or text.endswith("\n")
    return text.split("\n")[:-1]


def take_in(server: ReplayMemoryServer, client: ReplayMemoryClient) -> None:
    """Wait until the server has all lines of a client: a cache goes the same way behind them."""
    if not client.rem.num_sampleable:
        build.add_uniform(client.rem, 5)
    before = server.total_caches
    client.push_cache()
    arrived(server, before + 1)


def messages(path: Path) -> list[str]:
    return [LINE.fullmatch(line)["message"] for line in lines(path)]


@contextlib.contextmanager
def logbook(path: Path, mode: str = "w") -> Iterator[LogFile]:
    book = LogFile()
    book.open(path, mode)
    try:
        yield book
    finally:
        book.close()


# -- format --


def test_line_has_time_uuid_and_message(tmp_path: Path) -> None:
    before = datetime.now().astimezone()
    with started() as server:
        server.set_logfile(tmp_path / "log", "w")
        with connected(server, input_uuid=0xABC) as client:
            client.write_log("hello, world")
            take_in(server, client)
    (line,) = lines(tmp_path / "log")
    found = LINE.fullmatch(line)
    assert (found["uuid"], found["message"]) == ("00000abc", "hello, world")
    written = datetime.fromisoformat(found["time"])
    assert before <= written <= before + timedelta(minutes=2)


@pytest.mark.parametrize(
    ("message", "written"),
    [
        ("", ""),
        ("a\nb", r"a\nb"),
        ("a\r\nb\n", r"a\r\nb\n"),
        ("ä€😀", "ä€😀"),
        ("a,b,c", "a,b,c"),
        ("\0\t\x1b[31m\x85\u202e", r"\x00\t\x1b[31m\x85\u202e"),
        ("\u2028\x85\x0b\x0c", r"\u2028\x85\x0b\x0c"),
        ("%s%d{}", "%s%d{}"),
        ("x" * 1_000_000, "x" * 1_000_000),
    ],
    ids=lambda text: repr(text[:10]),
)
def test_message_takes_one_line(message: str, written: str, tmp_path: Path) -> None:
    with pair() as (server, client):
        server.set_logfile(tmp_path / "log", "w")
        client.write_log(message)
        client.write_log("end")
        take_in(server, client)
    assert messages(tmp_path / "log") == [written, "end"]


@pytest.mark.parametrize("message", [None, 1, b"bytes", ["line"]], ids=repr)
def test_message_of_a_wrong_type_is_refused(message: Any) -> None:
    with pair() as (_, client), pytest.raises(TypeError, match=r"^log_message: expected str"):
        client.write_log(message)


@pytest.mark.parametrize("message", ["x" * (1 << 20), "ä" * (1 << 19)], ids=len)
def test_message_that_is_too_long_is_refused(message: str) -> None:
    with pair() as (_, client), pytest.raises(ValueError, match=r"^log_message: expected at most"):
        client.write_log(message)


@pytest.mark.parametrize("letter", ["x", "ä", "\n"])
def test_limit_that_the_error_names_is_the_one_that_holds(letter: str, tmp_path: Path) -> None:
    with pair() as (server, client):
        server.set_logfile(tmp_path / "log", "w")
        with pytest.raises(
            ValueError, match=r"at most 1,000,000 bytes as UTF-8, got 2,000,00"
        ) as refused:
            client.write_log(letter * (2_000_001 // len(letter.encode())))
        limit = int(str(refused.value).split("at most ")[1].split()[0].replace(",", ""))
        longest = letter * (limit // len(letter.encode()))
        with pytest.raises(ValueError, match=f"at most {limit:,} bytes .*got {limit + 1:,}"):
            client.write_log(longest + "x")
        client.write_log(longest)
        client.write_log("end")
        take_in(server, client)
    assert messages(tmp_path / "log") == [longest.replace("\n", "\\n"), "end"]


def test_message_that_is_no_text_is_refused_by_name() -> None:
    with pair() as (_, client), pytest.raises(ValueError, match="log_message"):
        client.write_log("\ud800")


# -- files and modes --


def test_logfile_is_none_and_then_its_path(tmp_path: Path) -> None:
    with started() as server:
        assert server.logfile is None
        server.set_logfile(tmp_path / "log", "w")
        assert server.logfile == str(tmp_path / "log")
        server.set_logfile(str(tmp_path / "other"), "w")
        assert server.logfile == str(tmp_path / "other")


def test_modes_write_append_or_create(tmp_path: Path) -> None:
    path = tmp_path / "log"
    modes = ("x", 1), ("a", 2), ("w", 1), ("a+", 2), ("w+", 1)
    binary = ("ab", 2), ("ab+", 3), ("a+b", 4), ("wb", 1), ("wb+", 1), ("w+b", 1)
    for mode, expected in (*modes, *binary):
        with logbook(path, mode) as book:
            book.add(0, 0, 0, mode)
        assert len(lines(path)) == expected
        assert messages(path)[-1] == mode


def test_file_that_is_there_is_not_created(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("mine\n")
    with started() as server, pytest.raises(FileExistsError):
        server.set_logfile(tmp_path / "log", "x")
    assert lines(tmp_path / "log") == ["mine"]


@pytest.mark.parametrize("path", [5, None, ["log"]], ids=repr)
def test_what_is_no_path_is_refused_by_name(path: Any) -> None:
    with (
        network.made() as server,
        pytest.raises(TypeError, match=r"^logfile_path: expected a path"),
    ):
        server.set_logfile(path, "w")


def test_a_path_may_be_bytes(tmp_path: Path) -> None:
    with network.made() as server:
        server.set_logfile(os.fsencode(tmp_path / "log"), "w")
        assert server.logfile == str(tmp_path / "log")


@pytest.mark.parametrize("mode", ["r+", "rb+", "r+b"])
def test_mode_that_reads_and_writes_needs_a_file_and_begins_at_its_start(
    mode: str, tmp_path: Path
) -> None:
    with started() as server:
        with pytest.raises(FileNotFoundError):
            server.set_logfile(tmp_path / "log", mode)
        assert server.logfile is None
    (tmp_path / "log").write_text("." * 1_000 + "\n")
    with logbook(tmp_path / "log", mode) as book:
        book.add(0, 0, 0, "line")
    written = (tmp_path / "log").read_text()
    assert len(written) == 1_001
    first, rest = written.split("\n", 1)
    assert first.endswith(",00000000,line")
    assert set(rest) == {".", "\n"}


@pytest.mark.parametrize("mode", ["x", "x+", "xb", "xb+", "x+b", "w", "wb", "ab", "a+b"])
def test_mode_that_creates_a_file_does_so(mode: str, tmp_path: Path) -> None:
    with pair() as (server, client):
        server.set_logfile(tmp_path / "log", mode)
        client.write_log("line ä")
        take_in(server, client)
    assert messages(tmp_path / "log") == ["line ä"]


NO_MODES = ["r", "rb", "br+", "bw", "wbb", "w++", "wt", "rw", "wa", "+w", "b", "+", "", "W", "w "]


@pytest.mark.parametrize("mode", [*NO_MODES, None, 1, b"w", ["w"]], ids=repr)
def test_other_modes_are_refused_and_the_file_stays(mode: Any, tmp_path: Path) -> None:
    (tmp_path / "log").write_text("mine\n")
    with started() as server:
        with pytest.raises(ValueError, match=r"^mode"):
            server.set_logfile(tmp_path / "log", mode)
        assert server.logfile is None
    assert lines(tmp_path / "log") == ["mine"]


def test_file_that_cannot_be_opened_leaves_the_old_one(tmp_path: Path) -> None:
    with pair() as (server, client):
        server.set_logfile(tmp_path / "log", "w")
        for bad in (tmp_path, tmp_path / "no" / "such"):
            with pytest.raises(OSError, match=str(bad)):
                server.set_logfile(bad, "w")
        assert server.logfile == str(tmp_path / "log")
        client.write_log("line")
        take_in(server, client)
    assert messages(tmp_path / "log") == ["line"]


def test_second_file_takes_the_lines_from_then_on(tmp_path: Path) -> None:
    with pair() as (server, client):
        server.set_logfile(tmp_path / "one", "w")
        client.write_log("1")
        take_in(server, client)
        server.set_logfile(tmp_path / "two", "w")
        client.write_log("2")
        take_in(server, client)
    assert (messages(tmp_path / "one"), messages(tmp_path / "two")) == (["1"], ["2"])


def test_old_file_is_whole_when_there_is_a_second(tmp_path: Path) -> None:
    with logbook(tmp_path / "one") as book:
        for number in range(100):
            book.add(0, 0, number, str(number))
        book.open(tmp_path / "two", "w")
        assert len(lines(tmp_path / "one")) == 100


def test_lines_without_a_file_are_dropped(tmp_path: Path) -> None:
    with pair() as (server, client):
        client.write_log("lost")
        take_in(server, client)
        server.set_logfile(tmp_path / "log", "w")
        client.write_log("kept")
        take_in(server, client)
        assert server.total_refused == 0
    assert messages(tmp_path / "log") == ["kept"]


def test_close_writes_what_is_buffered(tmp_path: Path) -> None:
    with pair() as (server, client):
        server.set_logfile(tmp_path / "log", "w")
        for number in range(50):
            client.write_log(str(number))
        take_in(server, client)
    assert messages(tmp_path / "log") == [str(number) for number in range(50)]


def test_lines_are_on_disk_soon_without_close(tmp_path: Path) -> None:
    with pair() as (server, client):
        server.set_logfile(tmp_path / "log", "w")
        client.write_log("line")
        eventually(lambda: messages(tmp_path / "log") == ["line"])


def test_file_can_be_set_while_lines_come_and_at_close(tmp_path: Path) -> None:
    for repetition in range(5):
        with pair() as (server, client):

            def sets(server: ReplayMemoryServer = server, repetition: int = repetition) -> None:
                while True:
                    server.set_logfile(tmp_path / f"log{repetition}", "a")

            setting = Call(sets)
            for number in range(20):
                client.write_log(str(number))
            server.close()
            with pytest.raises(RuntimeError, match="closed"):
                setting.result()


# -- full disks --


@needs_full
def test_full_disk_does_not_stop_a_worker(caplog: pytest.LogCaptureFixture) -> None:
    with pair() as (server, client):
        server.set_logfile(FULL, "w")
        for _ in range(20):
            client.write_log("x" * 10_000)
            take_in(server, client)
        eventually(lambda: "No space left" in caplog.text)
        assert caplog.text.count("No space left") == 1


@needs_full
def test_full_disk_does_not_stop_a_close() -> None:
    with pair() as (server, client):
        server.set_logfile(FULL, "w")
        client.write_log("line")
        take_in(server, client)


@needs_full
def test_full_disk_can_be_left_for_another_file(tmp_path: Path) -> None:
    with pair() as (server, client):
        server.set_logfile(FULL, "w")
        client.write_log("lost")
        take_in(server, client)
        server.set_logfile(tmp_path / "log", "w")
        client.write_log("kept")
        take_in(server, client)
    assert messages(tmp_path / "log") == ["kept"]


# -- order --


@given(st.permutations(range(12)))
def test_lines_come_in_their_order_whatever_arrives_first(order: list[int]) -> None:
    got = written(order)
    assert got == list(range(12))


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=20, unique=True))
def test_no_line_waits_for_ever_for_one_that_is_lost(numbers: list[int]) -> None:
    assert written(numbers) == sorted(numbers)


def written(numbers: list[int]) -> list[int]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log")
        with logbook(path) as book:
            for number in numbers:
                book.add(1, 7, number, str(number))
        return [int(message) for message in messages(path)]


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=30))
def test_clients_do_not_wait_for_each_other(calls: list[tuple[int, bool]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log")
        numbers = dict.fromkeys(range(4), 0)
        with logbook(path) as book:
            book.add(9, 99, 1, "waits")
            for client, _ in calls:
                book.add(client, client, numbers[client], f"{client} {numbers[client]}")
                numbers[client] += 1
        got = messages(path)
        assert got.pop() == "waits"
        for client, count in numbers.items():
            own = [message for message in got if message.startswith(f"{client} ")]
            assert own == [f"{client} {number}" for number in range(count)]


def test_late_lines_are_written_all_the_same(tmp_path: Path) -> None:
    with started() as server, network.raw(zmq.PUSH, server.pull_endpoint) as socket:
        server.set_logfile(tmp_path / "log", "w")
        for number in (2, 1, 0, 3):
            log = pb.Log(stream=5, number=number, text=str(number))
            if number == 1:
                eventually(lambda: messages(tmp_path / "log") == ["2"])
            socket.send(encode(1, log=log))
        eventually(lambda: sorted(messages(tmp_path / "log")) == ["0", "1", "2", "3"])


def test_lines_through_several_workers_are_in_order(tmp_path: Path) -> None:
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


def test_lines_of_a_client_made_anew_are_not_those_of_the_old_one(tmp_path: Path) -> None:
    with started() as server:
        server.set_logfile(tmp_path / "log", "w")
        for _ in range(3):
            with connected(server, input_uuid=5) as client:
                client.write_log("first")
                client.write_log("second")
                take_in(server, client)
    assert messages(tmp_path / "log") == ["first", "second"] * 3


def test_many_threads_write_whole_lines(tmp_path: Path) -> None:
    with logbook(tmp_path / "log") as book:
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
    with logbook(tmp_path / "log") as book:
        for number in range(1, 40):  # the first one never comes
            book.add(1, 7, number, text)
        # Before it is time to look after them.
        assert (tmp_path / "log").stat().st_size >= 30 << 20
    assert len(messages(tmp_path / "log")) == 39


def test_lines_that_come_again_and_again_are_one(tmp_path: Path) -> None:
    text = "x" * (1 << 20)
    with logbook(tmp_path / "log") as book:
        for _ in range(40):
            book.add(1, 7, 1, text)
        assert (tmp_path / "log").stat().st_size == 0
        book.add(1, 7, 0, "first")
    assert [message[:5] for message in messages(tmp_path / "log")] == ["first", "xxxxx"]


def test_streams_without_end_are_forgotten(tmp_path: Path) -> None:
    with logbook(tmp_path / "log") as book:
        for _ in range(2):
            for stream in range(20_000):
                book.add(1, stream, 5, "early")
            book._due = 0.0
            book.tick()
        book.add(1, 1, 0, "line")
        assert len(book._next) <= 10_000
    assert len(messages(tmp_path / "log")) == 40_001
