"""Endpoints: addresses, ports, and servers that go away in the middle."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest

from cogrs import orchestrator, sdk
from cogrs.sdk.endpoint import address_of
from tests.orchestrator.net import on_loop
from tests.sdk.net import LOST, Counting, Echo, calls, named, until, world


class Endless(Counting):
    length = -1


@pytest.mark.parametrize("endpoint", ["h:1", "grpc://h:1", "1.2.3.4:65535", "grpc://[::1]:9000"])
def test_address_of_an_endpoint_drops_the_scheme(endpoint: str) -> None:
    assert address_of(endpoint) == endpoint.removeprefix("grpc://")


@pytest.mark.parametrize("endpoint", ["", "h", ":1", "h:", "h:x", "http://h:1", "h:0", "h:65536"])
def test_malformed_endpoint_is_refused(endpoint: str) -> None:
    with pytest.raises(ValueError, match="endpoint: expected 'grpc://host:port'"):
        address_of(endpoint)


@on_loop
async def test_serve_without_implementations_raises() -> None:
    with pytest.raises(ValueError, match="expected at least one implementation"):
        await sdk.serve()


@on_loop
async def test_port_is_occupied_until_the_server_stops() -> None:
    agents = {"agent": sdk.Agent}
    async with await sdk.serve(agents=agents) as first:
        assert first.address == f"grpc://127.0.0.1:{first.port}"
        with pytest.raises(OSError, match=f"cannot listen at 127.0.0.1:{first.port}"):
            await sdk.serve(agents=agents, port=first.port)
    for _ in range(5):
        async with await sdk.serve(agents=agents, port=first.port) as again:
            assert again.port == first.port


@on_loop
async def test_unavailable_host_is_an_os_error() -> None:
    with pytest.raises(OSError, match=r"cannot listen at 192\.0\.2\.1:"):
        await sdk.serve(agents={"agent": sdk.Agent}, host="192.0.2.1", insecure=True)


@on_loop
async def test_endpoint_that_stops_ends_its_trials() -> None:
    told, heard = calls(), calls()
    async with world(lambda: Endless(told), lambda: Echo(heard)) as net:
        trials = [await net.controller.start_trial() for _ in range(3)]
        await until(lambda: all(len(named(told[trial.id], "step")) >= 2 for trial in trials))
        await net.endpoint.stop(0)
        assert net.components() == 0
        for trial in trials:
            await net.controller.wait_ended(trial.id)
            assert told[trial.id][-1] == LOST
            last = heard[trial.id, "a0"][-1]
            # The orchestrator saw the environment go first, or it did not.
            assert last == LOST or last[0] == "end"


@on_loop
async def test_stopping_orchestrator_ends_its_trials() -> None:
    told, heard = calls(), calls()
    async with world(lambda: Endless(told), lambda: Echo(heard)) as net:
        trials = [await net.controller.start_trial() for _ in range(3)]
        await until(lambda: all(len(named(told[trial.id], "step")) >= 2 for trial in trials))
        await net.orchestrator.stop()
        await net.freed()
        for trial in trials:
            assert told[trial.id][-1][0] == "end"
            assert heard[trial.id, "a0"][-1][0] == "end"


@on_loop
async def test_large_arrays_pass() -> None:
    import numpy as np

    seen = []

    class Picture(sdk.Environment):
        def start(self, trial: sdk.Trial) -> sdk.Update:
            return sdk.Update(np.full((2048, 2048, 2), 7, np.uint8))

        def step(self, actions: object) -> sdk.Update:
            return sdk.Update([0], final=True)

    def act(observation: sdk.Observation) -> int:
        seen.append(observation.value)
        return 0

    async with world(Picture, lambda: sdk.FunctionAgent(act)) as net:
        await net.play()
    assert seen[0].shape == (2048, 2048, 2)
    assert (seen[0] == 7).all()


@on_loop
async def test_same_components_serve_without_a_socket() -> None:
    told, heard = calls(), calls()
    local = {
        "env": sdk.local_environments({"env": lambda: Counting(told)}),
        "agent": sdk.local_agents({"agent": lambda: Echo(heard)}),
    }
    params = {
        "environment": {"endpoint": "local://env"},
        "actors": [
            {"name": name, "actor_class": "player", "endpoint": "local://agent"}
            for name in ("a0", "a1")
        ],
    }
    async with (
        await orchestrator.serve({"trial_params": params}, port=0, local=local) as server,
        sdk.TrialController(f"127.0.0.1:{server.port}") as controller,
    ):
        trials = await asyncio.gather(*(controller.start_trial() for _ in range(10)))
        for trial in trials:
            await controller.wait_ended(trial.id)
            assert [each.tick for each in named(heard[trial.id, "a1"], "act")] == [0, 1, 2, 3, 4]
            assert len(named(told[trial.id], "step")) == 5
            (final,) = named(heard[trial.id, "a0"], "end")
            assert final.observation.terminated
        for host in local.values():
            await until(lambda host=host: not host.components)
            await host.close()


@on_loop
async def test_local_environments_of_trials_that_fail_are_freed() -> None:
    told, heard = calls(), calls()

    class Broken(Echo):
        async def act(self, observation: sdk.Observation) -> object:
            raise RuntimeError("no")

    local = {
        "env": sdk.local_environments({"env": lambda: Counting(told)}),
        "agent": sdk.local_agents({"agent": lambda: Broken(heard)}),
    }
    params = {
        "environment": {"endpoint": "local://env"},
        "actors": [{"name": "a0", "actor_class": "player", "endpoint": "local://agent"}],
    }
    async with (
        await orchestrator.serve({"trial_params": params}, port=0, local=local) as server,
        sdk.TrialController(f"127.0.0.1:{server.port}") as controller,
    ):
        trial = await controller.start_trial()
        await controller.wait_ended(trial.id)
        for host in local.values():
            await until(lambda host=host: not host.components)
            await host.close()
    assert told[trial.id][-1][0] == "end"
    assert heard[trial.id, "a0"][-1] == LOST


def test_every_public_name_can_be_imported_in_any_order() -> None:
    code = (
        "import inspect; from cogrs import sdk;"
        "names = [(name, getattr(sdk, name)) for name in {order}(sdk.__all__)];"
        "assert set(sdk.__all__) <= set(dir(sdk));"
        "assert not any(inspect.ismodule(getattr(sdk, name)) for name in sdk.__all__)"
    )
    for order in ("sorted", "reversed"):
        subprocess.run([sys.executable, "-c", code.format(order=order)], check=True)


def served(**given: Any) -> Any:
    return sdk.serve_endpoint(**{"environments": {"": sdk.Environment}, **given})


WHERE = "127.0.0.1:1"


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: served(environments=[sdk.Environment]), TypeError, "environments: .* mapping"),
        (lambda: served(agents={5: sdk.Agent}), TypeError, "agents, key 5: expected a string"),
        (lambda: served(hooks=[1]), TypeError, "hooks: expected a mapping"),
        (lambda: served(codec=5), TypeError, "codec: .* with encode and decode, got int"),
        (lambda: served(codec={"p": 5}), TypeError, r"codec\['p'\]: expected Codecs, got int"),
        (lambda: served(codec=sdk.ArrayCodec), TypeError, "got the class ArrayCodec"),
        (lambda: served(port=65536), ValueError, "port: .* 0 to 65535, got 65536"),
        (lambda: served(port="x"), TypeError, "port: .* got str"),
        (lambda: served(host=None), TypeError, "host: expected a string"),
        (lambda: served(tls=5), TypeError, "tls: expected a ServerTls or None, got int"),
        (lambda: sdk.TrialController(None), TypeError, "endpoint: expected a string"),
        (lambda: sdk.TrialController(WHERE, user_id=None), TypeError, "user_id: expected a str"),
        (lambda: sdk.TrialController(WHERE, tls=5), TypeError, "tls: expected a ClientTls"),
        (lambda: sdk.TrialController(WHERE, token="a\nb"), ValueError, "token: .* something else"),
        (lambda: sdk.run_trial(WHERE, "x"), TypeError, "config: expected the bytes"),
        (lambda: sdk.run_trial(WHERE, timeout=-1), ValueError, "timeout: expected seconds"),
        (lambda: sdk.run_trial(WHERE, timeout="x"), TypeError, "timeout: expected seconds"),
        (lambda: sdk.play(WHERE, 5, name="x"), TypeError, "player: expected a function, got int"),
        (lambda: sdk.play(WHERE, int, name=5), TypeError, "name: expected a string, got int"),
        (lambda: sdk.play(WHERE, int, name="x", timeout=-1), ValueError, "timeout: expected"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_arguments_are_refused_by_name(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


@on_loop
async def test_ids_that_cannot_travel_are_refused_and_so_are_calls_after_the_close() -> None:
    controller = sdk.TrialController(WHERE)
    for trial_id, error in (("\u00e9", ValueError), ("a\nb", ValueError), (5, TypeError)):
        with pytest.raises(error, match="trial_id: expected"):
            await controller.terminate_trial(trial_id)  # type: ignore[arg-type]
    await controller.close()
    await controller.close()
    with pytest.raises(RuntimeError, match="the connection was closed here"):
        await controller.start_trial()


@pytest.mark.parametrize("grace", ["x", -1])
def test_grace_that_is_not_seconds_is_refused(grace: Any) -> None:
    endpoint = served()
    with pytest.raises((TypeError, ValueError), match="grace: expected seconds"):
        endpoint.stop(grace)
    endpoint.stop(0)
    assert endpoint.wait(0)
