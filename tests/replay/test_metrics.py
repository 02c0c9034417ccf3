"""A server's figures as Prometheus reads them."""

import gc
import subprocess
import sys
import weakref

import pytest
import zmq
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from cogrs import RateLimiter, ReplayMemoryServer
from cogrs.replay.metrics import Metrics
from tests.replay import build, network
from tests.replay.network import arrived, connected, eventually, full_pair, made

CLIENT = "cogrs_replay_client_caches_received_total"


def exposed(registry: CollectorRegistry) -> dict[str, dict[str, float]]:
    """Values by name and label, of which there is one at most, as a scrape finds them."""
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            (label,) = sample.labels.values() or ("",)
            found.setdefault(sample.name, {})[label] = sample.value
    return found


def measured(server: ReplayMemoryServer) -> dict[str, dict[str, float]]:
    registry = CollectorRegistry()
    Metrics(server).register(registry)
    return exposed(registry)


def test_metrics_agree_with_stats() -> None:
    with full_pair(2, cache_size=4) as (server, client):
        for _ in range(3):
            client.push_cache()
        client.update_counter()
        client.write_log("line")
        server.pub_bytes("t", "m")
        arrived(server, 3)
        server.get_batch(5)
        with network.raw(zmq.PUSH, server.pull_endpoint) as socket:
            socket.send(b"garbage")
            eventually(lambda: server.total_refused == 1)
        eventually(lambda: server.stats().log_lines == 1)
        stats, found = server.stats(), measured(server)
        uuid = f"{client.uuid:08x}"
    ages = {
        name: found.pop(f"cogrs_replay_{name}_cache_age_seconds") for name in ("oldest", "newest")
    }
    assert ages["oldest"][""] >= ages["newest"][""] > 0
    assert found.pop("cogrs_replay_messages_refused_total") == dict(stats.refused)
    expected = {
        "caches_received_total": 3,
        "samples_received_total": 12,
        "received_bytes_total": stats.received.bytes,
        "samples_given_total": 5,
        "samples_discarded_total": 4,
        "episodes_total": 1,
        "steps_total": 20,
        "messages_published_total": 1,
        "publications_dropped_total": 0,
        "log_lines_total": 1,
        "caches": 2,
        "caches_limit": 2,
        "samples_unused": 3,
        "weight_sum": stats.weight_sum,
    }
    by_client = {
        "client_caches_received_total": 3,
        "client_samples_received_total": 12,
        "client_received_bytes_total": stats.received.bytes,
    }
    assert found == {
        **{f"cogrs_replay_{name}": {"": value} for name, value in expected.items()},
        **{f"cogrs_replay_{name}": {uuid: at, "other": 0} for name, at in by_client.items()},
    }


def test_exposition_names_types_and_units() -> None:
    registry = CollectorRegistry()
    with made() as server:
        Metrics(server).register(registry)
        text = generate_latest(registry).decode()
    assert "# TYPE cogrs_replay_caches_received_total counter\n" in text
    assert "# TYPE cogrs_replay_received_bytes_total counter\n" in text
    assert "# TYPE cogrs_replay_oldest_cache_age_seconds gauge\n" in text
    assert "# HELP cogrs_replay_samples_unused Samples held, not given yet.\n" in text


def test_ages_are_omitted_when_no_cache_is_held() -> None:
    with made(3) as server:
        found = measured(server)
    assert not any("cache_age" in name for name in found)
    assert found["cogrs_replay_caches"] == {"": 0}
    assert found[CLIENT] == {"other": 0}


def test_label_of_clients_is_bounded() -> None:
    with full_pair(1, cache_size=1) as (server, client):
        with network.raw(zmq.PUSH, server.pull_endpoint) as socket:
            for sender in range(1_030):
                socket.send_multipart(network.cache_message(client, sender=sender))
            arrived(server, 1_030)
        found = measured(server)
    assert (len(found[CLIENT]), found[CLIENT]["other"]) == (1_025, 6)
    assert sum(found[CLIENT].values()) == 1_030


