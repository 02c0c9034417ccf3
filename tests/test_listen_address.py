"""The rule for addresses to listen at."""

from __future__ import annotations

import pytest

from cogrs.listen_address import check_listener, is_loopback

_KEPT = [
    *("127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost", "LOCALHOST", "::ffff:127.0.0.1"),
    *("tcp://127.0.0.1:5555", "tcp://[::1]:*", "tcp://localhost:0", "tcp://lo:5555"),
    *("ipc:///tmp/cogrs.sock", "ipc://*", "inproc://name"),
]
_OPEN = [
    *(
        "0.0.0.0",
        "::",
        "[::]",
        "",
        "*",
        "10.0.0.1",
        "a-machine",
        "127.0.0.1.example",
        "::ffff:8.8.8.8",
    ),
    *("tcp://*:5555", "tcp://0.0.0.0:*", "tcp://[::]:5555", "tcp://eth0:5555", "tcp://a-machine:1"),
    *("ipc://@name", "ipc://@127.0.0.1"),
]


@pytest.mark.parametrize("address", _KEPT)
def test_loopback_address_needs_no_option(address: str) -> None:
    check_listener("host", address, ["tls"])


@pytest.mark.parametrize("address", _OPEN)
def test_remote_address_of_an_unsecured_server_is_refused_by_name(address: str) -> None:
    with pytest.raises(ValueError, match=r"pull_ep: .* reach") as caught:
        check_listener("pull_ep", address, ["tls", "tokens or tls.client_ca"])
    text = str(caught.value)
    assert repr(address) in text
    assert "expected tls and tokens or tls.client_ca, or insecure=True" in text


@pytest.mark.parametrize("address", _OPEN)
def test_remote_address_is_accepted_if_secured_or_insecure(address: str) -> None:
    check_listener("host", address, [])
    check_listener("host", address, ["tls"], insecure=True)


def test_error_names_the_callers_way_to_consent() -> None:
    with pytest.raises(ValueError, match="or --insecure; got neither"):
        check_listener("--metrics-host", "0.0.0.0", ["the loopback"], consent="--insecure")


def test_name_that_resembles_the_loopback_is_not_loopback() -> None:
    assert not any(map(is_loopback, ("localhost.evil", "127.1", "0", "127.0.0.1:80", "::1:80")))
