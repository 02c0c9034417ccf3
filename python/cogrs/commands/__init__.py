"""The commands of the command line, their options and exit codes."""

from __future__ import annotations

import argparse
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from cogrs.commands.orchestrator import add_orchestrator
from cogrs.commands.parser import LOOK, REFUSED, Parser, integer, number, seconds
from cogrs.commands.trial import add_trial
from cogrs.escape import escaped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cogrs.replay.proxy import ReplayProxy
    from cogrs.replay.server import ReplayMemoryServer
    from cogrs.stop_signal import StopSignal

_REACHED, _NOT_REACHED, _REFUSED = 0, 1, REFUSED
_EXTRA = ("gymnasium", "jax", "matplotlib", "optax", "rich")
_MAX_TRIALS, _MAX_WORKERS = 1000, 64
_ENDS = ("rep_front", "rep_back", "pull_front", "pull_back")


class _Version(argparse.Action):
    """Prints the version, for which the extension is loaded."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        from cogrs import __version__

        print(f"cogrs {__version__}")
        parser.exit(0)


def run(arguments: Sequence[str] | None, stop: StopSignal) -> int:
    """Run a command; return its exit code."""
    parser = Parser(prog="cogrs", description="Replay, batches and trials for learning teams.")
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    commands = parser.add_subparsers(metavar="COMMAND", dest="command")
    _add_demo(commands)
    _add_keys(commands)
    _add_replay_server(commands)
    _add_replay_proxy(commands)
    add_orchestrator(commands)
    add_trial(commands)
    _add_doctor(commands)
    given = parser.parse_args(arguments)
    if given.command is None:
        parser.print_help(sys.stderr)
        return _REFUSED
    return int(given.run(given, stop))


def _add_doctor(commands: argparse._SubParsersAction[Parser]) -> None:
    doctor = commands.add_parser(
        "doctor",
        help="look at what cogrs needs of this machine",
        description="Print versions, optional packages, round trips over ZeroMQ and gRPC on "
        "loopback, and limits, with a hint for what is wrong.",
        epilog="Exit codes: 0 nothing is wrong, 1 something is.",
    )
    doctor.set_defaults(run=_doctor)


def _doctor(_given: argparse.Namespace, _stop: StopSignal) -> int:
    from cogrs.doctor import examine, report

    return report(examine())


def _add_demo(commands: argparse._SubParsersAction[Parser]) -> None:
    demo = commands.add_parser(
        "demo",
        help="learn a task from trials, end to end",
        description="Learn a Gymnasium task: trials of environments and batched agents, "
        "prioritized replay over the network, a learner, its parameters back to the actors. "
        "CartPole is learned with the default settings; other environments run, but that they "
        "are learned is not promised.",
        epilog="Exit codes: 0 the goal was reached, 1 it was not, 2 nothing could start, 130 "
        "Ctrl-C, 143 SIGTERM.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    demo.add_argument("--env", default="CartPole-v1", help="Gymnasium id, with discrete actions")
    demo.add_argument("--trials", type=_trials, default=16, help="trials at the same time")
    demo.add_argument("--workers", type=_workers, default=1, help="processes that act")
    demo.add_argument(
        "--resume", type=_folder, metavar="DIR", help="folder of a run that is to go on"
    )
    demo.add_argument(
        "--seed",
        type=_seed,
        default=0,
        help="seed of what processes draw; runs of one seed differ all the same, by the timing "
        "between processes",
    )
    demo.add_argument(
        "--out", type=_folder, default=Path("runs"), help="folder for curve and metrics"
    )
    demo.add_argument("--max-seconds", type=seconds, default=300.0, help="end after so long")
    demo.add_argument(
        "--goal", type=number, default=195.0, help="mean return of 20 trials to reach"
    )
    demo.set_defaults(run=_demo)


def _add_keys(commands: argparse._SubParsersAction[Parser]) -> None:
    keys = commands.add_parser(
        "keys",
        help="make a key pair for replay over a network",
        description="Make a CURVE key pair: NAME.key, to be given to peers, and NAME.key_secret, "
        "which only its owner may read. Files that are there are not overwritten.",
        epilog="Exit codes: 0 they were made, 2 they were not.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    keys.add_argument("name", metavar="NAME", help="name of the files, without a suffix")
    keys.add_argument("--out", type=Path, default=Path("."), metavar="DIR", help="folder for them")
    keys.set_defaults(run=_keys)


def _add_replay_server(commands: argparse._SubParsersAction[Parser]) -> None:
    server = commands.add_parser(
        "replay-server",
        help="run a replay server that a file describes",
        description="Receive caches, counters and log lines of clients until Ctrl-C or SIGTERM. "
        "The file is TOML: see docs/replay.md. The endpoints are told when they are bound.",
        epilog="Exit codes: 0 it was ended, 2 it could not start.",
    )
    server.add_argument("--config", type=Path, required=True, metavar="FILE", help="TOML file")
    server.set_defaults(run=_replay_server)


def _add_replay_proxy(commands: argparse._SubParsersAction[Parser]) -> None:
    proxy = commands.add_parser(
        "replay-proxy",
        help="pass clients of replay on to workers that connect",
        description="Listen to clients at the fronts and to a server's workers at the backs, until "
        "Ctrl-C or SIGTERM. The endpoints are told when they are bound.",
        epilog="Exit codes: 0 it was ended, 2 it could not start.",
    )
    for name in _ENDS:
        option = f"--{name.replace('_', '-')}"
        proxy.add_argument(option, required=True, metavar="ENDPOINT", help="tcp://HOST:PORT")
    proxy.add_argument("--key", metavar="FILE", help="key pair of the server, NAME.key_secret")
    proxy.add_argument("--allow", metavar="DIR", help="folder of the clients' public keys")
    proxy.add_argument(
        "--allow-samplers", metavar="DIR", help="folder of those that may draw, if not all may"
    )
    proxy.add_argument(
        "--insecure", action="store_true", help="listen to other machines without keys"
    )
    proxy.set_defaults(run=_replay_proxy)


def _trials(text: str) -> int:
    return integer(text, 1, _MAX_TRIALS)


def _workers(text: str) -> int:
    return integer(text, 1, _MAX_WORKERS)


def _seed(text: str) -> int:
    return integer(text, 0, 2**32 - 1)


def _folder(text: str) -> Path:
    if not text.strip():
        raise argparse.ArgumentTypeError(f"expected a folder, got {text!r}")
    return Path(text)


def _demo(given: argparse.Namespace, stop: StopSignal) -> int:
    for name in _EXTRA:
        if find_spec(name) is None:
            return _say(_REFUSED, f"{name} is not installed: pip install 'cogrs[demo]'")
    from cogrs.demo.child_process import FailedError, RefusedError
    from cogrs.demo.options import Options
    from cogrs.demo.run import run

    options = Options(
        env=given.env,
        trials=given.trials,
        workers=given.workers,
        resume=given.resume,
        seed=given.seed,
        out=given.out,
        max_seconds=given.max_seconds,
        goal=given.goal,
    )
    try:
        progress, files = run(options, stop)
    except FailedError as error:
        if stop.is_set():  # who is told to end as we are may be sooner
            print("interrupted")
            return stop.code
        return _say(_REFUSED if isinstance(error, RefusedError) else _NOT_REACHED, str(error))
    if progress.curve:
        for name, text in progress.rows():
            print(f"{name:12} {text}")
    if progress.reached:
        code, end = _REACHED, "goal reached"
    elif stop.is_set():
        code, end = stop.code, "interrupted"
    else:
        code, end = _NOT_REACHED, "goal not reached"
    print(end)
    for path in files:
        print(path)
    return code


def _keys(given: argparse.Namespace, _stop: StopSignal) -> int:
    from cogrs.replay.key_pair import KeyPair

    try:
        pair = KeyPair.new()
        public, secret = pair.save(given.name, given.out)
    except (OSError, RuntimeError, ValueError) as error:
        print(escaped(f"cogrs keys: {error}"), file=sys.stderr)
        return _REFUSED
    print(f"public key  {pair.public}")
    print(f"for peers   {public}")
    print(f"secret      {secret}")
    return _REACHED


def _replay_server(given: argparse.Namespace, stop: StopSignal) -> int:
    def start() -> ReplayMemoryServer:
        from cogrs.replay.config import start_server

        return start_server(given.config)

    return _until_ended(
        "replay-server", start, stop, ("pub_endpoint", "rep_endpoint", "pull_endpoint")
    )


def _replay_proxy(given: argparse.Namespace, stop: StopSignal) -> int:
    def start() -> ReplayProxy:
        from cogrs.replay.proxy import ReplayProxy

        ends = (getattr(given, name) for name in _ENDS)
        return ReplayProxy(
            *ends,
            key=given.key,
            allow=given.allow,
            allow_samplers=given.allow_samplers,
            insecure=given.insecure,
        )

    return _until_ended("replay-proxy", start, stop, _ENDS)


def _until_ended(
    command: str,
    start: Callable[[], ReplayMemoryServer | ReplayProxy],
    stop: StopSignal,
    endpoints: Sequence[str],
) -> int:
    """Run something until Ctrl-C or SIGTERM, and tell where it listens."""
    try:
        with start() as running:
            for name in endpoints:
                print(f"{name:13} {getattr(running, name)}", flush=True)
            while not stop.is_set():
                time.sleep(LOOK)
    except (MemoryError, OSError, RuntimeError, ValueError) as error:
        print(escaped(f"cogrs {command}: {error}"), file=sys.stderr)
        return _REFUSED
    return _REACHED


def _say(code: int, reason: str) -> int:
    print(escaped(f"cogrs demo: {reason}"), file=sys.stderr)
    return code
