"""`cogrs orchestrator`: run an orchestrator until Ctrl-C or SIGTERM."""

from __future__ import annotations

import argparse
import os
from contextlib import ExitStack
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cogrs.commands.parser import LOOK, Parser, fail, integer, port, seconds

if TYPE_CHECKING:
    from cogrs.orchestrator import OrchestratorHandle, Security, Settings
    from cogrs.stop_signal import StopSignal

_VARIABLE = "COGRS_ORCHESTRATOR_"
_LEVELS = ("debug", "info", "warning", "error")

_SETTINGS = {
    "start_timeout": "timeout of OnStart of an environment or agent",
    "join_timeout": "timeout for clients to join a trial",
    "heartbeat_timeout": "timeout of a client that owes an action and sends no heartbeat",
    "reconnect_window": "time for a lost client to return (default: heartbeat_timeout)",
    "hook_timeout": "timeout of each pre-trial hook",
    "end_timeout": "timeout of the environment's final observations",
    "final_timeout": "timeout for actors to receive their final data",
    "close_grace": "time for a component to end its stream before it is cancelled",
    "call_timeout": "timeout of each OnReward and OnMessage, and of a data log's last samples",
    "retention": "time for which ended trials stay listed",
    "late_rewards": "time for which agents of ended trials can be rewarded; 0 means not at all",
    "max_message": "maximum size of a message in bytes",
    "max_request": "maximum size of a message of a client or controller in bytes",
    "max_trials": "maximum number of trials that have not ended",
    "max_waiting_trials": "maximum number of trials that wait for clients to join",
    "max_actors": "maximum number of actors in trials that have not ended",
    "max_params_bytes": "maximum size of the parameters of these trials in bytes",
    "max_watchers": "maximum number of concurrent WatchTrials calls",
    "max_streams": "maximum number of concurrent calls per connection",
    "watch_backlog": "changes of state that wait for a slow watcher before it is dropped",
    "client_backlog": "ticks that wait for an actor that does not read before it is lost",
    "client_backlog_bytes": "maximum size of these ticks in bytes, per actor",
    "post_backlog": "messages and reward sources that wait for their tick, per sender in a trial",
    "post_backlog_bytes": "maximum size of these messages and sources in bytes",
    "log_backlog": "samples that wait for a slow data log before it is stopped",
    "log_backlog_bytes": "maximum size of these samples in bytes",
}

_SECURITY = {
    "tls_certificate": "certificate of this server",
    "tls_key": "private key of that certificate",
    "client_ca": "require client certificates that are signed by these",
    "tokens": "tokens of controllers, one per line; each call has to carry one",
    "client_tokens": "tokens that only allow joining trials and playing",
    "slot_secrets": "bind client slots to secrets when clients ask for that, or always (default: "
    "asked)",
    "link_tokens": "tokens sent to components, one per line: HOST:PORT TOKEN, or HOST TOKEN",
    "link_tls": "connect to components with TLS",
    "link_ca": "connect with TLS, and trust these certificates",
    "link_certificate": "client certificate for components",
    "link_key": "private key of that certificate",
    "link_server_name": "host name in the certificates of components",
    "insecure": "allow remote peers without TLS and tokens, and a remote --metrics-host",
}


def add_orchestrator(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add the command; its options are added when it is used, since they need imports."""
    commands.add_parser(
        "orchestrator",
        help="run a trial orchestrator",
        description="Run trials for environments, agents and clients until Ctrl-C or SIGTERM, "
        "after which running trials get --grace seconds to end. Prints the ports once they are "
        f"bound. Each option is an environment variable too, such as {_VARIABLE}ACTOR_PORT for "
        "--actor-port; the command line takes precedence.",
        epilog="Exit codes: 0 ended by Ctrl-C or SIGTERM, 2 it could not start.",
        fill=_fill,
    )


def _fill(parser: Parser) -> None:
    # gRPC's own log repeats our errors; it reads the variable when it is imported.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from cogrs.orchestrator import Settings
    from cogrs.orchestrator.service.security_config import FILES, FLAGS

    add = parser.add_argument
    add("--config", type=Path, metavar="FILE", help="cogment.yaml; see docs/orchestrator.md")
    add("--host", default="127.0.0.1", help="address to listen at (default: 127.0.0.1)")
    add("--port", type=port, default=9000, help="port; 0 takes a free one (default: 9000)")
    add(
        "--store",
        metavar="DIR",
        help="store trials in this folder, or with an index at postgresql://...; in place of the "
        "datalog of the configuration",
    )
    add(
        "--store-files",
        metavar="DIR",
        help="folder of the trials' files if the index is in PostgreSQL",
    )
    add("--actor-port", type=port, metavar="PORT", help="separate port for client actors")
    security = parser.add_argument_group(
        "security", "files are PEM; required if remote peers can connect"
    )
    for name, text in _SECURITY.items():
        kind: dict[str, Any] = {"metavar": "NAME"}
        if name in FLAGS:
            kind = {"action": "store_true"}
        elif name in FILES:
            kind = {"type": Path, "metavar": "FILE"}
        elif name == "slot_secrets":
            kind = {"choices": ("asked", "required")}
        security.add_argument(_option(name), help=text, **kind)
    add = parser.add_argument_group("metrics and log").add_argument
    add("--metrics-port", type=port, metavar="PORT", help="serve Prometheus metrics at this port")
    add(
        "--metrics-host",
        default="127.0.0.1",
        metavar="HOST",
        help="address to serve metrics at (default: 127.0.0.1)",
    )
    add("--log-format", choices=("plain", "json"), default="plain", help="(default: plain)")
    add("--log-level", choices=_LEVELS, default="info", help="(default: info)")
    limits = parser.add_argument_group(
        "durations and limits", "durations are seconds; a timeout of 0 means no limit"
    )
    add = limits.add_argument
    add(
        "--grace",
        type=seconds,
        default=10.0,
        help="time for running trials to end on shutdown (default: 10)",
    )
    for field in fields(Settings):
        default = "" if field.default is None else f" (default: {field.default:.15g})"
        add(
            _option(field.name),
            type=_whole if field.type == "int" else seconds,
            metavar="N",
            help=_SETTINGS[field.name] + default,
        )
    _take_variables(parser)
    parser.set_defaults(run=_run)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _whole(text: str) -> int:
    return integer(text, 1, 2**31 - 1)


def _take_variables(parser: Parser) -> None:
    """Take the options' defaults from environment variables."""
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
        return fail("orchestrator", "--config: expected a cogment.yaml, got none")
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
            _print_ports(running, given, stack)
            while not stop.is_set():
                if running.wait(LOOK):
                    return fail("orchestrator", "its event loop ended")
    except (ImportError, OSError, RuntimeError, TypeError, ValueError) as error:
        return fail("orchestrator", str(error))
    return 0


def _print_ports(running: OrchestratorHandle, given: argparse.Namespace, stack: ExitStack) -> None:
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
    """Return the configuration, and its security with the options of the command line."""
    from cogrs.orchestrator import Security
    from cogrs.orchestrator.service.config import read_config
    from cogrs.orchestrator.service.security_config import NAMES, read_security
    from cogrs.store.location import locate

    values = {name: getattr(given, name) for name in NAMES}
    told = {name: value for name, value in values.items() if value not in (None, False)}
    config = given.config
    if given.store is not None or given.store_files is not None:
        store = locate(given.store or "", given.store_files, "--store")
        config = replace(read_config(config), store=store, log_url="")
    if not told:
        return config, None
    changes = read_security(told, Path(), _option)
    config = read_config(config)
    return config, replace(config.security or Security(), **changes)
