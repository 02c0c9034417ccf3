"""`cogrs trial`: start, watch and end trials of an orchestrator that runs elsewhere."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cogrs.commands.parser import DONE, FAILED, LOOK, REFUSED, Parser, fail, read_text, seconds
from cogrs.escape import escaped
from cogrs.files import read_bounded
from cogrs.limits import MAX_MESSAGE

if TYPE_CHECKING:
    import argparse
    import asyncio
    from collections.abc import Awaitable, Callable

    from cogrs.sdk import TrialController, TrialEnd, TrialState
    from cogrs.stop_signal import StopSignal

_UNREAD = 141
"""Exit code as of SIGPIPE."""
_STATES = ("INITIALIZING", "PENDING", "RUNNING", "TERMINATING", "ENDED")
_CODES = (
    "Exit codes: 0 done, 1 the orchestrator refused, could not be reached in time, or the trial of "
    "start --wait failed, 2 an argument or a file is invalid, 130 Ctrl-C, 141 the output was "
    "closed, 143 SIGTERM."
)


def add_trial(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add the command and those below it."""
    trial = commands.add_parser(
        "trial",
        help="start, watch and end trials",
        description="Start, watch, list and end trials of a running orchestrator.",
    )
    verbs = trial.add_subparsers(metavar="VERB", dest="verb", required=True)
    start = _add(verbs, "start", "start a trial", _start)
    start.add_argument(
        "--trial-config", type=Path, metavar="FILE", help="trial config, a serialized message"
    )
    start.add_argument(
        "--params",
        type=Path,
        metavar="FILE",
        help="YAML file with trial parameters; the orchestrator must accept them "
        "(trial.accept_params)",
    )
    start.add_argument(
        "--user-id", default="", metavar="ID", help="user id for the orchestrator's log"
    )
    start.add_argument("--wait", action="store_true", help="wait until the trial has ended")
    watch = _add(verbs, "watch", "print each change of state until Ctrl-C", _watch)
    watch.add_argument(
        "trial", nargs="?", metavar="TRIAL", help="watch only this trial, until it has ended"
    )
    watch.add_argument(
        "--state",
        action="append",
        choices=_STATES,
        default=[],
        help="print only changes to this state; may be repeated",
    )
    terminate = _add(verbs, "terminate", "ask the orchestrator to end trials", _terminate)
    terminate.add_argument("trial", nargs="+", metavar="TRIAL", help="id of a trial")
    info = _add(verbs, "info", "print the states of trials", _info)
    info.add_argument(
        "trial", nargs="?", metavar="TRIAL", help="print only this trial (default: all)"
    )


def _add(
    verbs: argparse._SubParsersAction[Parser],
    name: str,
    text: str,
    work: Callable[[argparse.Namespace, TrialController], Awaitable[None]],
) -> Parser:
    verb = verbs.add_parser(
        name, help=text, description=f"{text[0].upper()}{text[1:]}.", epilog=_CODES
    )
    add = verb.add_argument
    add(
        "--endpoint",
        default="localhost:9000",
        help="HOST:PORT of the orchestrator (default: localhost:9000)",
    )
    add("--json", action="store_true", help="print JSON, one object per line")
    add("--timeout", type=seconds, default=30.0, help="seconds to wait for a reply (default: 30)")
    add("--token", type=Path, metavar="FILE", help="file with the token to send")
    add("--tls", action="store_true", help="connect with TLS")
    add("--ca", type=Path, metavar="FILE", help="connect with TLS, and trust these certificates")
    add("--certificate", type=Path, metavar="FILE", help="client certificate")
    add("--key", type=Path, metavar="FILE", help="private key of that certificate")
    add("--server-name", metavar="NAME", help="host name in the orchestrator's certificate")
    verb.set_defaults(run=_run, work=work)
    return verb


def _run(given: argparse.Namespace, stop: StopSignal) -> int:
    import asyncio

    import grpc

    from cogrs.sdk import TrialFailedError

    command, code = f"trial {given.verb}", FAILED
    try:
        ended = asyncio.run(_work(given, stop))
        return DONE if ended else stop.code
    except BrokenPipeError:
        # The reader of the output has enough, as `head` has; the rest is not to be flushed at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return _UNREAD
    except grpc.aio.AioRpcError as error:
        details = " ".join((error.details() or "").split())
        reason = f"{given.endpoint}: {error.code().name}: {details}"
    except TrialFailedError as error:
        reason = str(error)
    except (ConnectionError, TimeoutError) as error:
        reason = f"{given.endpoint}: {str(error) or f'no answer within {given.timeout:g} s'}"
    except (OSError, ValueError) as error:
        code, reason = REFUSED, str(error)
    return fail(command, reason, code)


