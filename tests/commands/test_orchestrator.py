"""`cogrs orchestrator` and `cogrs trial`: as programs, and what they refuse in one line."""

import asyncio
import json
import queue
import re
import signal
import subprocess
import sys
from urllib.request import urlopen

import pytest

from cogrs import cli, commands, sdk
from cogrs.commands.orchestrator import _SETTINGS
from cogrs.orchestrator import Settings
from tests.commands.command import TOKEN, orchestrator, script, trial
from tests.program import program


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 0)])
def test_orchestrator_command_runs_until_a_signal(capsys, config, number, code):
    with orchestrator(config, "--actor-port", 0, "--log-format", "json") as (process, ports):
        assert set(ports) == {"port", "actor_port"}
        assert ports["port"] != ports["actor_port"]
        trial_id = trial(capsys, ports["port"], "start").strip()
        states = trial(capsys, ports["port"], "info", "--json")
        assert json.loads(states)["trial_id"] == trial_id
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
        assert process.returncode == code
    lines = [json.loads(line) for line in err.splitlines()]
    about = [line for line in lines if line.get("trial_id") == trial_id]
    assert about
    assert {"time", "level", "logger", "message"} <= set(about[0])


class Endless(sdk.Environment):
    """Takes a while to make its last observation."""

    def start(self, trial):
        return sdk.Update([0])

    def step(self, actions):
        return sdk.Update([1])

    async def end(self, actions):
        await asyncio.sleep(0.5)
        return sdk.Update([999])


class Patient(sdk.Agent):
    """Tells what it is told."""

    told = queue.Queue()

    async def act(self, observation):
        self.told.put(int(observation.value[0]))
        await asyncio.Event().wait()

    def end(self, final):
        self.told.put(None if final.observation is None else int(final.observation.value[0]))


@pytest.mark.parametrize(("grace", "last"), [(30, 999), (0.1, None)])
def test_signal_gives_trials_the_grace_to_end(capsys, tmp_path, grace, last):
    with sdk.serve_endpoint(environments={"": Endless}, agents={"": Patient}) as endpoint:
        where = json.dumps(endpoint.address)
        config = tmp_path / "cogment.yaml"
        config.write_text(
            f"trial_params: {{environment: {{endpoint: {where}}}, "
            f"actors: [{{name: a, endpoint: {where}}}]}}"
        )
        with orchestrator(config, "--grace", grace) as (process, ports):
            trial(capsys, ports["port"], "start")
            assert Patient.told.get(timeout=60) == 0
            process.send_signal(signal.SIGTERM)
            assert Patient.told.get(timeout=60) == last
            assert process.wait(60) == 0


def test_defaults_equal_the_defaults_in_python(capsys, config, monkeypatch):
    given = {}

    def refuse(file, **arguments):
        given.update(arguments, file=file)
        raise OSError("not today")

    monkeypatch.setattr("cogrs.orchestrator.serve_orchestrator", refuse)
    assert cli.main(["orchestrator", "--config", str(config), "--join-timeout", "7"]) == 2
    assert capsys.readouterr().err == "cogrs orchestrator: not today\n"
    assert (given["file"], given["host"], given["port"]) == (config, "127.0.0.1", 9000)
    assert given["actor_port"] is None
    assert given["settings"] == Settings(join_timeout=7)


def test_trial_command_starts_watches_and_ends_a_trial(capsys, config, tmp_path):
    content = tmp_path / "config"
    content.write_bytes(b"\x0a\x01x")
    with orchestrator(config, "--end-timeout", "5") as (_, ports):
        port = ports["port"]
        told = trial(capsys, port, "start", "--json", "--trial-config", content, "--user-id", "u")
        started = json.loads(told)
        assert started["actors"] == [{"name": "alice", "actor_class": "player"}]
        trial_id = started["trial_id"]
        # Nothing is served at the environment's endpoint, so that it ends by itself.
        told = trial(capsys, port, "watch", trial_id, "--state", "ENDED").split()
        assert told == [trial_id, "ENDED"]
        assert trial(capsys, port, "terminate", trial_id) == ""
        assert json.loads(trial(capsys, port, "terminate", "--json", trial_id)) == {
            "trial_id": trial_id,
            "terminate": "asked",
        }
        assert trial(capsys, port, "info", trial_id) == f"{trial_id} ENDED\n"
        ended = json.loads(trial(capsys, port, "info", "--json", trial_id))
        assert ended["failed"]
        assert ended["end_reason"].startswith("environment 127.0.0.1:9: ")
        err = trial(capsys, port, "start", "--wait", code=1)
        assert "failed: environment 127.0.0.1:9: " in err
        assert len(err.splitlines()) == 1
        err = trial(capsys, port, "info", "nothing", code=1)
        assert err == (f"cogrs trial info: 127.0.0.1:{port}: NOT_FOUND: no trial 'nothing'\n")
        for verb in ("terminate", "watch"):
            assert "NOT_FOUND" in trial(capsys, port, verb, "nothing", code=1)


def test_watch_ends_with_a_signal(config):
    with orchestrator(config) as (_, ports):
        where = ["--endpoint", f"127.0.0.1:{ports['port']}", "--json"]
        with program(script("trial", "watch", *where)) as watch:
            assert cli.main(["trial", "start", *where[:2]]) == 0
            line = json.loads(watch.stdout.readline())
            assert set(line) == {"trial_id", "state"}
            watch.send_signal(signal.SIGINT)
            _, err = watch.communicate(timeout=60)
            assert (watch.returncode, err) == (130, "")


