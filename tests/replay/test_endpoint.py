"""Endpoints, modes and counts that are valid, and those that are refused."""

import errno
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cogrs import ReplayMemoryClient
from cogrs.replay.endpoint import Bind, Conn, check_endpoint, check_mode
from cogrs.validation import check_count
from tests.replay import build, network

NO_ENDPOINTS = [
    "",
    "tcp",
    "tcp://",
    "tcp://127.0.0.1",
    "tcp://127.0.0.1:",
    "tcp://127.0.0.1:port",
    "tcp://127.0.0.1:-1",
    "tcp://127.0.0.1:65536",
    "tcp://127.0.0.1:99999",
    "tcp://127.0.0.1:5555/path",
    "tcp://:5555",
    "tcp:127.0.0.1:5555",
    "127.0.0.1:5555",
    "udp://127.0.0.1:5555",
    "http://127.0.0.1:5555",
    "ipc://",
    "inproc://name",
    "tcp://127.0.0.1:5555\n",
    " tcp://127.0.0.1:5555",
]


@pytest.mark.parametrize("mode", [Bind, Conn])
@pytest.mark.parametrize("endpoint", NO_ENDPOINTS, ids=repr)
def test_invalid_endpoint_is_refused_by_name(endpoint: str, mode: Any) -> None:
    with pytest.raises(ValueError, match=r"(?s)^there: expected 'tcp://HOST:PORT'") as refused:
        check_endpoint("there", endpoint, mode)
    assert repr(endpoint) in str(refused.value)


@pytest.mark.parametrize("endpoint", [None, 5555, b"tcp://127.0.0.1:5555", ["tcp://a:1"]])
def test_argument_other_than_a_string_is_a_type_error(endpoint: Any) -> None:
    with pytest.raises(
        TypeError, match=f"^there: expected an endpoint, .*{type(endpoint).__name__}"
    ):
        check_endpoint("there", endpoint, Bind)


@pytest.mark.parametrize(
    "endpoint", ["tcp://*:5555", "tcp://127.0.0.1:*", "tcp://127.0.0.1:0", "tcp://host:00"]
)
def test_wildcard_endpoint_cannot_be_connected_to(endpoint: str) -> None:
    assert check_endpoint("there", endpoint, Bind) == endpoint
    with pytest.raises(ValueError, match="there"):
        check_endpoint("there", endpoint, Conn)


@pytest.mark.parametrize(
    "endpoint", ["tcp://127.0.0.1:1", "tcp://some.host:65535", "tcp://[::1]:5555", "ipc:///tmp/x"]
)
@pytest.mark.parametrize("mode", [Bind, Conn])
def test_valid_endpoint_is_returned_unchanged(endpoint: str, mode: Any) -> None:
    assert check_endpoint("there", endpoint, mode) == endpoint


def test_inproc_is_refused_with_the_reason() -> None:
    with pytest.raises(ValueError, match="inproc reaches only"):
        check_endpoint("there", "inproc://x", Bind)


@pytest.mark.parametrize("mode", ["bind", "", "Connect", None, 0, b"Bind", ["Bind"]])
def test_other_modes_are_refused(mode: Any) -> None:
    with pytest.raises(ValueError, match=r"^mode: expected 'Bind' or 'Conn'"):
        check_mode(mode)


def test_modes_equal_their_names_as_strings() -> None:
    assert (check_mode("Bind"), check_mode("Conn")) == (Bind, Conn) == ("Bind", "Conn")


@pytest.mark.parametrize("count", [0, -1, -(2**70)])
def test_counts_below_one_are_refused(count: int) -> None:
    with pytest.raises(ValueError, match=r"^hwm: expected an integer >= 1"):
        check_count("hwm", count)


@pytest.mark.parametrize("count", [10**5000, -(10**5000)], ids=["large", "small"])
def test_count_too_long_to_print_is_refused_by_name(count: int) -> None:
    with pytest.raises(ValueError, match=r"^hwm: .*got an integer of \d+ bits$"):
        check_count("hwm", count)


@pytest.mark.parametrize("count", [True, 1.0, "1", None, np.array([1]), np.array([1, 2])], ids=repr)
def test_counts_of_another_type_are_refused(count: Any) -> None:
    with pytest.raises(TypeError, match=r"^hwm: expected an integer"):
        check_count("hwm", count)


