"""An orchestrator's figures: what is counted, and how Prometheus reads it."""

from __future__ import annotations

import json
import logging
import sys
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

import cogrs
from cogrs.orchestrator import ActorOptions, JsonFormatter, OrchestratorStats, Settings, serve
from cogrs.orchestrator.engine.metrics import TICK_BOUNDS, TrialMetrics
from cogrs.orchestrator.metrics import Metrics, serve_metrics
from tests.orchestrator.net import Net, on_loop
from tests.orchestrator.world import World

if TYPE_CHECKING:
    from collections.abc import Mapping


def exposed(metrics: Metrics) -> dict[tuple[str, str], float]:
    """Values by name and label, of which there is one at most, as a scrape finds them."""
    registry = CollectorRegistry()
    metrics.register(registry)
    try:
        found = {}
        for family in text_string_to_metric_families(generate_latest(registry).decode()):
            for sample in family.samples:
                (label,) = sample.labels.values() or ("",)
                found[sample.name, label] = sample.value
        return found
    finally:
        metrics.unregister()


@on_loop
async def test_metrics_equal_the_statistics() -> None:
    async with Net(agents=1, log=True) as net:
        trial_id = await net.start()
        await net.end_of(trial_id)
        await net.log.over.get()
        stats, found = net.orchestrator.stats(), exposed(Metrics(net.orchestrator))
    assert (stats.started, stats.concluded, stats.cut, stats.ticks) == (1, 1, 0, 4)
    assert stats.trials["ENDED"] == 1
    assert sum(stats.tick_buckets) == 4
    assert stats.tick_seconds > 0
    assert (stats.log_waiting, stats.log_waiting_bytes, stats.log_lost) == (0, 0, 0)
    for state, count in stats.trials.items():
        assert found["cogrs_trials", state] == count
    assert found["cogrs_trials_started_total", ""] == 1
    assert found["cogrs_trials_ended_total", "concluded"] == 1
    assert found["cogrs_trials_ended_total", "cut"] == 0
    assert found["cogrs_trials_tick_seconds_bucket", "+Inf"] == 4
    assert found["cogrs_trials_tick_seconds_count", ""] == 4
    assert found["cogrs_trials_tick_seconds_sum", ""] == stats.tick_seconds
    assert found["cogrs_trials_log_lost_total", ""] == 0


def awaited(world: World) -> Mapping[str, int]:
    from collections import Counter

    return Counter(world.trial.awaited())


def test_awaited_parties_are_counted() -> None:
    world = World(agents=2, clients=1)
    assert awaited(world) == {"environment": 1, "agent": 2, "player": 1}
    client = world.client()
    assert awaited(world) == {"environment": 1, "agent": 2}
    world.run()
    assert awaited(world) == {"agent": 2, "player": 1}
    client.read()
    client.act()
    world.act(a0=b"x")
    assert awaited(world) == {"agent": 1}
    world.act(a1=b"x")
    assert awaited(world) == {"environment": 1}
    world.orchestrator.terminate(world.trial.id)
    world.step(1)
    assert awaited(world) == {"environment": 1}
    world.environment.events.ended(world.end_reply())
    assert awaited(world) == {"agent": 2, "player": 1}
    client.read()
    for agent in world.agents:
        agent.events.ended()
    assert awaited(world) == {}


def test_tick_durations_follow_the_clock() -> None:
    world = World(agents=1, class_options={"agent": ActorOptions()}).run()
    for number, seconds in ((1, 0.2), (2, 7.0), (3, 1000.0)):
        world.act()
        world.clock.advance(seconds)
        world.step(number)
    metrics = world.orchestrator.metrics
    assert metrics.tick_seconds == pytest.approx(1007.2)
    within = dict(zip(TICK_BOUNDS, metrics.tick_buckets, strict=False))
    assert {bound for bound, count in within.items() if count} == {0.25, 10.0}
    assert metrics.tick_buckets[-1] == 1


@pytest.mark.parametrize(("seconds", "bucket"), [(0.0, 0), (0.0001, 0), (60.0, -2), (60.1, -1)])
def test_duration_equal_to_a_bound_is_in_its_bucket(seconds: float, bucket: int) -> None:
    metrics = TrialMetrics()
    metrics.add_tick(seconds)
    assert metrics.tick_buckets[bucket] == 1


