"""`cogrs cluster`: runs that a file describes."""

import json
import signal
import subprocess
import sys

import pytest

from cogrs.cli import main

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="runs need POSIX signals"),
    pytest.mark.timeout(600),
]
PLAN = """
make_env = "cartpole"
policy = "tests.cluster.programs:LinearPolicy"
learner = "tests.cluster.programs:LinearLearner"
actors = 1
envs_per_actor = 4
n_caches = 2
storage = "runs"
updates = {updates}
"""


def written(folder, updates):
    path = folder / "plan.toml"
    path.write_text(PLAN.format(updates=updates), encoding="utf-8")
    return str(path)


def run(*words):
    """Run a command in this process; return its exit code."""
    return main(["cluster", *map(str, words)])


def test_run_of_a_file_goes_to_its_end_and_shows_its_status(tmp_path, capsys):
    plan = written(tmp_path, 30)
    assert run("up", plan, "--name", "short") == 0
    assert "short runs: 4 parts" in capsys.readouterr().out
    storage = ("--storage", tmp_path / "runs")
    assert run("status", "short", *storage) == 0
    assert capsys.readouterr().out.startswith("short: ended\n")
    assert run("status", "short", *storage, "--json") == 0
    status = json.loads(capsys.readouterr().out)
    assert (status["state"], status["rows"]["drawn"]) == ("ended", 30 * 64)
    assert run("logs", "short", *storage) == 0
    assert "the learner has made its updates" in capsys.readouterr().out
    assert run("scale", "short", *storage, "--actors", "2") == 1
    assert "cogrs cluster scale: short: the run is over" in capsys.readouterr().err
    assert run("up", plan, "--name", "short") == 2
    assert "resume=True" in capsys.readouterr().err


def test_detached_run_is_stopped_by_a_command(tmp_path, capsys):
    assert run("up", written(tmp_path, 10**9), "--detach") == 0
    storage = ("--storage", tmp_path / "runs")
    assert run("status", *storage) == 0
    assert "run: running" in capsys.readouterr().out
    assert run("stop", *storage) == 0
    assert run("attach", *storage) == 0
    assert run("status", *storage) == 0
    assert "run: ended" in capsys.readouterr().out


def test_ctrl_c_ends_a_run_with_checkpoints(tmp_path):
    program = subprocess.Popen(
        [sys.executable, "-m", "cogrs", "cluster", "up", written(tmp_path, 10**9)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert program.stdout.readline() == "run runs: 4 parts\n"
    program.send_signal(signal.SIGINT)
    program.communicate(timeout=120)
    assert program.returncode == 130
    assert list((tmp_path / "runs/run/shard-0").glob("*.checkpoint"))


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["up", "nowhere.toml"], "cogrs cluster up: [Errno 2]"),
        (["status", "nobody"], "cogrs cluster status: name: there is no run 'nobody' in "),
        (["status", "../x"], "cogrs cluster status: name: expected letters"),
    ],
)
def test_bad_arguments_are_refused_in_a_line(tmp_path, monkeypatch, capsys, words, text):
    monkeypatch.chdir(tmp_path)
    assert run(*words) == 2
    error = capsys.readouterr().err
    assert error.startswith(text)
    assert error.count("\n") == 1