def test_port_0_and_star_report_the_bound_port() -> None:
    with network.made(pub_endpoint="tcp://127.0.0.1:0").start("tcp://127.0.0.1:*") as server:
        ports = [int(endpoint.rpartition(":")[2]) for endpoint in network.endpoints(server)]
        assert len(set(ports)) == 3
        assert 0 not in ports


def test_taken_port_is_refused_with_a_word_about_proxies() -> None:
    with network.started() as server, network.made() as other:
        with pytest.raises(OSError, match="proxy") as refused:
            other.start(rep_endpoint=server.rep_endpoint)
        assert refused.value.errno == errno.EADDRINUSE
        assert server.rep_endpoint in str(refused.value)


def test_taken_publishing_port_is_refused() -> None:
    with (
        network.made() as server,
        pytest.raises(OSError, match=r"^.*pub_endpoint: cannot use") as refused,
    ):
        network.made(pub_endpoint=server.pub_endpoint)
    assert refused.value.errno == errno.EADDRINUSE


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-interface"])
def test_foreign_address_cannot_be_bound(host: str) -> None:
    with pytest.raises(OSError, match=f"pub_endpoint: cannot use tcp://{host}"):
        network.made(pub_endpoint=f"tcp://{host}:*", insecure=True)


def test_messages_caches_and_batches_pass_over_ipc(tmp_path: Path) -> None:
    at = [f"ipc://{tmp_path}/{name}" for name in ("pub", "rep", "pull")]
    with network.made(1, pub_endpoint=at[0]).start(*at[1:]) as server:
        assert list(network.endpoints(server)) == at
        server.pub_bytes("t", "message")
        with network.connected(server) as client:
            build.add_uniform(client.rem, 5)
            assert client.push_cache() == 0
            assert len(server.get_batch(3, wait=network.SLACK).weight) == 3
            assert client.sub_bytes("t", last=True, timeout=network.SLACK) == b"message"


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not _has_ipv6(), reason="needs a loopback of IPv6")
@pytest.mark.parametrize("push", ["tcp://[::1]:*", "tcp://127.0.0.1:*"])
def test_messages_caches_and_batches_pass_over_ipv6(push: str) -> None:
    at = "tcp://[::1]:*"
    with network.made(1, pub_endpoint=at).start(at, push) as server:
        assert all(each.startswith("tcp://[::1]:") for each in network.endpoints(server)[:2])
        server.pub_bytes("t", "message")
        with network.connected(server) as client:
            build.add_uniform(client.rem, 5)
            assert client.push_cache() == 0
            assert len(server.get_batch(3, wait=network.SLACK).weight) == 3
            assert client.sub_bytes("t", last=True, timeout=network.SLACK) == b"message"


def test_taken_ipc_path_is_refused(tmp_path: Path) -> None:
    at = f"ipc://{tmp_path}/pub"
    with (
        network.made(pub_endpoint=at),
        pytest.raises(OSError, match="pub_endpoint: ") as refused,
    ):
        network.made(pub_endpoint=at).close()
    assert refused.value.errno == errno.EADDRINUSE


def test_ipc_path_is_free_again_after_close(tmp_path: Path) -> None:
    at = f"ipc://{tmp_path}/pub"
    for _ in range(3):
        network.made(pub_endpoint=at).close()


@pytest.mark.parametrize("name", ["sub_endpoint", "req_endpoint", "push_endpoint"])
def test_client_names_an_invalid_endpoint(name: str) -> None:
    given = dict.fromkeys(("sub_endpoint", "req_endpoint", "push_endpoint"), "tcp://127.0.0.1:1")
    with pytest.raises(ValueError, match=f"^{name}: "):
        ReplayMemoryClient(**given | {name: "tcp://*:1"})


@pytest.mark.parametrize("several", [[], ()])
def test_client_needs_an_endpoint_to_push_to(several: Any) -> None:
    with pytest.raises(ValueError, match="push_endpoint: expected at least one"):
        ReplayMemoryClient("tcp://127.0.0.1:1", "tcp://127.0.0.1:1", several)


@pytest.mark.parametrize("name", ["rep_endpoint", "pull_endpoint"])
def test_start_names_an_invalid_endpoint(name: str) -> None:
    with network.made() as server, pytest.raises(ValueError, match=f"^{name}: "):
        server.start(**{name: "tcp://127.0.0.1"})
