"""A person's judgements in a browser, in the steps of a ReplayMemory."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np

from cogrs import orchestrator, sdk
from cogrs.web import Game, app, serve_page
from cogrs.workers import ActorWorker
from tests.orchestrator.net import on_loop
from tests.replay import network
from tests.web.browser import Browser, browser, needs_browser
from tests.workers import world

LENGTH = 6

pytestmark = needs_browser


class Watched(world.Environment):
    """Waits before each step until the test lets it go on."""

    observers = ("ada",)
    go_on: asyncio.Semaphore

    async def step(self, actions: dict[str, Any]) -> sdk.Update:
        await self.go_on.acquire()
        update = await super().step(actions)
        update.rewards = [each for each in update.rewards if each.receiver != "ada"]
        return update


def judge(page: Browser, tick: int, button: str, *, count: int) -> None:
    """Choose the thumbnail of a tick, and judge it."""
    page.until(lambda: page.tick() >= tick)
    (thumb,) = [
        each for each in page.all("earlier") if each.get_attribute("data-tick") == str(tick)
    ]
    thumb.click()
    page.find(button).click()
    page.until(lambda: len(page.all("given")) == count)
    given = page.all("given")[0]
    value = {"good": "1", "bad": "-1"}[button]
    assert (given.get_attribute("data-tick"), given.get_attribute("data-value")) == (
        str(tick),
        value,
    )
    assert "not stored" not in given.text


@on_loop
async def test_thumbs_for_earlier_steps_arrive_at_these_steps_of_a_memory() -> None:
    plays = Watched(1, LENGTH)
    plays.go_on = asyncio.Semaphore(0)
    pole = {"name": "a0", "actor_class": "player", "endpoint": "local://policy"}
    ada = {"name": "ada", "actor_class": "person", "endpoint": "client"}
    config = {
        "trial_params": {"environment": {"endpoint": "local://world"}, "actors": [pole, ada]},
        "actor_options": [{"name": "ada", "observer": True, "optional": False}],
    }
    with (
        world.made_server() as replay,
        network.connected(replay, 4096, timeout=10) as client,
        ActorWorker(client, world.decide) as worker,
        browser() as page,
    ):
        local = {
            "policy": sdk.local_agents({"": worker.agent}),
            "world": sdk.local_environments({"": lambda: plays}),
        }
        async with (
            await orchestrator.serve(config, port=0, local=local) as server,
            sdk.TrialController(f"127.0.0.1:{server.port}") as controller,
        ):
            game = Game(title="World", controls=None)
            made = app(f"127.0.0.1:{server.port}", game, actor_class="person")
            (place,) = made.state.places
            async with serve_page(made.state.page) as pages:
                await asyncio.to_thread(
                    page.open, pages.url(made.state.page.invite(place, "judge"))
                )
                trial = await controller.start_trial()
                await asyncio.to_thread(page.join)
                for _ in range(4):
                    plays.go_on.release()
                await asyncio.to_thread(page.until, lambda: page.tick() == 4)
                await asyncio.to_thread(judge, page, 2, "good", count=1)
                for _ in range(LENGTH):
                    plays.go_on.release()
                await controller.wait_ended(trial.id)
                await asyncio.to_thread(page.until, lambda: page.tick() == LENGTH)
                await asyncio.to_thread(judge, page, 5, "bad", count=2)
                (episode,) = [worker.memory.episode(0)]
                given = [world.reward_of(state) for state in episode.entries.state[:-1]]
                judged = np.subtract(episode.entries.reward[:LENGTH], given)
                assert judged.tolist() == [0, 1, 0, 0, -1, 0]
                page.find("undo").click()
                undone = lambda: page.all("given")[0].get_attribute("data-undone")  # noqa: E731
                await asyncio.to_thread(page.until, undone)
                again = worker.memory.episode(0).entries.reward[:LENGTH]
                assert np.subtract(again, given).tolist() == [0, 1, 0, 0, 0, 0]
