"""`cogrs play` and `cogrs web` as programs."""

from __future__ import annotations

import json
import signal
import time
import urllib.error
import urllib.request
from typing import Any

import pytest
from websockets.sync.client import connect

from cogrs import cli
from tests.commands.command import orchestrator, script
from tests.program import program


@pytest.fixture
def game(tmp_path, monkeypatch):
    """A module with environments and a policy, in the working directory."""
    (tmp_path / "mygame.py").write_text(
        "import gymnasium\n"
        "def pole():\n    return gymnasium.make('CartPole-v1')\n"
        "def two():\n    from tests.sdk.leaves import Leaves\n    return Leaves()\n"
        "def lean(observation):\n    return int(observation.value[2] > 0)\n"
        "number = 3\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


ROOT = __file__.rpartition("/tests/")[0]


def started(process: Any) -> dict[str, Any]:
    line = process.stdout.readline()
    assert line, process.stderr.read()
    return dict(json.loads(line))


def stopped(process: Any, number: int = signal.SIGINT) -> int:
    """Send a signal; return the exit code."""
    begin = time.monotonic()
    process.send_signal(number)
    code = process.wait(60)
    assert time.monotonic() - begin < 50
    return int(code)


def test_play_prints_links_once_the_page_answers_and_ends_by_ctrl_c():
    with program(script("play", "CartPole-v1", "--no-browser", "--json")) as process:
        at = started(process)
        assert set(at) == {"url", "spectator", "console", "port", "orchestrator"}
        assert at["console"].startswith(f"http://127.0.0.1:{at['port']}/console#")
        assert at["url"].startswith(f"http://127.0.0.1:{at['port']}/#")
        with urllib.request.urlopen(at["url"], timeout=60) as reply:
            assert b"<title>cogrs</title>" in reply.read()
        assert stopped(process) == 130


def test_play_takes_an_environment_and_a_policy_of_a_module(game):
    arguments = ("play", "mygame:pole", "--policy", "mygame:lean", "--no-browser", "--json")
    with program(script(*arguments)) as process:
        started(process)
        assert stopped(process, signal.SIGTERM) == 143


def test_play_takes_an_agent_of_a_pettingzoo_environment(game):
    pytest.importorskip("pettingzoo")
    arguments = ("mygame:two", "--actor", "a", "--mode", "press", "--no-browser", "--json")
    with program(script("play", *arguments)) as process:
        at = started(process)
        with connect(f"ws://127.0.0.1:{at['port']}/ws") as socket:
            socket.send(json.dumps({"type": "join", "token": at["url"].partition("#")[2]}))
            messages = (json.loads(text) for text in socket)
            for tick in range(3):
                next(m for m in messages if m["type"] == "tick" and m["tick"] == tick)
                socket.send(json.dumps({"type": "action", "tick": tick, "value": 1}))
            ended = next(m for m in messages if m.get("state") == "ended")
            assert (ended["reason"], ended["score"]) == ("The game is over.", 3)
        assert stopped(process) == 130


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["CartPool-v1"], "environment: Environment `CartPool` doesn't exist. Did you mean"),
        (["mygame:poole"], "environment: expected a function 'poole' in 'mygame', got None; did"),
        (["nosuch:thing"], "environment: 'nosuch:thing': No module named 'nosuch'"),
        (["nosuch:Thing-v1"], "environment: 'nosuch:Thing-v1': No module named 'nosuch'"),
        (["mygame:Thing-v1"], "environment: Environment `Thing` doesn't exist"),
        (["NoPackage/Thing-v1"], "environment: Namespace NoPackage not found"),
        (["a:b:Thing-v1"], "environment: expected ID, MODULE:ID or module:function, got 'a:b:"),
        (["mygame:two"], "--actor: expected one of a, b, as mygame:two has several agents"),
        (["mygame:two", "--actor", "c"], "--actor: expected one of a, b; got 'c'"),
        (["mygame:pole", "--actor", "a"], "--actor: expected one of no agents: it is not an"),
        (["CartPole-v1", "--policy", "mygame:number"], "--policy: expected a function 'number'"),
        (["CartPole-v1", "--host", "0.0.0.0"], "host: other machines reach '0.0.0.0': expected"),
        (["CartPole-v1", "--tls-key", "x"], "--tls-certificate, --tls-key: expected both"),
        (["CartPole-v1", "--credit", "0.2", "0.8"], "credit: expected seconds a > b >= 0"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_play_that_cannot_start_says_why_in_one_line(game, capsys, arguments, error):
    assert cli.main(["play", *arguments, "--no-browser"]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"cogrs play: {error}")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--fps", "0"], "--fps: expected a number above 0, at most 240, got '0'"),
        (["--mode", "holt"], "invalid choice: 'holt'"),
        (["--trials", "0"], "--trials: expected an integer from 1"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_option_out_of_range_is_refused(capsys, arguments, error):
    with pytest.raises(SystemExit) as left:
        cli.main(["play", "CartPole-v1", *arguments])
    assert left.value.code == 2
    assert error in capsys.readouterr().err


def test_web_without_game_and_orchestrator_names_the_missing_option(capsys):
    where = ["web", "--orchestrator", "127.0.0.1:9", "--actor-class", "player"]
    assert cli.main(where) == 2
    assert "cogrs web: --env: expected what is played" in capsys.readouterr().err


def test_web_without_a_game_waits_for_a_trial(config):
    with orchestrator(config) as (_, ports):
        where = f"127.0.0.1:{ports['port']}"
        given = ("--orchestrator", where, "--actor-class", "player", "--json")
        with program(script("web", *given)) as process:
            at = started(process)
            with connect(f"ws://127.0.0.1:{at['port']}/ws") as socket:
                socket.send(json.dumps({"type": "join", "token": at["url"].partition("#")[2]}))
                hello = next(m for m in map(json.loads, socket) if m["type"] == "hello")
                assert (hello["title"], hello["controls"]) == (where, {})
            assert stopped(process) == 130


def test_web_prints_a_link_per_person(config):
    with orchestrator(config) as (_, ports):
        where = f"127.0.0.1:{ports['port']}"
        arguments = ("--orchestrator", where, "--actor-class", "player", "--env", "CartPole-v1")
        with program(script("web", *arguments, "--people", "3", "--json")) as process:
            at = started(process)
            assert len(set(at["urls"])) == 3
            assert (at["url"], at["orchestrator"]) == (at["urls"][0], where)
            assert at["console"].startswith(f"http://127.0.0.1:{at['port']}/console#")
            request = urllib.request.Request(
                f"http://127.0.0.1:{at['port']}/", headers={"Host": "example.org"}
            )
            with pytest.raises(urllib.error.HTTPError, match="403"):
                urllib.request.urlopen(request, timeout=60)
            assert stopped(process) == 130


def test_console_of_web_shows_a_replay_server_that_is_named(config, tmp_path):
    (tmp_path / "replay.toml").write_text(REPLAY)
    path = str(tmp_path / "replay.toml")
    server = script("replay-server", "--config", path, "--metrics-port", "0")
    with orchestrator(config) as (_, ports), program(server) as replay:
        told = dict(replay.stdout.readline().split() for _ in range(4))
        where = f"127.0.0.1:{ports['port']}"
        given = (
            *("--orchestrator", where, "--actor-class", "player", "--env", "CartPole-v1"),
            *("--replay", f"learner=http://127.0.0.1:{told['metrics_port']}/metrics"),
            *("--replay", f"gone=http://{where}/metrics"),
        )
        with program(script("web", *given, "--json")) as process:
            at = started(process)
            with connect(f"ws://127.0.0.1:{at['port']}/console/ws") as socket:
                token = at["console"].partition("#")[2]
                socket.send(json.dumps({"type": "join", "token": token}))
                messages = (json.loads(text) for text in socket)
                report = next(each for each in messages if each["type"] == "report")
            learner, gone = report["replays"]
            assert learner["fault"] == ""
            assert learner["figures"]["samples unused"] == 0
            assert learner["figures"]["samples per insert"] == 0
            assert report["charts"]["learner: caches"] == 0
            assert gone["figures"] == {}
            assert gone["fault"]
            assert stopped(process) == 130
        replay.send_signal(signal.SIGTERM)
        assert replay.wait(60) == 0


REPLAY = """
n_caches = 4
[templates]
state = { dtype = "int64" }
action = { dtype = "int64", shape = [] }
reward = { dtype = "float32", shape = [1] }
prob = { dtype = "float32" }
value = { dtype = "float32", shape = [1] }
qvest = { dtype = "float32", shape = [1] }
info = { dtype = "int64" }
[limiter]
samples_per_insert = 2
min_size = 10
error_buffer = 40
"""


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (["x"], "--replay: expected NAME=URL, each name once, got 'x'"),
        (["x=file:///etc/passwd"], "--replay: x: expected http://HOST:PORT/metrics, got 'file:"),
        (["x=http://a:1/", "x=http://b:1/"], "--replay: expected NAME=URL, each name once"),
    ],
    ids=["no-url", "file", "twice"],
)
def test_replay_server_that_is_named_wrongly_is_an_error_in_one_line(capsys, given, error):
    arguments = ["--orchestrator", "127.0.0.1:9", "--actor-class", "x", "--judge"]
    replays = [part for each in given for part in ("--replay", each)]
    assert cli.main(["web", *arguments, *replays]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"cogrs web: {error}")
    assert len(err.splitlines()) == 1


@pytest.fixture
def config(tmp_path):
    from tests.commands.command import CONFIG

    path = tmp_path / "cogment.yaml"
    path.write_text(CONFIG)
    return path
