"""Combinations, remapped keys, touch, sliders and gamepads in a real browser."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from tests.orchestrator.net import on_loop
from tests.web.browser import Browser, browser, needs_browser
from tests.web.scene import Scene, scene
from tests.web.walk import Walk

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = needs_browser

STEPS = 10**6
"""More than any test plays."""


class Crossing(Walk):
    """Takes four actions, one of them by two keys."""

    action_space = gymnasium.spaces.Discrete(4)

    def get_keys_to_action(self) -> dict[Any, int]:
        return {(): 0, ("a",): 1, ("d",): 2, ("a", "d"): 3}


class Steering(Walk):
    """Takes two numbers, and has no pictures."""

    action_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    render_mode = None

    def step(self, action: Any) -> Any:
        self.taken.append(tuple(np.round(action, 1).tolist()))  # type: ignore[arg-type]
        self.tick += 1
        return np.float32([self.tick]), 1.0, False, False, {}


def until_taken(page: Browser, taken: list[Any], action: Any) -> None:
    """Wait until an action was taken three times in a row."""
    page.until(lambda: taken[-3:] == [action] * 3)


HIDE = """
Object.defineProperty(document, 'hidden', {configurable: true, get: () => %s});
document.dispatchEvent(new Event('visibilitychange'));
"""


def touch(page: Browser, kind: str, name: str) -> None:
    """Put a finger on an element, or lift it."""
    page.script("arguments[0].scrollIntoView({block: 'center'})", page.find(name))
    box = page.script(
        "const b = arguments[0].getBoundingClientRect();"
        "return {x: b.x + b.width / 2, y: b.y + b.height / 2}",
        page.find(name),
    )
    points = [] if kind == "touchEnd" else [box]
    page.driver.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})


def cross(url: str, taken: list[Any]) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    with browser() as page:
        page.open(url)
        page.join()
        page.until(lambda: page.tick() > 0)
        ActionChains(page.driver).key_down("a").key_down("d").perform()
        until_taken(page, taken, 3)
        page.script(HIDE % "true")  # a tab that is hidden hears of no release
        until_taken(page, taken, 0)
        page.script(HIDE % "false")
        ActionChains(page.driver).key_up("d").key_up("a").perform()
        touch(page, "touchStart", "action-2")
        until_taken(page, taken, 2)
        touch(page, "touchEnd", "action-2")
        until_taken(page, taken, 0)
        page.driver.find_element("css selector", "#keys summary").click()
        row = page.driver.find_element("css selector", "#bindings button:nth-child(2)")
        assert row.get_attribute("aria-label") == "Choose another key for action 1"
        row.click()
        page.keys("k")
        page.until(lambda: page.find("action-1").text.split() == ["action", "1", "K"])
        ActionChains(page.driver).key_down("k").perform()
        until_taken(page, taken, 1)
        ActionChains(page.driver).key_up("k").perform()
        until_taken(page, taken, 0)
        page.find("good").click()
        page.until(lambda: page.all("given"))
        assert page.errors() == []


@on_loop
async def test_combinations_touch_and_other_keys_act_and_a_hidden_tab_lets_go() -> None:
    taken: list[Any] = []
    async with scene(lambda: Crossing(STEPS, taken), fps=20, credit=(0.8, 0.2)) as on:
        await drive(on, cross, taken)
        # A press is about what was on the screen between two times before it.
        (judgement,) = list(on.place.judgements)
        assert len(judgement.ticks) > 1
        first, last = min(judgement.ticks), max(judgement.ticks)
        # Ticks that a busy machine was late with follow each other faster.
        assert last - first <= 2 * 20 * (0.8 - 0.2)
        assert last < len(taken) - 3


def steer(url: str, taken: list[Any]) -> None:
    with browser(390, 844) as page:
        page.open(url)
        form = page.until(lambda: page.shown("join"))
        assert "Move the sliders" in form.text
        page.join()
        page.until(lambda: page.tick() > 0)
        assert page.shown("frame") is None
        table = page.driver.find_element("id", "summary")
        assert table.is_displayed()
        assert "observation" in table.text
        page.script(
            "const e = arguments[0]; e.value = 0.5;"
            "e.dispatchEvent(new Event('input', {bubbles: true}))",
            page.find("action-1"),
        )
        until_taken(page, taken, (0.0, 0.5))
        page.script(
            "navigator.getGamepads = () => [{axes: [-1, 1]}];"
            "dispatchEvent(new Event('gamepadconnected'))"
        )
        until_taken(page, taken, (-1.0, 1.0))
        assert page.script("return document.documentElement.scrollWidth") <= 390
        assert page.errors() == []


@on_loop
async def test_sliders_and_sticks_act_and_an_observation_without_pictures_is_a_table() -> None:
    taken: list[Any] = []
    async with scene(lambda: Steering(STEPS, taken), pictures=False, fps=20) as on:
        await drive(on, steer, taken)


async def drive(on: Scene, act: Callable[[str, list[Any]], None], taken: list[Any]) -> None:
    await asyncio.to_thread(act, on.pages.url(on.page.invite(on.place)), taken)
