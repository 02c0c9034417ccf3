"""`cogrs trial`: trials of an orchestrator that runs elsewhere."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cogrs.commands.parser import LOOK, REFUSED, Parser, read_text, seconds
from cogrs.escape import escaped
from cogrs.event_loop import handle_exception
from cogrs.files import read_bounded
from cogrs.limits import MAX_MESSAGE

if TYPE_CHECKING:
    import argparse
    import asyncio
    from collections.abc import Awaitable, Callable

    from cogrs.sdk import TrialController, TrialEnd, TrialState
    from cogrs.stop_signal import StopSignal

_DONE, _FAILED, _UNREAD = 0, 1, 141
_STATES = ("INITIALIZING", "PENDING", "RUNNING", "TERMINATING", "ENDED")
_CODES = (
    "Exit codes: 0 it was done, 1 the orchestrator refused or was not reached in time, or the "
    "trial of start --wait failed, 2 arguments or files are no good, 130 Ctrl-C, 141 nobody reads "
    "it, 143 SIGTERM."
)


def add_trial(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add the command and those below it."""
    trial = commands.add_parser(
        "trial",
        help="start, watch and end trials",
        description="Ask an orchestrator to start, tell about, or end trials.",
    )
    verbs = trial.add_subparsers(metavar="VERB", dest="verb", required=True)
    start = _add(verbs, "start", "start a trial", _start)
    start.add_argument("--trial-config", type=Path, metavar="FILE", help="serialized message")
    start.add_argument(
        "--params",
        type=Path,
        metavar="FILE",
        help="YAML with parameters, for orchestrators that accept them (trial.accept_params)",
    )
    start.add_argument("--user-id", default="", metavar="ID", help="who starts it, for the log")
    start.add_argument("--wait", action="store_true", help="wait until it has ended")
    watch = _add(verbs, "watch", "tell each change of state, until Ctrl-C", _watch)
    watch.add_argument("trial", nargs="?", metavar="TRIAL", help="only this, until it has ended")
    watch.add_argument(
        "--state", action="append", choices=_STATES, default=[], help="only this; may be repeated"
    )
    terminate = _add(verbs, "terminate", "ask for the end of trials", _terminate)
    terminate.add_argument("trial", nargs="+", metavar="TRIAL", help="id of a trial")
    info = _add(verbs, "info", "tell the states of trials", _info)
    info.add_argument("trial", nargs="?", metavar="TRIAL", help="only this; all that are listed")


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
        "--endpoint", default="localhost:9000", help="of the orchestrator (default: localhost:9000)"
    )
    add("--json", action="store_true", help="print JSON, an object a line")
    add("--timeout", type=seconds, default=30.0, help="seconds for an answer (default: 30)")
    add("--token", type=Path, metavar="FILE", help="file with the token to show")
    add("--tls", action="store_true", help="connect with TLS")
    add("--ca", type=Path, metavar="FILE", help="the same, trusting these certificates")
    add("--certificate", type=Path, metavar="FILE", help="certificate to show")
    add("--key", type=Path, metavar="FILE", help="its private key")
    add("--server-name", metavar="NAME", help="name in the certificate of the orchestrator")
    verb.set_defaults(run=_run, work=work)
    return verb


def _run(given: argparse.Namespace, stop: StopSignal) -> int:
    import asyncio

    import grpc

    from cogrs.sdk import TrialFailedError

    prog = f"cogrs trial {given.verb}"
    try:
        ended = asyncio.run(_work(given, stop))
    except grpc.aio.AioRpcError as error:
        details = " ".join((error.details() or "").split())
        reason = f"{given.endpoint}: {error.code().name}: {details}"
        return _say(_FAILED, f"{prog}: {reason}")
    except BrokenPipeError:
        # Whoever read what this prints has enough, as `head` has; nor is it to be flushed at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return _UNREAD
    except TrialFailedError as error:
        return _say(_FAILED, f"{prog}: {error}")
    except (ConnectionError, TimeoutError) as error:
        reason = str(error) or f"no answer within {given.timeout:g} s"
        return _say(_FAILED, f"{prog}: {given.endpoint}: {reason}")
    except (OSError, ValueError) as error:
        return _say(REFUSED, f"{prog}: {error}")
    return _DONE if ended else stop.code


async def _work(given: argparse.Namespace, stop: StopSignal) -> bool:
    """Do it, and return whether it came to its end before a signal."""
    import asyncio

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
    import asyncio  # takes longer than all that other commands need

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
            await controller.trial_state(given.trial)  # refuses one that is not known
        else:
            await controller.trials()  # whoever does not answer this will not tell of changes
    asked = wanted if given.trial is None else wanted | {TrialState.ENDED}
    states = () if asked == set(TrialState) else asked
    async for trial_id, state in controller.watch_trials(states):
        if given.trial in (None, trial_id):
            if state in wanted:
                _print_state(given, trial_id, state.name)
            if given.trial == trial_id and state is TrialState.ENDED:
                return
    raise ConnectionError("the orchestrator stopped telling of trials")


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


def _say(code: int, line: str) -> int:
    print(escaped(line), file=sys.stderr)
    return code