def test_ends_and_drops_are_counted_over_all_trials() -> None:
    world = World(agents=1).run()
    world.act()
    world.act()
    world.orchestrator.terminate(world.trial.id)
    world.step(1)
    world.drain()
    assert (world.orchestrator.metrics.concluded, world.orchestrator.metrics.cut) == (0, 1)
    world.start()
    world.run()
    world.act()
    world.step(1, final_update=True)
    world.drain()
    metrics = world.orchestrator.metrics
    assert (metrics.started, metrics.concluded, metrics.cut) == (2, 1, 1)
    assert metrics.dropped == {"extra actions": 1}


@on_loop
async def test_waiting_and_lost_samples_are_counted() -> None:
    net = Net(agents=1, log=True, settings=Settings(log_backlog=3, call_timeout=0.2))

    async def never(_context: Any) -> None:
        import asyncio

        await asyncio.sleep(30)

    net.log.trouble = never
    async with net:
        net.environment.step = _large(net.environment.step)  # type: ignore[method-assign]
        trial_id = await net.start()
        await net.end_of(trial_id)
        stats = net.orchestrator.stats()
        assert stats.log_waiting + stats.log_lost > 0
        await net.orchestrator.stop(0)
        after = net.orchestrator.stats()
        assert after.log_waiting in (0, stats.log_waiting)
        assert after.log_waiting_bytes >= 0


def _large(step: Any) -> Any:
    async def larger(trial_id: str, number: int, request: Any) -> Any:
        reply = await step(trial_id, number, request)
        reply.observation_set.observations[0].content = bytes(1 << 20)
        return reply

    return larger


def test_stats_of_a_stopped_orchestrator_are_the_last() -> None:
    with cogrs.serve_orchestrator(port=0) as handle:
        assert handle.stats().started == 0
        assert exposed(Metrics(handle))["cogrs_trials", "RUNNING"] == 0
    assert handle.stats().started == 0


def test_metrics_do_not_keep_an_orchestrator_alive() -> None:
    import gc

    handle = cogrs.serve_orchestrator(port=0)
    metrics = Metrics(handle)
    handle.stop()
    del handle
    gc.collect()
    assert exposed(metrics) == {}


@on_loop
async def test_taken_port_for_metrics_is_an_error() -> None:
    async with await serve(port=0) as running:
        metrics = Metrics(running)
        with (
            pytest.raises(OSError, match="metrics: cannot listen at 127"),
            serve_metrics(metrics, "127.0.0.1", running.port),
        ):
            pass


@pytest.mark.parametrize("trial", [None, "t1"])
def test_json_formatter_writes_an_object_per_record(trial: str | None) -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError:
        information = sys.exc_info()
    record = logging.LogRecord("n", logging.WARNING, "f", 1, "%s\n", ("x",), information)
    if trial:
        record.trial_id = trial
    line = JsonFormatter().format(record)
    assert len(line.splitlines()) == 1
    told = json.loads(line)
    assert (told["level"], told["logger"], told["message"]) == ("warning", "n", "x\n")
    assert told.get("trial_id") == trial
    assert "ValueError: two" in told["exception"]
    assert told["time"].endswith("+00:00")


def test_records_about_a_trial_have_its_id(caplog: Any) -> None:
    with caplog.at_level(logging.INFO, "cogrs.orchestrator"):
        world = World(agents=1).run()
        world.act()
        world.act()
        world.step(1, observation_set=world.observations(1, actors_map=[9]))
        world.drain()
    assert len(caplog.records) >= 2
    assert {record.trial_id for record in caplog.records} == {world.trial.id}


def test_labels_of_actor_classes_are_escaped() -> None:
    counts: dict[str, Any] = dict.fromkeys(OrchestratorStats.__dataclass_fields__, 0)
    maps: dict[str, Any] = {"trials": {}, "dropped": {}}
    awaited = {"\x1b[2J\nforged\u202e": 1}
    buckets = (0,) * (len(TICK_BOUNDS) + 1)
    stats = OrchestratorStats(**counts | maps | {"awaited": awaited, "tick_buckets": buckets})

    class Stopped:
        def stats(self) -> OrchestratorStats:
            return stats

    server = Stopped()
    (label,) = (name for family, name in exposed(Metrics(server)) if family.endswith("awaited"))
    assert label == r"\x1b[2J\nforged\u202e"
