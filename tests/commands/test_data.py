"""`cogrs data`, and the orchestrator's `--store`: output, exit codes, and kill -9."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import pytest

from cogrs import cli
from cogrs.store import open_store
from cogrs.store.sqlite_index import NAME, SqliteIndex
from tests.program import program
from tests.store.trials import DONE, record, stored

PLAYS = """
import asyncio, sys, time
import cogrs
from cogrs import sdk
import numpy as np

class Count(sdk.Environment):
    def start(self, trial):
        self.tick, self.ticks = 0, 10**9 if Count.number % 2 else 5
        Count.number += 1
        return sdk.Update(np.int64(0))

    def step(self, actions):
        time.sleep(0.01)
        self.tick += 1
        return sdk.Update(np.int64(self.tick), {"a": 1.0}, final=self.tick == self.ticks)

Count.number = 0
config = {
    "trial_params": {
        "environment": {"endpoint": "local://env"},
        "actors": [{"name": "a", "actor_class": "player", "endpoint": "local://agents"}],
    },
    "datalog": {"type": "store", "url": f"file:{sys.argv[1]}"},
}
parts = {
    "env": sdk.local_environments({"": Count}),
    "agents": sdk.local_agents({"": lambda: sdk.FunctionAgent(lambda _: 0, inline=True)}),
}

async def start(where):
    async with sdk.TrialController(where) as controller:
        for _ in range(6):
            print((await controller.start_trial()).id, flush=True)

with cogrs.serve_orchestrator(config, port=0, local=parts) as server:
    asyncio.run(start(f"127.0.0.1:{server.port}"))
    print("running", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def folder(tmp_path):
    """A store of three trials: t0, t1 and t2, of as many ticks."""
    folder = tmp_path / "runs"
    with open_store(folder, create=True) as store:
        for number in range(3):
            stored(store, tmp_path, f"t{number}", ticks=number)
    return folder


def data(capsys, folder, verb, *arguments, code=0):
    """Run a verb; return its output, or its error."""
    assert cli.main(["data", verb, "--store", str(folder), *map(str, arguments)]) == code
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return err if code and not out else out


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def test_listing_has_an_object_per_line_with_the_promised_fields(capsys, folder):
    found = lines(data(capsys, folder, "ls", "--json"))
    assert [each["trial_id"] for each in found] == ["t0", "t1", "t2"]
    last = found[-1]
    promised = ("trial_id", "ticks", "returns", "end_reason", "user", "partial", "started", "ended")
    assert set(promised) < set(last)
    assert (last["ticks"], last["returns"], last["user"]) == (2, {"a": 2.0}, "ann")
    assert (last["end_reason"], last["partial"]) == (DONE, False)
    assert datetime.fromisoformat(last["started"]) <= datetime.fromisoformat(last["ended"])
    assert (folder / last["file"]).exists()
    text = data(capsys, folder, "ls")
    assert len(text.splitlines()) == 3
    assert "a=2" in text.splitlines()[-1]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--class", "player"], ["t0", "t1", "t2"]),
        (["--class", "judge"], []),
        (["--min-return", "1"], ["t1", "t2"]),
        (["--min-return", "1", "--limit", "1"], ["t2"]),
        (["--ended-by", "final"], ["t0", "t1", "t2"]),
        (["--ended-by", "max_steps"], []),
        (["--since", "2001-09-09"], ["t0", "t1", "t2"]),
        (["--since", "1h"], []),
        (["--until", "2001-09-09"], []),
        (["--until", "1s"], ["t0", "t1", "t2"]),
        (["--user", "ann"], ["t0", "t1", "t2"]),
        (["--user", "bob"], []),
        (["--partial"], []),
        (["--whole"], ["t0", "t1", "t2"]),
        (["--people"], []),
        (["--limit", "2"], ["t1", "t2"]),
    ],
    ids=lambda each: " ".join(each),
)
def test_filters_choose_trials(capsys, folder, options, expected):
    found = lines(data(capsys, folder, "ls", "--json", *options))
    assert [each["trial_id"] for each in found] == expected
    if not expected:
        assert data(capsys, folder, "ls", *options) == "no trials\n"


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("--since", "soon", "expected a date, a date with a time, or a time ago"),
        ("--min-return", "nan", "expected a finite number, got 'nan'"),
        ("--limit", "0", "expected an integer"),
    ],
)
def test_wrong_option_is_refused_by_name(capsys, folder, option, value, text):
    with pytest.raises(SystemExit) as caught:
        cli.main(["data", "ls", "--store", str(folder), option, value])
    assert caught.value.code == 2
    err = capsys.readouterr().err
    assert option in err
    assert text in err


