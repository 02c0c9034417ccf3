"""Arguments that concern keys, and endpoints that need none."""

import os
import stat
from typing import Any

import pytest
import zmq

from cogrs import Bind, KeyPair
from cogrs.replay.proxy import ReplayProxy
from tests.replay import network
from tests.replay.network import (
    LOOPBACK,
    connected,
    made,
)

SERVER, CLIENT, OTHER, STRANGER = (KeyPair.new() for _ in range(4))
KEYS: dict[str, Any] = {"key": CLIENT, "server_key": SERVER.public}
SAFE: dict[str, Any] = {"key": SERVER, "allow": [CLIENT.public, OTHER.public]}


# -- arguments --


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"key": SERVER}, ValueError, "allow: expected"),
        ({"allow": [CLIENT]}, ValueError, "key: expected"),
        ({"key": SERVER.secret, "allow": []}, FileNotFoundError, "key: expected"),
        ({"key": "nowhere.key_secret", "allow": []}, FileNotFoundError, "nowhere"),
        ({"key": 3, "allow": []}, TypeError, "key: expected"),
        ({"key": SERVER, "allow": 3}, TypeError, "allow: expected"),
        ({"key": SERVER, "allow": CLIENT.public}, NotADirectoryError, "allow: expected"),
    ],
)
def test_server_refuses_arguments(given: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text) as caught:
        made(1, **given)
    assert SERVER.secret not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"key": CLIENT}, ValueError, "server_key: expected"),
        ({"server_key": SERVER.public}, ValueError, "key: expected"),
        ({"key": CLIENT, "server_key": "short"}, FileNotFoundError, "server_key: expected"),
        ({"key": CLIENT, "server_key": b"bytes"}, TypeError, "server_key: expected"),
        ({"key": CLIENT, "server_key": "~" * 40}, ValueError, "server_key: expected"),
        ({"key": b"bytes", "server_key": SERVER}, TypeError, "key: expected"),
    ],
)
def test_client_refuses_arguments(given: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        network.deaf(**given)


def test_keys_with_libzmq_without_curve_raise_runtime_error(monkeypatch: Any) -> None:
    monkeypatch.setattr(zmq, "has", lambda name: name != "curve")
    for make in (
        KeyPair.new,
        lambda: made(1, **SAFE),
        lambda: network.deaf(**KEYS),
        lambda: KeyPair(SERVER.public, SERVER.secret),
    ):
        with pytest.raises(RuntimeError, match="without CURVE"):
            make()
    made(1).close()


# -- listening to other machines --


@pytest.mark.parametrize("open_to_all", ["tcp://*:*", "tcp://0.0.0.0:0", "ipc://@cogrs.test"])
def test_open_endpoint_without_keys_is_refused(open_to_all: str) -> None:
    expected = r"expected key and allow, or insecure=True"
    with pytest.raises(ValueError, match=f"pub_endpoint: .*{expected}"):
        made(1, pub_endpoint=open_to_all)
    with made(1) as server:
        for ends in ((LOOPBACK, open_to_all), (open_to_all, LOOPBACK)):
            name = ("rep", "pull")[ends.index(open_to_all)]
            with pytest.raises(ValueError, match=f"{name}_endpoint: .*{expected}"):
                server.start(*ends)
            for main in (server.rep_proxy_main, server.pull_proxy_main):
                name = ("front", "back")[ends.index(open_to_all)]
                with pytest.raises(ValueError, match=f"{name}_ep: .*{expected}"):
                    main(*ends)
        for main in (server.rep_worker_main, server.pull_worker_main):
            with pytest.raises(ValueError, match=f"endpoint: .*{expected}"):
                main(open_to_all, Bind)
        server.start()
        with connected(server):
            pass
    for at, name in enumerate(("rep_front", "rep_back", "pull_front", "pull_back")):
        ends = [LOOPBACK] * 4
        ends[at] = open_to_all
        with pytest.raises(ValueError, match=f"{name}: .*{expected}"):
            ReplayProxy(*ends)
        with ReplayProxy(*ends, insecure=True), ReplayProxy(*[LOOPBACK] * 4):
            pass
    with made(1, pub_endpoint=open_to_all, insecure=True):
        pass
    with pytest.raises(TypeError, match="insecure: expected"):
        made(1, insecure=1)


def test_ipc_socket_is_for_its_owner(tmp_path: Any) -> None:
    for options, mode in (({}, 0o600), ({"insecure": True}, 0o777), (SAFE, 0o777)):
        before = os.umask(0)
        try:
            with made(1, pub_endpoint=f"ipc://{tmp_path}/pub", **options):
                assert stat.S_IMODE(os.stat(tmp_path / "pub").st_mode) == mode
        finally:
            os.umask(before)


@pytest.mark.parametrize("closed", [LOOPBACK, "tcp://127.0.0.2:*", "ipc://*", "tcp://lo:*"])
def test_endpoints_of_this_machine_are_not(closed: str, caplog: Any) -> None:
    with made(1, pub_endpoint=closed):
        pass
    with made(1, pub_endpoint="tcp://*:*", **SAFE):
        pass
    assert not [record for record in caplog.records if record.name == "cogrs.replay"]
