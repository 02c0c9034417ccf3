"""Parameters that are given with StartTrial: taken where they are accepted, refused elsewhere."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import grpc
import pytest

import cogrs
from cogrs import cli, sdk
from cogrs.api import orchestrator_pb2 as pb
from cogrs.api import orchestrator_pb2_grpc
from cogrs.api.common_pb2 import TrialParams
from cogrs.orchestrator import Config
from cogrs.orchestrator.service.config import read_config
from tests.orchestrator.net import on_loop
from tests.sdk.net import Counting, Echo, calls, named

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT = 60.0


class Endless(Counting):
    length = -1


DEFAULTS: dict[str, Any] = {
    "environment": {"endpoint": "local://env"},
    "actors": [{"name": "default", "actor_class": "c", "endpoint": "local://agent"}],
    "max_steps": 3,
}
OTHERS: dict[str, Any] = {
    "environment": {"endpoint": "local://env"},
    "actors": [
        {"name": name, "actor_class": "c", "endpoint": "local://agent"} for name in ("x", "y")
    ],
    "max_steps": 2,
}


@contextmanager
def running(
    told: Any, *, accept: bool | None = True, hook: Any = None, defaults: Any = None
) -> Iterator[str]:
    local: dict[str, Any] = {
        "env": sdk.local_environments({"": lambda: Endless(told)}),
        "agent": sdk.local_agents({"": lambda: Echo(calls())}),
    }
    trial: dict[str, Any] = {} if accept is None else {"accept_params": accept}
    if hook is not None:
        local["hook"] = sdk.local_hooks({"": hook})
        trial["pre_hooks"] = ["local://hook"]
    config = {"trial_params": DEFAULTS if defaults is None else defaults, "trial": trial}
    with cogrs.serve_orchestrator(config, port=0, local=local) as server:
        yield f"127.0.0.1:{server.port}"


def message() -> TrialParams:
    params = TrialParams(max_steps=2)
    params.environment.endpoint = "local://env"
    for name in ("x", "y"):
        params.actors.add(name=name, actor_class="c", endpoint="local://agent")
    return params


@pytest.mark.parametrize("params", [OTHERS, message()])
@pytest.mark.parametrize("defaults", [None, {}])
def test_params_of_the_request_replace_the_defaults(params: Any, defaults: Any) -> None:
    told = calls()
    with running(told, defaults=defaults) as where:
        trial = sdk.run_trial(where, params=params, timeout=LIMIT)
        assert [actor.name for actor in trial.actors] == ["x", "y"]
        assert trial.end_reason == "max_steps: 2 steps are done"
        if defaults is None:
            usual = sdk.run_trial(where, timeout=LIMIT)
            assert [actor.name for actor in usual.actors] == ["default"]
            assert usual.end_reason == "max_steps: 3 steps are done"
    steps = [len(named(each, "step")) for each in told.values()]
    assert steps == ([2, 3] if defaults is None else [2])


@pytest.mark.parametrize("accept", [False, None])
def test_params_are_refused_unless_accept_params_is_set(accept: bool | None) -> None:
    told = calls()
    with running(told, accept=accept) as where:
        with pytest.raises(sdk.RemoteCallError, match="accept_params: true") as caught:
            sdk.run_trial(where, params=OTHERS, timeout=LIMIT)
        assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED

        async def ask() -> None:
            async with sdk.TrialController(where) as controller:
                for params in (OTHERS, {}, TrialParams()):
                    with pytest.raises(sdk.RemoteCallError, match="PERMISSION_DENIED"):
                        await controller.start_trial(params=params)
                assert await controller.trials() == {}

        asyncio.run(ask())
    assert not told


def test_config_of_the_request_and_hooks_come_after_its_params() -> None:
    seen: list[Any] = []

    def hook(new: sdk.NewTrial) -> None:
        seen.append((new.params.trial_config.content, len(new.params.actors)))
        new.params.max_steps = 1

    params = message()
    params.trial_config.content = b"of the params"
    with running(calls(), hook=hook) as where:
        trial = sdk.run_trial(where, params=params, timeout=LIMIT)
        assert trial.end_reason == "max_steps: 1 steps are done"
        sdk.run_trial(where, b"of the request", params=params, timeout=LIMIT)
    assert seen == [(b"of the params", 2), (b"of the request", 2)]


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({}, "environment: expected an endpoint"),
        ({**OTHERS, "actors": []}, "actors: expected at least one"),
        ({**OTHERS, "environment": {"endpoint": "nowhere"}}, "environment: "),
        ({**OTHERS, "environment": {"endpoint": "local://x"}}, "environment: "),
        ({**OTHERS, "actors": OTHERS["actors"][:1] * 2}, "actor name: duplicate"),
        ({**OTHERS, "environment": {"endpoint": "192.0.2.1:9000"}}, "is on another machine"),
    ],
)
def test_params_that_no_trial_can_run_with_are_refused_by_the_server(
    params: Any, words: str
) -> None:
    with running(calls()) as where, pytest.raises(sdk.RemoteCallError, match=words) as caught:
        sdk.run_trial(where, params=params, timeout=LIMIT)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("params", "error", "words"),
    [
        (3, TypeError, "params: expected TrialParams, a mapping, or None, got int"),
        ([OTHERS], TypeError, "params: expected TrialParams, a mapping"),
        ({"max_step": 3}, ValueError, "params: .*max_step"),
        ({"max_steps": -1}, ValueError, "params: .*max_steps"),
        ({"actors": {"name": "x"}}, ValueError, "params: .*actors"),
        ({1: 2}, ValueError, "params: "),
    ],
)
def test_invalid_params_are_refused_before_the_call(
    params: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words) as caught:
        sdk.run_trial("127.0.0.1:1", params=params, timeout=1)
    assert len(str(caught.value).splitlines()) == 1

    async def start() -> None:
        async with sdk.TrialController("127.0.0.1:1") as controller:
            with pytest.raises(error, match=words):
                await controller.start_trial(params=params)

    asyncio.run(start())


class Elder(orchestrator_pb2_grpc.TrialLifecycleServicer):
    """An orchestrator that does not know of parameters in StartTrial."""

    def __init__(self) -> None:
        self.ended: list[str] = []

    async def StartTrial(self, request: Any, context: Any) -> pb.TrialStartReply:  # noqa: N802
        del request, context
        return pb.TrialStartReply(trial_id="t")

    async def WatchTrials(self, request: Any, context: Any) -> None:  # type: ignore[override]  # noqa: N802
        del request
        await context.send_initial_metadata(())
        await asyncio.Event().wait()

    async def TerminateTrial(  # noqa: N802
        self, request: Any, context: Any
    ) -> pb.TerminateTrialReply:
        del request
        self.ended += [value for key, value in context.invocation_metadata() if key == "trial-id"]
        return pb.TerminateTrialReply()


@on_loop
async def test_orchestrator_without_support_for_params_is_detected() -> None:
    elder, server = Elder(), grpc.aio.server()
    orchestrator_pb2_grpc.add_TrialLifecycleServicer_to_server(elder, server)
    where = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    async with sdk.TrialController(where) as controller:
        assert (await controller.start_trial()).id == "t"
        with pytest.raises(RuntimeError, match="started a trial with its own parameters"):
            await controller.start_trial(params=OTHERS)
    with pytest.raises(RuntimeError, match="started a trial with its own parameters"):
        await asyncio.to_thread(sdk.run_trial, where, params=OTHERS, timeout=LIMIT)
    await server.stop(0)
    assert elder.ended == ["t", "t"]


@pytest.mark.parametrize("value", ["yes", 1, [], "true"])
def test_switch_is_true_or_false(value: Any, tmp_path: Any) -> None:
    with pytest.raises(ValueError, match=r"trial\.accept_params: expected true or false"):
        read_config({"trial": {"accept_params": value}})
    with pytest.raises(TypeError, match="accept_params: expected True or False"):
        Config(accept_params=value)
    file = tmp_path / "cogment.yaml"
    file.write_text("trial:\n  accept_param: true\n")
    with pytest.raises(ValueError, match="did you mean 'accept_params'"):
        read_config(file)
    file.write_text("trial:\n  accept_params: true\n")
    assert read_config(file).accept_params
    file.write_text("trial:\n  accept_params:\n")
    assert not read_config(file).accept_params


def test_command_line_starts_trials_with_params(tmp_path: Any, capsys: Any) -> None:
    file = tmp_path / "params.yaml"
    file.write_text(
        "environment: {endpoint: 'local://env'}\n"
        "actors: [{name: z, actor_class: c, endpoint: 'local://agent'}]\n"
        "max_steps: 1\n"
    )
    with running(calls()) as where:
        call = ["trial", "start", "--wait", "--json", "--endpoint", where, "--params"]
        assert cli.main([*call, str(file)]) == 0
        started, ended = capsys.readouterr().out.splitlines()
        assert '"name": "z"' in started
        assert "max_steps: 1 steps are done" in ended
        for text in ("- 1", "a: [", "3", "max_step: 1"):
            file.write_text(text)
            assert cli.main([*call, str(file)]) == 2
            assert "params" in capsys.readouterr().err