def test_time_of_a_listing_is_relative_to_now(capsys, folder):
    index = SqliteIndex(folder / NAME)
    index.add([record(7, trial_id="new", started=datetime.now(UTC) - timedelta(minutes=90))])
    index.close()
    for since, expected in {"1h": [], "2h": ["new"], "1d": ["new"]}.items():
        found = lines(data(capsys, folder, "ls", "--json", "--since", since))
        assert [each["trial_id"] for each in found] == expected


def test_show_has_each_step_with_late_rewards_at_their_steps(capsys, folder):
    with open_store(folder) as store:
        store.add_reward("t2", "a", 1, 5.0, sender="ada")
    text = data(capsys, folder, "show", "t2")
    assert "step     0  a  [0 0] -> 0  reward 6 by ada" in text
    assert "step     1  a  [1 1] -> 0  reward 1\n" in text
    assert f"end       {DONE}" in text
    head, *steps = lines(data(capsys, folder, "show", "t2", "--json"))
    assert (head["trial_id"], head["people"]) == ("t2", True)
    assert head["params"]["environment"] == {"endpoint": "grpc://env:1"}
    assert [(each["step"], each["reward"]) for each in steps] == [(0, 6.0), (1, 1.0), (2, 0)]
    assert steps[0]["rewards"][-1]["sources"] == [
        {"sender": "ada", "value": 5.0, "confidence": 1.0}
    ]


def test_replay_prints_the_content_of_the_memory(capsys, folder):
    with open_store(folder) as store:
        store.add_reward("t2", "a", 1, 5.0, sender="ada")
    *trials, held = lines(data(capsys, folder, "replay", "t1", "t2", "--json"))
    assert [each["episodes"] for each in trials] == [1, 1]
    assert held == {"memory": {"episodes": 2, "steps": 3, "rewards": [1.0, 7.0]}}
    assert "the memory holds 2 episodes, 3 steps" in data(capsys, folder, "replay", "t1", "t2")


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_exported_trials_are_imported_equal(capsys, folder, tmp_path, form):
    out, other = tmp_path / "out", tmp_path / "other"
    said = data(capsys, folder, "export", "--to", form, out, "--min-return", "1")
    assert said == f"2 trials to {out}\n"
    assert sorted(path.name for path in out.iterdir()) == [f"t1.{form}", f"t2.{form}"]
    assert data(capsys, other, "import", out).endswith("2 trials\n")
    with open_store(folder) as one, open_store(other) as two:
        for name in ("t1", "t2"):
            assert str(list(one.read(name)[1])) == str(list(two.read(name)[1]))
    assert data(capsys, folder, "export", "--to", form, tmp_path / "one", "--trial", "t0")
    assert "t1 is in the store already" in data(capsys, other, "import", out, code=1)


def test_removed_trial_is_gone(capsys, folder):
    assert data(capsys, folder, "rm", "t0", "t2") == "removed t0\nremoved t2\n"
    assert [each["trial_id"] for each in lines(data(capsys, folder, "ls", "--json"))] == ["t1"]
    assert "no trial 't0'" in data(capsys, folder, "rm", "t0", code=1)


def test_verify_tells_damage_by_its_exit_code_and_mends_the_store(capsys, folder):
    assert data(capsys, folder, "verify") == "3 trials, 0 of them partial, 0 damaged\n"
    with open_store(folder) as store:
        path = store.path(store.trial("t1"))
    path.unlink()
    out = data(capsys, folder, "verify", code=1)
    assert "missing" in out
    assert str(path.relative_to(folder)) in out
    assert "cogrs data verify --mend mends it" in out
    (found,) = lines(data(capsys, folder, "verify", "--json", code=1))
    assert (found["kind"], found["trial_id"], found["mended"]) == ("missing", "t1", "")
    assert "removed from the index" in data(capsys, folder, "verify", "--mend")
    assert data(capsys, folder, "verify") == "2 trials, 0 of them partial, 0 damaged\n"


@pytest.mark.parametrize("verb", ["show", "replay", "rm"])
def test_unknown_trial_is_named_with_the_nearest(capsys, folder, verb):
    err = data(capsys, folder, verb, "t02", code=1)
    assert f"cogrs data {verb}: trial_id: no trial 't02'" in err
    assert "did you mean 't0'" in err or "did you mean 't2'" in err


