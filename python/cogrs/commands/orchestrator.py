"""`cogrs orchestrator`: trials for others, until it is told to end."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import ExitStack
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cogrs.commands.parser import LOOK, REFUSED, Parser, integer, port, seconds
from cogrs.escape import escaped

if TYPE_CHECKING:
    from cogrs.orchestrator import OrchestratorHandle, Security, Settings
    from cogrs.stop_signal import StopSignal

_VARIABLE = "COGRS_ORCHESTRATOR_"
_LEVELS = ("debug", "info", "warning", "error")

_SETTINGS = {
    "start_timeout": "for OnStart of an environment or agent",
    "join_timeout": "for somebody to join each client slot",
    "heartbeat_timeout": "for a client that owes an action to be heard from",
    "reconnect_window": "for a client that was lost to return; by default heartbeat_timeout",
    "hook_timeout": "for each pre-trial hook",
    "end_timeout": "for the environment's last data",
    "final_timeout": "for actors to take their final data",
    "close_grace": "for a component to end its stream by itself",
    "call_timeout": "for each OnReward and OnMessage, and for the rest of a data log",
    "retention": "for which ended trials stay listed",
    "max_message": "bytes of the largest message",
    "max_request": "bytes of the largest message of a client or controller",
    "max_trials": "trials that have not ended",
    "max_waiting_trials": "trials that wait for clients to join",
    "max_actors": "actors of all trials that have not ended",
    "max_params_bytes": "bytes of the parameters of all trials that have not ended",
    "max_watchers": "calls of WatchTrials at a time",
    "max_streams": "calls at a time on one connection",
    "watch_backlog": "changes that wait for a slow watcher before it is dropped",
    "client_backlog": "ticks that wait for an actor that does not read before it is lost",
    "client_backlog_bytes": "bytes of such ticks, for each actor",
    "post_backlog": "messages and sources of rewards that wait, for each sender in a trial",
    "post_backlog_bytes": "bytes of such messages and sources",
    "log_backlog": "samples that wait for a data log before it is stopped",
    "log_backlog_bytes": "bytes of such samples",
}


def add_orchestrator(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add the command; its options are added when it is used, since they need imports."""
    commands.add_parser(
        "orchestrator",
        help="run a trial orchestrator",
        description="Run trials for environments, agents and clients until Ctrl-C or SIGTERM, "
        "which end trials softly first. The ports are told when they are bound. Each option can "
        f"be an environment variable too: --actor-port is {_VARIABLE}ACTOR_PORT. What is on the "
        "command line comes first.",
        epilog="Exit codes: 0 it was ended, 2 it could not start.",
        fill=_fill,
    )


def _fill(parser: Parser) -> None:
    # What gRPC would write besides is in our errors; it looks when it is imported.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from cogrs.orchestrator import Settings

    add = parser.add_argument
    add("--config", type=Path, metavar="FILE", help="cogment.yaml; see docs/orchestrator.md")
    add("--host", default="127.0.0.1", help="address to listen at (default: 127.0.0.1)")
    add("--port", type=port, default=9000, help="port, 0 takes a free one (default: 9000)")
    add("--actor-port", type=port, metavar="PORT", help="serve client actors at a port apart")
    security = parser.add_argument_group("security", "PEM files; needed beyond this machine")
    add = security.add_argument
    add("--tls-certificate", type=Path, metavar="FILE", help="certificate of this server")
    add("--tls-key", type=Path, metavar="FILE", help="its private key")
    add("--client-ca", type=Path, metavar="FILE", help="demand certificates signed by these")
    add(
        "--tokens",
        type=Path,
        metavar="FILE",
        help="tokens of controllers, one per line; each call has to show one",
    )
    add(
        "--client-tokens",
        type=Path,
        metavar="FILE",
        help="tokens with which one may join trials and play, and nothing else",
    )
    add(
        "--slot-secrets",
        choices=("asked", "required"),
        help="bind places of clients to secrets where clients ask for it, or refuse those that "
        "do not (default: asked)",
    )
    add(
        "--link-tokens",
        type=Path,
        metavar="FILE",
        help="tokens shown to components, one per line: HOST:PORT TOKEN, or HOST TOKEN",
    )
    add("--link-tls", action="store_true", help="connect to components with TLS")
    add("--link-ca", type=Path, metavar="FILE", help="the same, trusting these")
    add("--link-certificate", type=Path, metavar="FILE", help="certificate shown to components")
    add("--link-key", type=Path, metavar="FILE", help="its private key")
    add("--link-server-name", metavar="NAME", help="name in the certificates of components")
    add(
        "--insecure",
        action="store_true",
        help="use other machines without all this; also needed for --metrics-host beyond this one",
    )
    watching = parser.add_argument_group("what it tells")
    add = watching.add_argument
    add("--metrics-port", type=port, metavar="PORT", help="serve metrics for Prometheus")
    add("--metrics-host", default="127.0.0.1", metavar="HOST", help="where (default: 127.0.0.1)")
    add("--log-format", choices=("plain", "json"), default="plain", help="(default: plain)")
    add("--log-level", choices=_LEVELS, default="info", help="(default: info)")
    limits = parser.add_argument_group("durations in seconds, and limits; a duration of 0 is none")
    add = limits.add_argument
    add("--grace", type=seconds, default=10.0, help="for trials to end at the end (default: 10)")
    for field in fields(Settings):
        default = "" if field.default is None else f" (default: {field.default:.15g})"
        add(
            f"--{field.name.replace('_', '-')}",
            type=_whole if field.type == "int" else seconds,
            metavar="N",
            help=_SETTINGS[field.name] + default,
        )
    _take_variables(parser)
    parser.set_defaults(run=_run)