def test_trial_command_without_orchestrator_fails(capsys):
    err = trial(capsys, 9, "info", code=1)
    assert err.startswith("cogrs trial info: 127.0.0.1:9: UNAVAILABLE: ")
    assert len(err.splitlines()) == 1


def test_tokens_option_requires_tokens(capsys, config, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text(f"# of us\n\n{TOKEN}\n")
    mine = tmp_path / "token"
    mine.write_text(f"{TOKEN}\n")
    with orchestrator(config, "--tokens", tokens) as (_, ports):
        assert "UNAUTHENTICATED" in trial(capsys, ports["port"], "info", code=1)
        assert trial(capsys, ports["port"], "info", "--token", mine) == ""
        assert "/none" in trial(capsys, ports["port"], "info", "--token", "/none", code=2)


def test_metrics_port_serves_metrics(config):
    with orchestrator(config, "--metrics-port", 0) as (process, ports):
        with urlopen(f"http://127.0.0.1:{ports['metrics_port']}/metrics", timeout=30) as page:
            text = page.read().decode()
        assert 'cogrs_trials{state="RUNNING"} 0.0\n' in text
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_environment_variables_are_options(capsys, config, monkeypatch):
    for name, value in (
        ("CONFIG", config),
        ("PORT", 0),
        ("LOG_LEVEL", "error"),
        ("INSECURE", 1),
        ("HOST", "0.0.0.0"),
    ):
        monkeypatch.setenv(f"COGRS_ORCHESTRATOR_{name}", str(value))
    with program(script("orchestrator")) as process:
        name, port = process.stdout.readline().split()
        assert name == "port"
        assert trial(capsys, port, "info") == ""
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=60)[1] == ""
    # What is on the command line comes first.
    monkeypatch.setenv("COGRS_ORCHESTRATOR_INSECURE", "0")
    assert cli.main(["orchestrator", "--host", "::"]) == 2
    assert "other machines reach '::'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("PORT", "many", "expected an integer from 0 to 65535, got 'many'"),
        ("INSECURE", "yes", "expected 0 or 1, got 'yes'"),
        ("LOG_FORMAT", "xml", "expected plain or json, got 'xml'"),
        ("JOIN_TIMEOUT", "-1", "expected seconds >= 0, got '-1'"),
    ],
)
def test_bad_environment_variable_is_refused_by_name(capsys, monkeypatch, name, value, text):
    monkeypatch.setenv(f"COGRS_ORCHESTRATOR_{name}", value)
    with pytest.raises(SystemExit) as caught:
        cli.main(["orchestrator"])
    assert caught.value.code == 2
    line = f"cogrs orchestrator: COGRS_ORCHESTRATOR_{name}: {text}\n"
    assert capsys.readouterr() == ("", line)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "--config: expected a cogment.yaml, got none"),
        (["--config", "/nowhere"], "No such file"),
        (["--host", "0.0.0.0"], "expected tls and tokens or tls.client_ca"),
        (["--tls-key", "k"], "--tls-certificate, --tls-key: expected both"),
        (["--client-ca", "k"], "--tls-certificate, --tls-key: expected both"),
        (["--tls-key", "/k", "--tls-certificate", "/c"], "No such file"),
        (["--link-ca", "/nowhere"], "No such file"),
        (["--link-key", "k"], "certificate, key: expected both or neither"),
        (["--tokens", "/dev/null"], "/dev/null: expected tokens, one per line, got none"),
        (["--max-message", "0"], "expected an integer from 1"),
        (["--join-timeout", "nan"], "expected seconds >= 0, got 'nan'"),
        (["--prot", "1"], "did you mean --port?"),
    ],
)
def test_bad_option_is_refused_in_one_line(capsys, config, arguments, text):
    given = arguments if arguments[:1] in ([], ["--config"]) else ["--config", config, *arguments]
    try:
        code = cli.main(["orchestrator", *map(str, given)])
    except SystemExit as end:  # argparse's own
        code = end.code
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert err.startswith("cogrs orchestrator: ")
    assert text in err
    assert len(err.splitlines()) == 1


def test_taken_port_is_an_error_in_one_line(config):
    with orchestrator(config) as (_, ports):
        call = [sys.executable, "-m", "cogrs", "orchestrator", "--config", str(config)]
        call += ["--port", str(ports["port"])]
        done = subprocess.run(call, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith("cogrs orchestrator: cannot listen at 127.0.0.1:")
    assert len(done.stderr.splitlines()) == 1


def test_every_setting_is_an_option(capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["orchestrator", "--help"])
    assert caught.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    assert list(_SETTINGS) == [*Settings.__dataclass_fields__]
    for name in _SETTINGS:
        assert f"--{name.replace('_', '-')} N" in text
    assert "(default: 60)" in text
    assert re.search(r"--tokens FILE\b", text)


def test_trial_command_without_a_verb_prints_usage(capsys):
    with pytest.raises(SystemExit):
        cli.main(["trial"])
    assert "VERB" in capsys.readouterr().err


def test_help_of_other_commands_imports_no_grpc():
    code = (
        "import sys; from cogrs import cli\n"
        "try: cli.main(['trial', 'watch', '--help'])\n"
        "except SystemExit: pass\n"
        "sys.exit('grpc' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert commands.run is not None
