"""`cogrs keys`, `cogrs replay-server` and `cogrs replay-proxy`."""

from __future__ import annotations

import argparse
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, cast

from cogrs.commands.parser import DONE, LOOK, Parser, fail, port

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cogrs.replay.proxy import ReplayProxy
    from cogrs.replay.server import ReplayMemoryServer
    from cogrs.stop_signal import StopSignal

_PROXY_ENDPOINTS = {
    "rep_front": "clients' requests arrive here",
    "rep_back": "the server's request workers connect here",
    "pull_front": "clients' caches arrive here",
    "pull_back": "the server's cache workers connect here",
}
_EXIT_CODES = "Exit codes: 0 ended by Ctrl-C or SIGTERM, 2 it could not start."


def add_keys(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add `cogrs keys`."""
    keys = commands.add_parser(
        "keys",
        help="create a key pair for replay over a network",
        description="Create a CURVE key pair: NAME.key, for peers, and NAME.key_secret, which only "
        "its owner may read. Existing files are not overwritten.",
        epilog="Exit codes: 0 the files were created, 2 they were not.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    keys.add_argument("name", metavar="NAME", help="name of the files, without suffix")
    keys.add_argument(
        "--out", type=Path, default=Path("."), metavar="DIR", help="folder for the files"
    )
    keys.set_defaults(run=_keys)


def add_replay_server(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add `cogrs replay-server`."""
    server = commands.add_parser(
        "replay-server",
        help="run a replay server that a file describes",
        description="Receive caches, counters and log lines of clients until Ctrl-C or SIGTERM. "
        "Prints the endpoints once they are bound.",
        epilog=_EXIT_CODES,
    )
    server.add_argument(
        "--config",
        type=Path,
        required=True,
        metavar="FILE",
        help="TOML file; see docs/replay-servers.md",
    )
    server.add_argument(
        "--metrics-port",
        type=port,
        metavar="PORT",
        help="serve Prometheus metrics at this port of the loopback; 0 takes a free one",
    )
    server.set_defaults(run=_replay_server)


def add_replay_proxy(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add `cogrs replay-proxy`."""
    proxy = commands.add_parser(
        "replay-proxy",
        help="forward replay clients to workers that connect",
        description="Forward messages between clients, at the fronts, and a server's workers, at "
        "the backs, until Ctrl-C or SIGTERM. Prints the endpoints once they are bound.",
        epilog=_EXIT_CODES,
    )
    add = proxy.add_argument
    for name, text in _PROXY_ENDPOINTS.items():
        option = f"--{name.replace('_', '-')}"
        add(option, required=True, metavar="ENDPOINT", help=f"tcp://HOST:PORT; {text}")
    add("--key", metavar="FILE", help="the server's key pair, NAME.key_secret")
    add("--allow", metavar="DIR", help="folder of the clients' public keys")
    add(
        "--allow-samplers",
        metavar="DIR",
        help="folder of the public keys of clients that may sample (default: all may)",
    )
    add("--insecure", action="store_true", help="allow remote peers without keys")
    proxy.set_defaults(run=_replay_proxy)


def _keys(given: argparse.Namespace, _stop: StopSignal) -> int:
    from cogrs.replay.key_pair import KeyPair

    try:
        pair = KeyPair.new()
        public, secret = pair.save(given.name, given.out)
    except (OSError, RuntimeError, ValueError) as error:
        return fail("keys", str(error))
    print(f"public key  {pair.public}")
    print(f"for peers   {public}")
    print(f"secret      {secret}")
    return DONE


def _replay_server(given: argparse.Namespace, stop: StopSignal) -> int:
    def start() -> ReplayMemoryServer:
        from cogrs.replay.config import start_server

        return start_server(given.config)

    endpoints = ("pub_endpoint", "rep_endpoint", "pull_endpoint")
    return _run_until_stopped("replay-server", start, stop, endpoints, given.metrics_port)


def _replay_proxy(given: argparse.Namespace, stop: StopSignal) -> int:
    def start() -> ReplayProxy:
        from cogrs.replay.proxy import ReplayProxy

        return ReplayProxy(
            *(getattr(given, name) for name in _PROXY_ENDPOINTS),
            key=given.key,
            allow=given.allow,
            allow_samplers=given.allow_samplers,
            insecure=given.insecure,
        )

    return _run_until_stopped("replay-proxy", start, stop, tuple(_PROXY_ENDPOINTS))


def _run_until_stopped(
    command: str,
    start: Callable[[], ReplayMemoryServer | ReplayProxy],
    stop: StopSignal,
    endpoints: Sequence[str],
    metrics_port: int | None = None,
) -> int:
    """Run a server until Ctrl-C or SIGTERM, and print its endpoints."""
    try:
        with ExitStack() as stack:
            running = stack.enter_context(start())
            lines = [(name, getattr(running, name)) for name in endpoints]
            if metrics_port is not None:
                from cogrs.replay.metrics import Metrics, serve_metrics

                # Of a server only: proxies have no statistics.
                metrics = Metrics(cast("ReplayMemoryServer", running))
                bound = stack.enter_context(serve_metrics(metrics, "127.0.0.1", metrics_port))
                lines.append(("metrics_port", bound))
            for name, value in lines:
                print(f"{name:13} {value}", flush=True)
            while not stop.is_set():
                time.sleep(LOOK)
    except (ImportError, MemoryError, OSError, RuntimeError, ValueError) as error:
        return fail(command, str(error))
    return DONE
