"""The command line: what it understands, what it says, and what it refuses in one line."""

import subprocess
import sys

import pytest

from cogrs import cli


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
    ],
    ids=" ".join,
)
def test_bad_numbers(capsys, arguments):
    line = refusal(capsys, "demo", *arguments)
    option, value = arguments
    assert line.startswith(f"cogrs demo: argument {option}: expected")
    assert line.endswith(f"got {value!r}\n")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "COMMAND"),
        (["demonstrate"], "demo"),
        (["demo", "--nothing"], "--nothing"),
        (["demo", "--trials"], "--trials"),
    ],
)
def test_what_is_not_understood(capsys, arguments, text):
    assert text in refusal(capsys, *arguments)


@pytest.mark.parametrize("name", ["gymnasium", "jax", "matplotlib", "optax", "rich"])
def test_missing_extra(capsys, monkeypatch, name):
    for each in ("gymnasium", "jax", "matplotlib", "optax", "rich"):
        monkeypatch.setattr(cli, "find_spec", lambda each: None if each == name else object())
    assert cli.main(["demo"]) == 2
    line = f"cogrs demo: {name} is not installed: pip install 'cogrs[demo]'\n"
    assert capsys.readouterr() == ("", line)


def test_help(capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["demo", "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    for option in ("--env", "--trials", "--seed", "--out", "--max-seconds", "--goal"):
        assert option in text
    for default in ("CartPole-v1", "16", "runs", "300", "195"):
        assert f"(default: {default}" in " ".join(text.split())


def test_help_needs_no_extra():
    code = (
        "import sys; from cogrs import cli\n"
        "try: cli.main(['demo', '--help'])\n"
        "except SystemExit: pass\n"
        "names = ('grpc', 'zmq', 'numpy', 'jax', 'gymnasium')\n"
        "sys.exit(any(name in sys.modules for name in names))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
