"""Pre-trial hooks of the SDK, by gRPC and in the orchestrator's process."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from cogrs import orchestrator, sdk
from cogrs.api.common_pb2 import TrialParams
from tests.orchestrator.net import on_loop
from tests.sdk.net import Counting, Echo, calls, kinds


def two_steps(new: sdk.NewTrial) -> None:
    new.params.max_steps = 2


async def adds_actor(new: sdk.NewTrial) -> TrialParams:
    """The second hook sees what the first did, and who asks."""
    assert new.params.max_steps == 2
    params = TrialParams()
    params.CopyFrom(new.params)
    params.actors.add(
        name=f"of-{new.user_id}", actor_class="p", endpoint=new.params.environment.endpoint
    )
    return params


def refuses(new: sdk.NewTrial) -> None:
    raise PermissionError(f"{new.user_id} may not")


def wrong(new: sdk.NewTrial) -> Any:
    return {"max_steps": 2}


@pytest.mark.parametrize("local", [False, True])
@on_loop
async def test_hooks_set_parameters_one_after_the_other(local: bool) -> None:
    told, heard = calls(), calls()
    async with (
        await sdk.serve(
            environments={"": lambda: Counting(told)},
            agents={"": lambda: Echo(heard)},
            hooks={"": two_steps},
        ) as first,
        await sdk.serve(hooks={"": adds_actor}) as second,
    ):
        parts = {
            "one": sdk.local_hooks({"": two_steps}),
            "two": sdk.local_hooks({"": adds_actor}),
        }
        endpoints = ["local://one", "local://two"] if local else [first.address, second.address]
        config = {
            "trial_params": {"environment": {"endpoint": first.address}},
            "trial": {"pre_hooks": endpoints},
        }
        async with (
            await orchestrator.serve(config, port=0, local=parts) as server,
            sdk.TrialController(f"127.0.0.1:{server.port}", user_id="ada") as controller,
        ):
            trial = await controller.start_trial()
            assert [each.name for each in trial.actors] == ["of-ada"]
            await controller.wait_ended(trial.id)
    assert kinds(told[trial.id]) == ["start", "step", "step", "end"]


def leaves(trial: sdk.NewTrial) -> None:
    raise SystemExit(3)


async def waits_for_what_is_cancelled(trial: sdk.NewTrial) -> None:
    raise asyncio.CancelledError


@pytest.mark.parametrize(
    ("hook", "said"),
    [
        (refuses, "pre-trial hook failed: PermissionError: ada may not"),
        (wrong, "TypeError: expected TrialParams or None to be returned, got dict"),
        (leaves, "pre-trial hook failed: SystemExit: 3"),
        (waits_for_what_is_cancelled, "pre-trial hook failed: CancelledError"),
    ],
)
@on_loop
async def test_failing_hook_refuses_the_trial(hook: Any, said: str) -> None:
    async with (
        await sdk.serve(hooks={"": hook}) as endpoint,
        await orchestrator.serve({"trial": {"pre_hooks": [endpoint.address]}}, port=0) as server,
        sdk.TrialController(f"127.0.0.1:{server.port}", user_id="ada") as controller,
    ):
        with pytest.raises(grpc.aio.AioRpcError, match=said) as caught:
            await controller.start_trial()
        assert caught.value.code() is grpc.StatusCode.ABORTED
