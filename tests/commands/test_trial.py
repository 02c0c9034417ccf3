"""`cogrs trial` among other programs: nobody reads it, nobody answers it, odd files and names."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from cogrs import cli
from tests.commands.command import orchestrator, trial

UNREAD = 141


def into_a_closed_pipe(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command whose output nobody reads."""
    call = [sys.executable, "-m", "cogrs", "trial", *arguments]
    with subprocess.Popen(["true"], stdin=subprocess.PIPE) as nobody:
        nobody.wait()
        return subprocess.run(
            call, stdout=nobody.stdin, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )


def test_closed_output_ends_the_command_without_an_error(capsys, config):
    # The trial has ended before `watch` has started: its environment is not there.
    with orchestrator(config, "--retention", "600") as (_, ports):
        trial(capsys, ports["port"], "start")
        where = ("--endpoint", f"127.0.0.1:{ports['port']}")
        for arguments in (["info"], ["info", "--json"], ["watch"], ["start"], ["start", "--wait"]):
            done = into_a_closed_pipe(*arguments, *where)
            assert (done.returncode, done.stderr) == (UNREAD, ""), arguments


@pytest.mark.parametrize("verb", ["start", "watch", "info", "terminate"])
def test_port_without_replies_is_abandoned(capsys, verb):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        names = ["x"] if verb == "terminate" else []
        err = trial(capsys, port, verb, "--timeout", "0.5", *names, code=1)
    assert "no answer within 0.5 s" in err or "UNAVAILABLE" in err
    assert len(err.splitlines()) == 1


def test_file_or_name_that_is_not_text_is_named(capsys, tmp_path):
    token = tmp_path / "token"
    token.write_bytes(b"\xff\xfe")
    err = trial(capsys, 9, "info", "--token", token, code=2)
    assert f"{token}: expected text in UTF-8" in err
    err = trial(capsys, 9, "start", "--user-id", "\udcff", code=2)
    assert "user_id: expected Unicode text, got '\\udcff'" in err
    assert cli.main(["orchestrator", "--config", str(token), "--tokens", str(token)]) == 2
    assert "expected text in UTF-8" in capsys.readouterr().err