def _whole(text: str) -> int:
    return integer(text, 1, 2**31 - 1)


def _take_variables(parser: Parser) -> None:
    """Make defaults of environment variables."""
    for action in parser._actions:
        name = _VARIABLE + action.dest.upper()
        text = os.environ.get(name)
        if text is None or action.dest == "help":
            continue
        try:
            action.default = _read_variable(action, text)
        except argparse.ArgumentTypeError as error:
            parser.error(f"{name}: {error}")


def _read_variable(action: argparse.Action, text: str) -> Any:
    if action.nargs == 0:
        if text not in ("0", "1"):
            raise argparse.ArgumentTypeError(f"expected 0 or 1, got {text!r}")
        return text == "1"
    if action.choices is not None and text not in action.choices:
        raise argparse.ArgumentTypeError(f"expected {' or '.join(action.choices)}, got {text!r}")
    return action.type(text) if callable(action.type) else text


def _run(given: argparse.Namespace, stop: StopSignal) -> int:
    from cogrs.orchestrator import serve_orchestrator
    from cogrs.orchestrator.service.log_format import log_to_stderr

    if given.config is None:
        return _refuse("--config: expected a cogment.yaml, got none")
    log_to_stderr(given.log_format, given.log_level)
    try:
        config, security = _configured(given)
        with ExitStack() as stack:
            running = serve_orchestrator(
                config,
                host=given.host,
                port=given.port,
                actor_port=given.actor_port,
                settings=_settings(given),
                security=security,
                uvloop=True,
            )
            stack.callback(running.stop, given.grace)
            _tell(running, given, stack)
            while not stop.is_set():
                if running.wait(LOOK):
                    return _refuse("its event loop ended")
    except (ImportError, OSError, RuntimeError, TypeError, ValueError) as error:
        return _refuse(str(error))
    return 0


def _tell(running: OrchestratorHandle, given: argparse.Namespace, stack: ExitStack) -> None:
    lines = [("port", running.port)]
    if running.actor_port != running.port:
        lines.append(("actor_port", running.actor_port))
    if given.metrics_port is not None:
        from cogrs.orchestrator.metrics import Metrics, serve_metrics

        metrics = serve_metrics(
            Metrics(running),
            given.metrics_host,
            given.metrics_port,
            insecure=given.insecure,
            consent="--insecure",
        )
        lines.append(("metrics_port", stack.enter_context(metrics)))
    for name, value in lines:
        print(f"{name:13} {value}", flush=True)


def _settings(given: argparse.Namespace) -> Settings:
    from cogrs.orchestrator import Settings

    values = {name: getattr(given, name) for name in _SETTINGS}
    return Settings(**{name: value for name, value in values.items() if value is not None})


def _configured(given: argparse.Namespace) -> tuple[Any, Security | None]:
    """Return the configuration, and its security with what is on the command line in it."""
    from cogrs.orchestrator import Security
    from cogrs.orchestrator.service.config import read_config
    from cogrs.orchestrator.service.security_config import NAMES, read_security

    values = {name: getattr(given, name) for name in NAMES}
    told = {name: value for name, value in values.items() if value not in (None, False)}
    if not told:
        return given.config, None
    changes = read_security(told, Path(), lambda name: f"--{name.replace('_', '-')}")
    config = read_config(given.config)
    return config, replace(config.security or Security(), **changes)


def _refuse(reason: str) -> int:
    print(escaped(f"cogrs orchestrator: {reason}"), file=sys.stderr)
    return REFUSED