def test_figures_are_taken_at_each_scrape() -> None:
    registry = CollectorRegistry()
    with full_pair(1) as (server, client):
        Metrics(server).register(registry)
        for count in (1, 2):
            client.push_cache()
            arrived(server, count)
            assert exposed(registry)["cogrs_replay_caches_received_total"] == {"": count}


def test_registering_takes_no_figures_and_a_second_server_is_refused() -> None:
    registry = CollectorRegistry()
    with made() as server, made() as other:
        metrics = Metrics(server).register(registry)
        with pytest.raises(ValueError, match="Duplicated"):
            Metrics(other).register(registry)
        metrics.unregister()
        metrics.unregister()
        assert exposed(registry) == {}
        Metrics(other).register(registry)
        assert exposed(registry)


def test_registry_by_default_is_that_of_the_library() -> None:
    with made() as server:
        metrics = Metrics(server).register()
        try:
            assert b"\ncogrs_replay_caches 0.0\n" in generate_latest(REGISTRY)
        finally:
            metrics.unregister()
        assert b"cogrs_replay_caches" not in generate_latest(REGISTRY)


def test_metrics_do_not_keep_a_server() -> None:
    registry, server = CollectorRegistry(), made()
    Metrics(server).register(registry)
    gone = weakref.ref(server)
    del server
    gc.collect()
    assert gone() is None
    assert exposed(registry) == {}


def test_closed_server_keeps_its_figures() -> None:
    with full_pair(1) as (server, client):
        client.push_cache()
        arrived(server, 1)
    assert measured(server)["cogrs_replay_caches_received_total"] == {"": 1}


def test_missing_library_is_named_with_the_package_to_install() -> None:
    code = """
import sys
sys.modules["prometheus_client"] = None
import cogrs.replay.server
try:
    import cogrs.replay.metrics
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'cogrs[metrics]'" in done.stdout


def test_server_does_not_import_prometheus_client() -> None:
    code = (
        "import sys, cogrs; cogrs.ReplayMemoryServer; sys.exit('prometheus_client' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_scrape_over_http() -> None:
    from urllib.request import urlopen

    from prometheus_client import start_http_server

    registry = CollectorRegistry()
    with full_pair(1) as (server, client), connected(server) as other:
        build.add_uniform(other.rem, 20)
        client.push_cache()
        other.push_cache()
        arrived(server, 2)
        Metrics(server).register(registry)
        httpd, thread = start_http_server(0, "127.0.0.1", registry)
        try:
            with urlopen(f"http://127.0.0.1:{httpd.server_port}/metrics") as answer:
                text = answer.read().decode()
        finally:
            httpd.shutdown()
            httpd.server_close()
            thread.join()
    assert "\ncogrs_replay_caches_received_total 2.0\n" in text
    assert f'{CLIENT}{{client="{client.uuid:08x}"}} 1.0\n' in text


def test_metrics_of_a_rate_limiter_agree_with_its_stats() -> None:
    limiter = RateLimiter(2.0, 10, 40.0)
    with full_pair(1, reuse_cache=True, limiter=limiter) as (server, client):
        client.update_counter()
        client.push_cache()
        server.get_batch(30, wait=network.SLACK)
        with pytest.raises(TimeoutError):
            server.get_batch(40, wait=0.01)
        stats, found = server.stats().limiter, measured(server)
    prefix = "cogrs_replay_limiter_"
    assert {name: value[""] for name, value in found.items() if name.startswith(prefix)} == {
        f"{prefix}inserts_total": 20,
        f"{prefix}samples_total": 30,
        f"{prefix}removed_total": 0,
        f"{prefix}sample_wait_seconds_total": stats.sample_wait_seconds,
        f"{prefix}insert_wait_seconds_total": 0,
        f"{prefix}samples_per_insert": 1.5,
    }
    assert stats.sample_wait_seconds > 0
