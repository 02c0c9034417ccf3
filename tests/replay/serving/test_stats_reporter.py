"""The rates that a server logs now and then."""

import gc
import logging
import math
import re
import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cogrs.replay import ServerStats, Tally
from cogrs.replay.serving import stats_reporter
from cogrs.replay.serving.stats_reporter import StatsReporter
from tests.replay import network
from tests.replay.network import arrived, eventually, full_pair, made, started

NAME = "cogrs.replay.server"


def figures(taken_at: float = 0.0, **changes: Any) -> ServerStats:
    values = dict.fromkeys(ServerStats.__dataclass_fields__, 0)
    tables = {"received": Tally(0, 0, 0), "clients": {}, "refused": {}}
    return ServerStats(**values | tables | {"taken_at": taken_at} | changes)


class Clock:
    """Time that passes when a test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(stats_reporter, "time", SimpleNamespace(monotonic=lambda: self.now))
        self.asked = 0

    def stats(self) -> ServerStats:
        self.asked += 1
        return figures(self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_line_has_rates_between_two_moments() -> None:
    before = figures(
        10.0,
        received=Tally(100, 1_000, 5_000_000),
        clients={1: Tally(50, 500, 10), 2: Tally(50, 500, 10)},
        samples_given=7,
        refused={"kind": 2, "cache": 1},
    )
    now = figures(
        14.0,
        received=Tally(150, 21_000, 15_000_000),
        clients={2: Tally(50, 500, 10), 1: Tally(90, 20_490, 99), 3: Tally(10, 10, 10)},
        samples_given=8_007,
        refused={"kind": 2, "cache": 5},
        caches=16,
        n_caches=20,
    )
    assert stats_reporter.line(before, now) == (
        "12.5 caches/s, 2.50 MB/s, 5,000 samples/s received, 2,000 samples/s given, 2 clients, "
        "4 refused in 4.0 s; 16 of 20 caches held"
    )


def test_line_comes_once_a_period(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, NAME)
    each = StatsReporter(10.0)
    for second in range(35):
        clock.now = 100.0 + second
        each.tick(clock.stats)
        each.tick(clock.stats)
    assert [record.getMessage().count("in 10.0 s") for record in caplog.records] == [1, 1, 1]
    assert clock.asked == 4
    assert {(record.name, record.levelname) for record in caplog.records} == {(NAME, "INFO")}


def test_stats_are_not_taken_while_the_logger_is_off(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, NAME)
    each = StatsReporter(10.0)
    for _ in range(50):
        clock.now += 1
        each.tick(clock.stats)
    assert (clock.asked, caplog.records) == (0, [])
    # Rates begin when somebody listens.
    caplog.set_level(logging.INFO, NAME)
    for _ in range(15):
        clock.now += 1
        each.tick(clock.stats)
    (record,) = caplog.records
    assert "in 10.0 s" in record.getMessage()


def test_reporter_without_an_interval_logs_nothing(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, NAME)
    each = StatsReporter(None)
    for _ in range(50):
        clock.now += 1000
        each.tick(clock.stats)
    assert (clock.asked, caplog.records) == (0, [])


def test_two_workers_log_one_line_per_interval(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, NAME)
    each = StatsReporter(10.0)

    def other_worker_comes() -> ServerStats:
        each.tick(clock.stats)
        return clock.stats()

    for _ in range(2):
        each.tick(other_worker_comes)
        clock.now += 10
    assert (len(caplog.records), clock.asked) == (1, 2)


@pytest.mark.parametrize("value", [0, -1, -0.5, math.nan])
def test_period_out_of_range(value: float) -> None:
    with pytest.raises(ValueError, match=r"^log_seconds: expected seconds > 0 or None"):
        made(log_seconds=value)


@pytest.mark.parametrize("value", [10**400, 10**5000], ids=["large", "larger"])
def test_period_that_no_float_holds(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^log_seconds: .*got an integer of \d+ bits"):
        made(log_seconds=value)


@pytest.mark.parametrize("value", ["1", True, [1], np.array([1.0, 2.0])], ids=repr)
def test_log_seconds_of_another_type_is_a_type_error(value: Any) -> None:
    with pytest.raises(TypeError, match=r"^log_seconds: expected seconds > 0 or None"):
        made(log_seconds=value)


def test_server_logs_rates_of_arrivals(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, NAME)
    with full_pair(2, log_seconds=0.05) as (server, client):
        # One of the lines after this has a cache in it.
        eventually(lambda: caplog.records or client.push_cache())
        client.push_cache()
        arrived(server, 1)
        eventually(lambda: any(", 1 clients, " in text for text in caplog.messages))
    shape = (
        r"[\d,.]+ caches/s, [\d,.]+ MB/s, [\d,]+ samples/s received, [\d,]+ samples/s given, "
        r"\d clients, 0 refused in [\d.]+ s; \d of 2 caches held"
    )
    assert all(re.fullmatch(shape, text) for text in caplog.messages)
    count = len(caplog.records)
    server.stats()
    assert len(caplog.records) == count


def test_lines_need_no_thread(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, NAME)
    before = network.our_threads()
    with started(log_seconds=None):
        silent = len(network.our_threads() - before)
    eventually(lambda: network.our_threads() <= before)
    with started(log_seconds=0.05):
        eventually(lambda: caplog.records)
        assert len(network.our_threads() - before) == silent


def test_forgotten_server_that_logs_ends(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, NAME)
    before = network.our_threads()
    server = started(log_seconds=0.05)
    eventually(lambda: caplog.records)
    gone, state = weakref.ref(server), weakref.ref(server._state)
    gc.disable()
    try:
        del server
        # What holds the caches is in no cycle: it goes without the garbage collector.
        eventually(lambda: network.our_threads() <= before and state() is None)
    finally:
        gc.enable()
    assert gone() is None


SILENT = """
import sys
from tests.replay import build, network

with network.started(1, log_seconds=0.01) as server, network.connected(server) as client:
    build.add_uniform(client.rem, 5)
    for number in range(200):
        client.push_cache()
    network.arrived(server, 200)
"""

LOUD = """
import logging

logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
seen = []
logging.getLogger("cogrs.replay.server").addFilter(lambda record: seen.append(record) or True)
"""


def test_nothing_is_printed_unless_logging_is_configured() -> None:
    done = network.run(SILENT)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


def test_configured_logging_prints_lines() -> None:
    done = network.run(LOUD + SILENT + "    network.eventually(lambda: seen)\n")
    assert done.returncode == 0
    lines = done.stderr.splitlines()
    assert lines
    assert all(text.startswith(f"{NAME} ") for text in lines)
