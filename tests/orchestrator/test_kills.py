"""Parties that are killed, or stopped and thus silent, at each moment of a trial.

The trial ends with a reason in time, another one goes on, and nothing is left of either.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from cogrs import sdk
from cogrs.api.common_pb2 import ActorParams, EnvironmentParams, TrialParams
from cogrs.orchestrator import ActorOptions, Config, Settings, serve
from tests.orchestrator.net import SOAK, on_loop
from tests.orchestrator.party import LENGTH, STEPS, Player, World

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

IN_TIME = 30.0
"""Seconds; the limits below make it about three."""
IMPATIENT = Settings(
    start_timeout=2.0,
    join_timeout=5.0,
    heartbeat_timeout=1.0,
    hook_timeout=1.0,
    end_timeout=1.0,
    final_timeout=1.0,
    close_grace=0.5,
    call_timeout=1.0,
    retention=60.0,
)
ROLES = ("environment", "agent", "client", "log", "hook")
MOMENTS = ("start", "step", "end")
CASES = [
    (role, number, moment)
    for role in ROLES
    for number in (signal.SIGKILL, signal.SIGSTOP)
    for moment in (MOMENTS if SOAK else ("step",))
    # A hook has one moment, and an environment that ended by itself is not told of an end.
    if (role, moment) not in {("hook", "step"), ("hook", "end"), ("environment", "end")} or not SOAK
]


class Party:
    """A process, and what it told last."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def line(self) -> str:
        assert self.process.stdout is not None
        return (await self.process.stdout.readline()).decode().strip()

    async def come_to(self, moment: str) -> None:
        """Wait until it comes to a moment, and on for some steps if that is one."""
        for _ in range(STEPS if moment == "step" else 1):
            while (line := await self.line()) != moment:
                assert line, f"it ended before it came to {moment}"


@asynccontextmanager
async def party(*arguments: str) -> AsyncIterator[Party]:
    call = ["-m", "tests.orchestrator.party", *arguments]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *call, stdin=subprocess.PIPE, stdout=subprocess.PIPE, limit=2**20
    )
    try:
        yield Party(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def make_params(role: str, address: str) -> TrialParams:
    """The victim takes the role's place; all others are here."""
    acts = {"agent": address, "client": "client"}.get(role, "local://player")
    plays = address if role == "environment" else "local://world"
    return TrialParams(
        environment=EnvironmentParams(endpoint=plays),
        actors=[
            ActorParams(name="c", actor_class="player", endpoint=acts),
            ActorParams(name="b", actor_class="player", endpoint="local://player"),
        ],
        max_inactivity=2,
    )


async def spare(trial: sdk.NewTrial) -> None:
    """Start a trial of the user "other", whose parties are not killed."""
    if trial.user_id == "other":
        trial.params.environment.endpoint = "local://world"
        for actor in trial.params.actors:
            actor.endpoint = "local://player"


@pytest.mark.parametrize(("role", "number", "moment"), CASES)
@on_loop
async def test_trial_ends_or_goes_on_when_a_party_is_killed_or_stopped(
    role: str, number: signal.Signals, moment: str
) -> None:
    moment = "start" if role == "hook" else moment
    async with party(*([role, "", moment] if role != "client" else ["log", ""])) as served:
        address = await served.line()
        config = Config(
            params=make_params(role, address),
            hooks=(*((address,) if role == "hook" else ()), "local://spare"),
            log_url=address if role == "log" else "",
            class_options={"player": ActorOptions(response_timeout=1.5)},
        )
        local = {
            "world": sdk.local_environments({"": World}),
            "player": sdk.local_agents({"": Player}),
            "spare": sdk.local_hooks({"": spare}),
        }
        async with (
            await serve(config, port=0, settings=IMPATIENT, local=local) as server,
            sdk.TrialController(f"127.0.0.1:{server.port}", user_id="other") as others,
            sdk.TrialController(f"127.0.0.1:{server.port}") as controller,
            asyncio.timeout(IN_TIME),
        ):
            other = (await others.start_trial()).id
            if role == "client":
                await lose_client(server, controller, number, moment)
            else:
                if role == "log":  # of the other trial
                    await served.come_to("start")
                starting = asyncio.ensure_future(controller.start_trial())
                await served.come_to(moment)
                served.process.send_signal(number)
                if role == "hook":
                    with pytest.raises(sdk.RemoteCallError) as caught:
                        await starting
                    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
                else:
                    await check_end(server, controller, (await starting).id, role, moment)
            await others.wait_ended(other)
            assert reason(server, other) == "environment: final update"
        assert not server._links._tasks._tasks


async def lose_client(
    server: Any, controller: sdk.TrialController, number: signal.Signals, moment: str
) -> None:
    # A process that starts may take longer than a trial waits for a join.
    async with party("client", f"127.0.0.1:{server.port}", moment) as client:
        await client.come_to("ready")
        trial = (await controller.start_trial()).id
        assert client.process.stdin is not None
        client.process.stdin.write(b"\n")
        await client.come_to(moment)
        client.process.send_signal(number)
        await check_end(server, controller, trial, "client", moment)


def reason(server: Any, trial_id: str) -> str:
    return str(server._orchestrator._trials.get(trial_id).end_reason)


async def check_end(
    server: Any, controller: sdk.TrialController, trial_id: str, role: str, moment: str
) -> None:
    await controller.wait_ended(trial_id)
    why = reason(server, trial_id)
    steps = server._orchestrator._trials.get(trial_id).tick
    if role == "log" or moment == "end":
        assert why == "environment: final update"
    else:
        assert any(text in why for text in (role, "actor 'c'", "max_inactivity")), why
        assert steps < LENGTH
