"""Keys and buttons of a real browser, and the actions that reach the environment."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from cogrs import orchestrator, sdk
from cogrs.web import Page, Place, game_of, serve_page
from tests.orchestrator.net import on_loop
from tests.web.browser import Browser, browser, needs_browser
from tests.web.walk import Walk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = needs_browser

STEPS = 10_000
"""More than any test plays."""


@asynccontextmanager
async def page_of(taken: list[int], **options: Any) -> AsyncIterator[str]:
    """Serve a page whose place plays one trial of `Walk`; yield its link."""
    make = lambda: Walk(STEPS, taken)  # noqa: E731
    factory = sdk.GymnasiumEnvironment.factory(make, frames_to=["ada"])
    player = {"name": "ada", "actor_class": "person", "endpoint": "client"}
    params = {"environment": {"endpoint": "local://walk"}, "actors": [player]}
    local = {"walk": sdk.local_environments({"": factory})}
    policy = options.pop("policy", None)
    async with (
        await orchestrator.serve({"trial_params": params}, port=0, local=local) as server,
        sdk.TrialController(f"127.0.0.1:{server.port}") as controller,
        sdk.ClientActor(f"127.0.0.1:{server.port}") as client,
    ):

        async def join() -> sdk.ClientSession:
            trial = await controller.start_trial()
            return await client.join(trial.id, name="ada")

        game = game_of(make, "Walk", takeover=policy is not None, **options)
        place = Place(game, join, policy=policy, leave=controller.terminate_trial)
        page = Page()
        async with serve_page(page) as pages:
            yield pages.url(page.invite(place))


def hold_keys(url: str, taken: list[int]) -> None:
    """Hold a key, then another beside it, let go of both, and lose the focus with one down."""
    from selenium.webdriver.common.action_chains import ActionChains

    with browser() as page:
        page.open(url)
        page.join()
        page.until(lambda: page.tick() > 0)
        ActionChains(page.driver).key_down("a").perform()
        wait_for(page, taken, 0)
        ActionChains(page.driver).key_down("d").perform()
        wait_for(page, taken, 1)
        ActionChains(page.driver).key_up("d").key_up("a").perform()
        wait_for(page, taken, 2)
        ActionChains(page.driver).key_down("a").perform()
        wait_for(page, taken, 0)
        page.script("dispatchEvent(new Event('blur'))")
        wait_for(page, taken, 2)
        before = taken.count(1)
        page.find("action-1").click()  # shorter than a tick
        page.until(lambda: taken.count(1) > before)
        wait_for(page, taken, 2)


def wait_for(page: Browser, taken: list[int], action: int) -> None:
    """Wait until an action was taken three times in a row."""
    page.until(lambda: taken[-3:] == [action] * 3)


@on_loop
async def test_keys_act_while_down_and_blur_releases_all() -> None:
    taken: list[int] = []
    async with page_of(taken, fps=20) as url:
        await asyncio.to_thread(hold_keys, url, taken)
    assert set(taken) == {0, 1, 2}


def take_over(url: str, taken: list[int]) -> None:
    """Take over by Shift, and then by the button."""
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    with browser() as page:
        page.open(url)
        page.join()
        wait_for(page, taken, 0)
        ActionChains(page.driver).key_down(Keys.SHIFT).perform()
        wait_for(page, taken, 2)
        ActionChains(page.driver).key_down("d").perform()
        wait_for(page, taken, 1)
        ActionChains(page.driver).key_up("d").key_up(Keys.SHIFT).perform()
        wait_for(page, taken, 0)
        page.find("takeover").click()
        page.until(lambda: page.find("takeover").get_attribute("aria-pressed") == "true")
        wait_for(page, taken, 2)
        page.find("takeover").click()
        wait_for(page, taken, 0)


@on_loop
async def test_person_acts_in_place_of_the_policy_while_taking_over() -> None:
    taken: list[int] = []
    async with page_of(taken, fps=20, policy=lambda _: 0) as url:
        await asyncio.to_thread(take_over, url, taken)
    assert taken[0] == taken[-1] == 0