def test_missing_store_is_named_and_not_created(capsys, tmp_path):
    err = data(capsys, tmp_path / "no", "ls", code=2)
    assert f"{tmp_path}/no: expected a store of trials" in err
    assert not (tmp_path / "no").exists()
    assert "--store: expected a folder, file:FOLDER or postgresql" in data(
        capsys, "http://x", "ls", code=2
    )


def test_changed_file_is_named_by_show_replay_and_export(capsys, folder, tmp_path):
    with open_store(folder) as store:
        path = store.path(store.trial("t1"))
    path.write_bytes(path.read_bytes()[:-1])
    for arguments in (
        ["show", "t1"],
        ["replay", "t1"],
        ["export", "--to", "parquet", tmp_path / "x"],
    ):
        assert f"{path}: changed since" in data(capsys, folder, *arguments, code=1)


def test_store_is_found_by_the_environment_variable(folder):
    done = subprocess.run(
        [sys.executable, "-m", "cogrs", "data", "ls"],
        env={**os.environ, "COGRS_STORE": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert len(done.stdout.splitlines()) == 3


def test_listing_into_a_closed_pipe_ends_without_an_error(folder):
    index = SqliteIndex(folder / NAME)
    index.add([record(k) for k in range(5_000)])
    index.close()
    call = [sys.executable, "-m", "cogrs", "data", "ls", "--store", str(folder)]
    with subprocess.Popen(["head", "-1"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as head:
        done = subprocess.run(
            call, stdout=head.stdin, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
        head.stdin.close()
    assert (done.returncode, done.stderr) in ((141, ""), (0, ""))


def journals_have_grown(folder):
    """Whether three trials have journals with more than the first samples."""
    sizes = [path.stat().st_size for path in folder.rglob("journal/*")]
    return sum(size > 5_000 for size in sizes) == 3


def test_killed_orchestrator_leaves_whole_and_partial_trials(capsys, tmp_path):
    folder = tmp_path / "runs"
    with program(f"import sys; sys.argv[1:] = [{str(folder)!r}]\n{PLAYS}") as process:
        ids = [process.stdout.readline().strip() for _ in range(6)]
        assert process.stdout.readline() == "running\n"
        # Whole trials are files, and what came of the others is written again and again.
        end = time.monotonic() + 60
        while not (journals_have_grown(folder) and len([*folder.rglob("*.parquet")]) == 3):
            assert time.monotonic() < end, [*folder.rglob("*")]
            time.sleep(0.1)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(30)
    found = {each["trial_id"]: each for each in lines(data(capsys, folder, "ls", "--json"))}
    assert set(found) == set(ids)
    partial = [each for each in found.values() if each["partial"]]
    whole = [each for each in found.values() if not each["partial"]]
    assert len(partial) == len(whole) == 3
    assert all(each["ticks"] == 5 for each in whole)
    assert all(each["ticks"] > 5 and each["end_reason"] == "" for each in partial)
    out = data(capsys, folder, "verify")
    assert "6 trials, 3 of them partial, 0 damaged" in out
    assert "not known: the trial is partial" in data(capsys, folder, "show", partial[0]["trial_id"])


CONFIG = """
trial_params:
  environment: {endpoint: "127.0.0.1:9"}
  actors: [{name: alice, actor_class: player, endpoint: client}]
"""


def test_orchestrator_takes_the_store_as_an_option(tmp_path):
    config = tmp_path / "cogment.yaml"
    config.write_text(CONFIG)
    folder = tmp_path / "runs"
    call = ["orchestrator", "--config", str(config), "--port", "0", "--store", str(folder)]
    with program(f"import sys; from cogrs import cli; sys.exit(cli.main({call!r}))") as process:
        assert process.stdout.readline().startswith("port")
        assert (folder / NAME).exists()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert not list(folder.glob("trials/*/lock"))


def test_orchestrator_says_at_its_start_that_the_store_cannot_be_written(capsys, tmp_path):
    config = tmp_path / "cogment.yaml"
    config.write_text(CONFIG)
    call = ["orchestrator", "--config", str(config), "--port", "0"]
    assert cli.main([*call, "--store", str(config)]) == 2
    assert str(config) in capsys.readouterr().err
    assert cli.main([*call, "--store-files", str(tmp_path)]) == 2
    assert "--store" in capsys.readouterr().err
    assert cli.main([*call, "--store", "postgresql://h/d"]) == 2
    assert "--store-files: expected the folder of files" in capsys.readouterr().err
