"""The command line: what it understands, what it says, and what it refuses in one line."""

import signal
import stat
import subprocess
import sys
import threading

import pytest

import cogrs
from cogrs import KeyPair, cli
from cogrs.commands import demo
from cogrs.stop_signal import StopSignal


def refusal(capsys, *arguments):
    """The line that refuses some arguments."""
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    return err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--trials", "0"],
        ["--trials", "-1"],
        ["--trials", "1001"],
        ["--trials", "many"],
        ["--trials", "1.5"],
        ["--seed", "-1"],
        ["--seed", "4294967296"],
        ["--seed", ""],
        ["--max-seconds", "-1"],
        ["--max-seconds", "soon"],
        ["--max-seconds", "nan"],
        ["--goal", "inf"],
        ["--goal", "high"],
        ["--out", ""],
        ["--out", " "],
    ],
    ids=" ".join,
)
def test_option_with_a_bad_value_is_refused_in_one_line(capsys, arguments):
    line = refusal(capsys, "demo", *arguments)
    option, value = arguments
    assert line.startswith(f"cogrs demo: argument {option}: expected")
    assert line.endswith(f"got {value!r}\n")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["demonstrate"], "cogrs: argument COMMAND: invalid choice: 'demonstrate'"),
        (["--versoin"], "cogrs: unrecognized arguments: --versoin; did you mean --version?"),
        (["demo", "--nothing"], "cogrs demo: unrecognized arguments: --nothing; see cogrs demo -"),
        (
            ["demo", "--gaol=5"],
            "cogrs demo: unrecognized arguments: --gaol=5; did you mean --goal?",
        ),
        (["demo", "more"], "cogrs demo: unrecognized arguments: more; see cogrs demo --help"),
        (["demo", "--trials"], "cogrs demo: argument --trials: expected one argument"),
    ],
)
def test_unknown_argument_is_refused_with_a_hint(capsys, arguments, text):
    assert refusal(capsys, *arguments).startswith(text)


def test_call_without_a_command_prints_usage(capsys):
    assert cli.main([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("usage: cogrs")
    assert "demo" in err


def test_version_option_prints_the_version(capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr() == (f"cogrs {cogrs.__version__}\n", "")


def test_module_runs_as_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "cogrs", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"cogrs {cogrs.__version__}\n"


@pytest.mark.parametrize("name", ["gymnasium", "jax", "matplotlib", "optax", "rich"])
def test_demo_without_a_package_of_its_extra_names_the_package(capsys, monkeypatch, name):
    for each in ("gymnasium", "jax", "matplotlib", "optax", "rich"):
        monkeypatch.setattr(demo, "find_spec", lambda each: None if each == name else object())
    assert cli.main(["demo"]) == 2
    line = f"cogrs demo: {name} is not installed: pip install 'cogrs[demo]'\n"
    assert capsys.readouterr() == ("", line)


def test_demo_help_lists_options_and_defaults(capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["demo", "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    for option in ("--env", "--trials", "--seed", "--out", "--max-seconds", "--goal"):
        assert option in text
    for default in ("CartPole-v1", "16", "runs", "300", "195"):
        assert f"(default: {default}" in " ".join(text.split())


def test_demo_help_imports_no_extra():
    code = (
        "import sys; from cogrs import cli\n"
        "try: cli.main(['demo', '--help'])\n"
        "except SystemExit: pass\n"
        "names = ('grpc', 'zmq', 'numpy', 'jax', 'gymnasium')\n"
        "sys.exit(any(name in sys.modules for name in names))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_signal_handlers_are_installed_before_other_imports():
    code = (
        "import sys; before = set(sys.modules)\n"
        "from cogrs import cli\n"
        "print(*(sys.modules.keys() - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    ours = {name for name in done.stdout.split() if "cogrs" in name}
    # The second imports nothing itself.
    assert ours == {"cogrs", "cogrs.game_ids", "cogrs.cli"}
    assert "argparse" not in done.stdout.split()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_first_signal_sets_the_exit_code(capfd, number, code):
    before = signal.getsignal(number)
    with StopSignal() as stop:
        assert not stop.is_set()
        for each in (number, signal.SIGINT, signal.SIGTERM, number):
            signal.pthread_kill(threading.main_thread().ident, each)
        assert stop.is_set()
        assert stop.code == code
    assert signal.getsignal(number) is before
    assert capfd.readouterr() == ("stopping\n", "")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_before_the_start_ends_the_demo(capfd, monkeypatch, tmp_path, number, code):
    def find_spec(name):
        signal.raise_signal(number)
        return name

    monkeypatch.setattr(demo, "find_spec", find_spec)
    assert cli.main(["demo", "--out", str(tmp_path)]) == code
    assert capfd.readouterr() == ("stopping\ninterrupted\n", "")
    assert list(tmp_path.iterdir()) == []


# -- keys --


def test_keys_command_writes_and_prints_a_pair(capsys, tmp_path):
    folder = tmp_path / "new"
    assert cli.main(["keys", "actor", "--out", str(folder)]) == 0
    pair = KeyPair.load(folder / "actor.key_secret")
    assert stat.S_IMODE((folder / "actor.key_secret").stat().st_mode) == 0o600
    out, err = capsys.readouterr()
    assert [line.split()[-1] for line in out.splitlines()] == [
        pair.public,
        str(folder / "actor.key"),
        str(folder / "actor.key_secret"),
    ]
    assert (err, pair.secret in out) == ("", False)


def test_keys_command_writes_to_the_present_folder_by_default(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["keys", "actor"]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"actor.key", "actor.key_secret"}


@pytest.mark.parametrize("name", ["actor", "", "a/b", ".."])
def test_keys_command_refuses_bad_names_and_existing_files(capsys, tmp_path, name):
    KeyPair.new().save("actor", tmp_path)
    before = (tmp_path / "actor.key_secret").read_text()
    assert cli.main(["keys", name, "--out", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert err.startswith("cogrs keys: ")
    assert (tmp_path / "actor.key_secret").read_text() == before
    assert len(list(tmp_path.iterdir())) == 2


def test_keys_command_refuses_a_file_in_place_of_a_folder(capsys, tmp_path):
    (tmp_path / "file").touch()
    assert cli.main(["keys", "actor", "--out", str(tmp_path / "file")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