async def _work(given: argparse.Namespace, stop: StopSignal) -> bool:
    """Run the verb; return whether it ended before a signal came."""
    import asyncio

    from cogrs.event_loop import handle_exception

    asyncio.get_running_loop().set_exception_handler(handle_exception)
    async with _controller(given) as controller:
        task = asyncio.ensure_future(given.work(given, controller))
        try:
            while not task.done() and not stop.is_set():
                await asyncio.wait({task}, timeout=LOOK)
            if not task.done():
                return False
            task.result()
            return True
        finally:
            task.cancel()
            await asyncio.wait({task})


def _timeout(given: argparse.Namespace) -> asyncio.Timeout:
    import asyncio  # takes longer to import than all that other commands need

    return asyncio.timeout(given.timeout or None)


def _controller(given: argparse.Namespace) -> TrialController:
    from cogrs.sdk import TrialController
    from cogrs.tls import ClientTls
    from cogrs.tokens import read_token

    tls = None
    files = (given.ca, given.certificate, given.key, given.server_name)
    if given.tls or any(files):
        ca, certificate, key, name = files
        tls = ClientTls(ca=ca, certificate=certificate, key=key, server_name=name)
    token = None if given.token is None else read_token("--token", given.token)
    user_id = getattr(given, "user_id", "")
    return TrialController(given.endpoint, user_id=user_id, tls=tls, token=token)


async def _start(given: argparse.Namespace, controller: TrialController) -> None:
    from cogrs.sdk import TrialFailedError

    config = None if given.trial_config is None else read_bounded(given.trial_config, MAX_MESSAGE)
    async with _timeout(given):
        trial = await controller.start_trial(config, params=_params(given.params))
    actors = [{"name": actor.name, "actor_class": actor.actor_class} for actor in trial.actors]
    if given.json:
        _print_json({"trial_id": trial.id, "actors": actors})
    else:
        print(escaped(trial.id), flush=True)
    if given.wait:
        end = await controller.wait_ended(trial.id)
        _print_state(given, trial.id, "ENDED", end)
        if end.failed:
            raise TrialFailedError(trial, end.reason)


def _params(path: Path | None) -> Any:
    if path is None:
        return None
    from cogrs.limits import CONFIG_BYTES
    from cogrs.yaml_document import parse_yaml

    try:
        params = parse_yaml(read_text(path, CONFIG_BYTES))
    except ValueError as error:
        raise ValueError(f"--params: {path}: {error}") from error
    if not isinstance(params, dict):
        raise ValueError(f"--params: {path}: expected a section, got {type(params).__name__}")
    return params


async def _watch(given: argparse.Namespace, controller: TrialController) -> None:
    from cogrs.sdk import TrialState

    wanted = {TrialState[name] for name in given.state} or set(TrialState)
    async with _timeout(given):
        if given.trial is not None:
            await controller.trial_state(given.trial)  # fails if the trial does not exist
        else:
            await controller.trials()  # fails if the orchestrator cannot be reached
    asked = wanted if given.trial is None else wanted | {TrialState.ENDED}
    states = () if asked == set(TrialState) else asked
    async for trial_id, state in controller.watch_trials(states):
        if given.trial in (None, trial_id):
            if state in wanted:
                _print_state(given, trial_id, state.name)
            if given.trial == trial_id and state is TrialState.ENDED:
                return
    raise ConnectionError("the orchestrator closed the watch")


async def _terminate(given: argparse.Namespace, controller: TrialController) -> None:
    for trial_id in given.trial:
        async with _timeout(given):
            await controller.terminate_trial(trial_id)
        if given.json:
            _print_json({"trial_id": trial_id, "terminate": "asked"})


async def _info(given: argparse.Namespace, controller: TrialController) -> None:
    from cogrs.sdk import TrialState

    states: dict[str, TrialState]
    async with _timeout(given):
        if given.trial is None:
            states = await controller.trials()
        else:
            states = {given.trial: await controller.trial_state(given.trial)}
    for trial_id, state in states.items():
        end = None
        if given.json and state is TrialState.ENDED:
            async with _timeout(given):
                end = await controller.wait_ended(trial_id)  # does not wait any more
        _print_state(given, trial_id, state.name, end)


def _print_state(
    given: argparse.Namespace, trial_id: str, state: str, end: TrialEnd | None = None
) -> None:
    if given.json:
        told = {} if end is None else {"end_reason": end.reason, "failed": end.failed}
        _print_json({"trial_id": trial_id, "state": state, **told})
    else:
        print(f"{escaped(trial_id)} {state}", flush=True)


def _print_json(value: Any) -> None:
    print(json.dumps(value), flush=True)
