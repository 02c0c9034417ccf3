"""Proxies without a server."""

import signal
import subprocess
import sys
from typing import Any

import pytest

from cogrs import Conn, KeyPair, ReplayMemoryClient, ReplayMemoryServer, cli
from cogrs.replay.proxy import ReplayProxy
from tests.replay import build, network
from tests.replay.network import LOOPBACK, SLACK, Call, arrived, eventually, made, our_threads

ENDS = (LOOPBACK,) * 4


def assert_passes(
    server: ReplayMemoryServer, rep: tuple[str, str], pull: tuple[str, str], **keys: Any
) -> None:
    """A client at the fronts is served by workers at the backs; each is (front, back)."""
    calls = [
        Call(lambda: server.rep_worker_main(rep[1], Conn)),
        Call(lambda: server.pull_worker_main(pull[1], Conn)),
    ]
    with ReplayMemoryClient(
        server.pub_endpoint, rep[0], pull[0], max_step=64, timeout=SLACK, **keys
    ) as client:
        build.add_uniform(client.rem, 20)
        client.update_counter()
        client.push_cache()
        arrived(server, 1)
        assert server.total_episodes == 1
    server.close()
    for call in calls:
        call.result()


def test_proxy_passes_on_and_closes() -> None:
    threads = our_threads()
    with ReplayProxy(*ENDS) as proxy:
        for _ in range(2):
            rep, pull = (proxy.rep_front, proxy.rep_back), (proxy.pull_front, proxy.pull_back)
            assert_passes(made(1), rep, pull)
    proxy.close()
    eventually(lambda: our_threads() <= threads)
    again = network.once_free(lambda: ReplayProxy(*rep, *pull))
    again.close()


def test_proxy_that_is_forgotten_closes() -> None:
    threads = our_threads()
    ReplayProxy(*ENDS)
    eventually(lambda: our_threads() <= threads)


def test_proxy_with_keys_passes_allowed_clients_only() -> None:
    learner, actor, stranger = (KeyPair.new() for _ in range(3))
    keys = {"key": learner, "allow": [actor]}
    with ReplayProxy(*ENDS, **keys) as proxy:
        rep, pull = (proxy.rep_front, proxy.rep_back), (proxy.pull_front, proxy.pull_back)
        server = made(1, **keys)
        assert_passes(server, rep, pull, key=actor, server_key=learner)
        for wrong in ({}, {"key": stranger, "server_key": learner}):
            with pytest.raises(TimeoutError, match="key"):
                ReplayMemoryClient(
                    server.pub_endpoint, rep[0], pull[0], max_step=1, timeout=0.3, **wrong
                )


@pytest.mark.parametrize("which", range(4))
def test_end_that_is_taken_is_named(which: int) -> None:
    threads = our_threads()
    name = ("rep_front", "rep_back", "pull_front", "pull_back")[which]
    with made(1) as server:
        ends = list(ENDS)
        ends[which] = server.pub_endpoint
        with pytest.raises(OSError, match=f"^.*{name}: .*{server.pub_endpoint}"):
            ReplayProxy(*ends)
        ends[which] = "nowhere"
        with pytest.raises(ValueError, match=f"^{name}: expected"):
            ReplayProxy(*ends)
    eventually(lambda: our_threads() <= threads)


OPTIONS = ("--rep-front", "--rep-back", "--pull-front", "--pull-back")


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_command_runs_until_a_signal_ends_the_process(kind: int) -> None:
    given = [text for option in OPTIONS for text in (option, LOOPBACK)]
    process = subprocess.Popen(
        [sys.executable, "-m", "cogrs.cli", "replay-proxy", *given],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with network.ended([process]):
        told = dict(process.stdout.readline().split() for _ in range(4))
        rep, pull = (told["rep_front"], told["rep_back"]), (told["pull_front"], told["pull_back"])
        assert_passes(made(1), rep, pull)
        process.send_signal(kind)
        out, err = process.communicate(timeout=SLACK)
        assert (process.returncode, out, err) == (0, "stopping\n", "")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (["--rep-front", "nowhere"], "rep_front: expected"),
        (["--rep-front", "tcp://*:0"], "rep_front: other machines"),
        (["--key", "none.key_secret"], "allow: expected"),
        (["--allow-samplers", "."], "key: expected"),
        (["--key", "none.key_secret", "--allow", "."], "none.key_secret"),
    ],
)
def test_command_refuses_in_one_line(capsys: Any, change: list[str], text: str) -> None:
    given = [text for option in OPTIONS for text in (option, LOOPBACK)]
    assert cli.main(["replay-proxy", *given, *change]) == 2
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert err.startswith("cogrs replay-proxy: ")
    assert text in err
