"""The environment's own spaces, from the environment to the log of its trial."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from cogrs import orchestrator, sdk
from cogrs.space_json import ActorSpaces

if TYPE_CHECKING:
    from pathlib import Path


class Told(sdk.Environment):
    """Sets spaces as an environment of a user does."""

    inline = True
    pair: Any = ActorSpaces(spaces.Box(-1, 1, (2,)), spaces.Discrete(3))

    def start(self, trial: sdk.Trial) -> sdk.Update:
        self.spaces = dict.fromkeys(trial.actor_names, self.pair)
        return sdk.Update(np.zeros(2, np.float32))

    def step(self, actions: Any) -> sdk.Update:
        return sdk.Update(np.zeros(2, np.float32), final=True)


class Own(spaces.Box):
    """A space of a user."""


class Odd(Told):
    pair = ActorSpaces(Own(0, 1), spaces.Discrete(2))


class Silent(Told):
    def start(self, trial: sdk.Trial) -> sdk.Update:
        return sdk.Update(np.zeros(2, np.float32))


def logged(folder: Path, environment: Any, names: tuple[str, ...], *, remote: bool) -> Any:
    """Play a trial, and return it as a data log has it."""

    async def play() -> str:
        log = lambda: sdk.ParquetSink(folder)  # noqa: E731
        agents = {"": lambda: sdk.FunctionAgent(lambda _: 0, inline=True)}
        local = {
            "env": sdk.local_environments({"": environment}),
            "agents": sdk.local_agents(agents),
            "log": sdk.local_datalog(log),
        }
        async with await sdk.serve(environments={"": environment}, datalog=log) as endpoint:
            there = endpoint.address
            actors = [{"name": n, "actor_class": "c", "endpoint": "local://agents"} for n in names]
            config = {
                "trial_params": {
                    "environment": {"endpoint": there if remote else "local://env"},
                    "actors": actors,
                },
                "datalog": {"type": "grpc", "url": there if remote else "local://log"},
            }
            async with (
                await orchestrator.serve(config, port=0, local=local) as server,
                sdk.TrialController(f"127.0.0.1:{server.port}") as controller,
            ):
                trial = await controller.start_trial()
                await controller.wait_ended(trial.id)
                return trial.id

    trial_id = asyncio.run(play())
    return sdk.read_log(folder / f"{trial_id}.parquet")[0]


@pytest.mark.parametrize("remote", [False, True], ids=["local", "remote"])
def test_spaces_of_an_environment_reach_the_log(tmp_path, remote):
    trial = logged(tmp_path, Told, ("a", "b"), remote=remote)
    assert trial.spaces == {"a": Told.pair, "b": Told.pair}


def test_spaces_of_gymnasium_reach_the_log(tmp_path):
    factory = sdk.GymnasiumEnvironment.factory("CartPole-v1", seed=0)
    trial = logged(tmp_path, factory, ("a",), remote=False)
    env = gymnasium.make("CartPole-v1")
    assert trial.spaces == {"a": (env.observation_space, env.action_space)}


def test_spaces_of_pettingzoo_reach_the_log(tmp_path):
    rps = pytest.importorskip("pettingzoo.classic.rps_v2")
    factory = sdk.PettingZooEnvironment.factory(lambda: rps.parallel_env(max_cycles=2))
    trial = logged(tmp_path, factory, ("x", "y"), remote=False)
    env = rps.parallel_env()
    assert trial.spaces == {
        actor: (env.observation_space(agent), env.action_space(agent))
        for actor, agent in zip("xy", env.possible_agents, strict=True)
    }


def test_environment_that_tells_no_spaces_has_none_in_the_log(tmp_path):
    assert logged(tmp_path, Silent, ("a",), remote=True).spaces == {}


def test_space_that_cannot_be_kept_is_a_warning_and_the_trial_goes_on(tmp_path, caplog):
    assert logged(tmp_path, Odd, ("a",), remote=False).spaces == {}
    assert "Odd: its spaces are not kept by data logs: space of 'a'" in caplog.text
