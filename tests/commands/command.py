"""`cogrs orchestrator` as a program, and `cogrs trial` in this process."""

from contextlib import contextmanager

from cogrs import cli
from tests.program import program

CONFIG = """
trial_params:
  environment: {endpoint: "127.0.0.1:9"}
  actors: [{name: alice, actor_class: player, endpoint: client}]
"""
TOKEN = "a-token-of-23-characters"


def script(*arguments):
    return f"import sys; from cogrs import cli; sys.exit(cli.main({[*map(str, arguments)]!r}))"


@contextmanager
def orchestrator(config, *arguments):
    """One that runs, with what it told: ports by name."""
    call = script("orchestrator", "--config", config, "--port", 0, *arguments)
    with program(call) as process:
        ports = {}
        lines = 1 + sum("-port" in str(each) for each in arguments)
        for _ in range(lines):
            name, value = process.stdout.readline().split()
            ports[name] = int(value)
        yield process, ports


def trial(capsys, port, verb, *arguments, code=0):
    """What a command prints."""
    where = ["--endpoint", f"127.0.0.1:{port}"]
    assert cli.main(["trial", verb, *where, *map(str, arguments)]) == code
    out, err = capsys.readouterr()
    return out if code == 0 else err
