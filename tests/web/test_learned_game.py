"""A page that learns from the environment what is played."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import pytest
from websockets.asyncio.client import connect

from cogrs import orchestrator, sdk
from cogrs.web import Game, app, serve_page
from cogrs.web.game import learned_game
from tests.orchestrator.net import on_loop
from tests.web.sockets import until
from tests.web.walk import Walk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ADA = {"name": "ada", "actor_class": "person", "endpoint": "client"}
LEARNS = Game(title="127.0.0.1:9000", controls=None, mode="press", learns=True)


class Silent(sdk.Environment):
    """Tells nothing of its spaces."""

    def start(self, trial: sdk.Trial) -> sdk.Update:
        return sdk.Update(np.float32([0]))

    def step(self, actions: Any) -> sdk.Update:
        return sdk.Update(np.float32([0]))


@asynccontextmanager
async def served(make: Any) -> AsyncIterator[tuple[Any, Any]]:
    """A page before an orchestrator; yield a socket that has joined, and the controller."""
    config = {"trial_params": {"environment": {"endpoint": "local://e"}, "actors": [ADA]}}
    local = {"e": sdk.local_environments({"": make})}
    async with await orchestrator.serve(config, port=0, local=local) as server:
        where = f"127.0.0.1:{server.port}"
        made = app(where, LEARNS, actor_class="person", patience=1.0)
        page, (place,) = made.state.page, made.state.places
        async with (
            sdk.TrialController(where) as controller,
            serve_page(page) as pages,
            connect(f"ws://127.0.0.1:{pages.port}/ws") as socket,
        ):
            await socket.send(json.dumps({"type": "join", "token": page.invite(place)}))
            yield socket, controller


@on_loop
async def test_page_learns_actions_and_keys_from_the_environment() -> None:
    walk = sdk.GymnasiumEnvironment.factory(lambda: Walk(2), frames_to=["ada"])
    async with served(walk) as (socket, controller):
        hello = await until(socket, "hello")
        assert (hello["controls"], hello["title"]) == ({}, "127.0.0.1:9000")
        await controller.start_trial()
        hello = await until(socket, "hello")
        assert (hello["title"], hello["mode"], hello["ready"]) == ("Walk", "press", True)
        controls = hello["controls"]
        assert controls["default"] == 2
        assert [each["keys"] for each in controls["actions"]] == [[["KeyA"]], [["KeyD"]], []]
        for tick in range(2):
            await until(socket, "tick", tick=tick)
            await socket.send(json.dumps({"type": "action", "tick": tick, "value": 1}))
        ended = await until(socket, "state", state="ended")
        assert ended["reason"] == "The game is over."


@on_loop
async def test_environment_that_tells_no_spaces_is_named_as_the_reason() -> None:
    async with served(Silent) as (socket, controller):
        await until(socket, "hello")
        await controller.start_trial()
        ended = await until(socket, "state", state="ended")
        assert ended["reason"].startswith("the environment does not tell its actions")
        assert "--env" in ended["reason"]


@on_loop
async def test_client_gets_spaces_only_on_request() -> None:
    walk = sdk.GymnasiumEnvironment.factory(lambda: Walk(2))
    config = {"trial_params": {"environment": {"endpoint": "local://e"}, "actors": [ADA]}}
    local = {"e": sdk.local_environments({"": walk})}
    async with (
        await orchestrator.serve(config, port=0, local=local) as server,
        sdk.TrialController(f"127.0.0.1:{server.port}") as controller,
        sdk.ClientActor(f"127.0.0.1:{server.port}") as client,
    ):
        for asks in (True, False):
            trial = await controller.start_trial()
            async with await client.join(trial.id, name="ada", spaces=asks) as session:
                assert session.spaces == {}
                first = await anext(session)
                assert isinstance(first, sdk.Observation)
                wanted = {"ada": (Walk.observation_space, Walk.action_space)} if asks else {}
                assert session.spaces == wanted
            # A client that comes back is told again.
            async with await client.join(trial.id, name="ada", spaces=True) as session:
                assert isinstance(await anext(session), sdk.Observation)
                assert set(session.spaces) == {"ada"}
            await controller.terminate_trial(trial.id)


class Named(Walk):
    """Names its actions."""

    def get_action_meanings(self) -> list[str]:
        return ["LEFT", "RIGHT", "STAY"]


class Broken(Walk):
    """Fails to say its keys."""

    def get_keys_to_action(self) -> Any:
        raise RuntimeError("no keys")


def told(env: Any) -> str:
    """The text of the spaces that an environment's trial has."""
    environment = sdk.GymnasiumEnvironment(lambda: env)
    environment.start(sdk.Trial("t", (sdk.Actor("ada", "person"),), ""))
    from cogrs.sdk.environment_host import _spaces_of

    return _spaces_of(environment)


def names_of(game: Game) -> list[str]:
    assert game.controls is not None
    return [each["name"] for each in game.controls.describe()["actions"]]


@pytest.mark.parametrize(
    ("env", "title", "names"),
    [
        (Named(), "Named", ["left", "right", "stay"]),
        (Broken(), "Broken", ["action 0", "action 1", "action 2"]),
        (gymnasium.make("CartPole-v1"), "CartPole", ["left", "right"]),
    ],
    ids=["named", "broken", "known"],
)
def test_learned_game_has_the_names_of_the_environment(env, title, names) -> None:
    game = learned_game(LEARNS, told(env), "ada")
    assert (game.title, game.mode, names_of(game)) == (title, "press", names)


@pytest.mark.parametrize(
    "hints", [3, {"ada": 3}, {"ada": {"keys": 3}}, {"ada": {"keys": [[["a"], "x"]]}}], ids=str
)
def test_damaged_hints_are_an_error_in_words(hints) -> None:
    content = json.loads(told(Walk())) | {"hints": hints}
    with pytest.raises(ValueError, match=r"hints: expected|keys_to_action: expected"):
        learned_game(LEARNS, json.dumps(content), "ada")


def test_hints_that_are_missing_leave_the_space() -> None:
    content = json.loads(told(Walk()))
    del content["hints"]
    game = learned_game(LEARNS, json.dumps(content), "ada")
    assert names_of(game) == ["action 0", "action 1", "action 2"]
