"""The log file of a server."""

import os
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cogrs import ReplayMemoryServer
from tests.replay import network
from tests.replay.log_lines import LINE, lines, messages, open_log, take_in
from tests.replay.network import Call, connected, eventually, pair, started

FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")


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
def test_limit_in_the_error_is_the_actual_one(letter: str, tmp_path: Path) -> None:
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


def test_log_message_that_utf8_cannot_encode_is_refused_by_name() -> None:
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
        with open_log(path, mode) as book:
            book.add(0, 0, 0, mode)
        assert len(lines(path)) == expected
        assert messages(path)[-1] == mode


def test_existing_file_is_not_created(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("mine\n")
    with started() as server, pytest.raises(FileExistsError):
        server.set_logfile(tmp_path / "log", "x")
    assert lines(tmp_path / "log") == ["mine"]


@pytest.mark.parametrize("path", [5, None, ["log"]], ids=repr)
def test_logfile_that_is_not_a_path_is_refused_by_name(path: Any) -> None:
    with (
        network.made() as server,
        pytest.raises(TypeError, match=r"^logfile_path: expected a path"),
    ):
        server.set_logfile(path, "w")


def test_path_of_the_log_file_may_be_bytes(tmp_path: Path) -> None:
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
    with open_log(tmp_path / "log", mode) as book:
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
    with open_log(tmp_path / "one") as book:
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


def test_close_writes_buffered_lines(tmp_path: Path) -> None:
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
