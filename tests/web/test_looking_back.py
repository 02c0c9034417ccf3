"""Judging what is seconds ago, in a real browser: the game waits for it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.orchestrator.net import on_loop
from tests.web.browser import Browser, browser, needs_browser, play
from tests.web.scene import scene
from tests.web.stored import folder_of_games
from tests.web.walk import Walk

pytestmark = needs_browser

TOUCH_OLDEST = """
const strip = document.querySelector('[data-cogrs=earlier]');
strip.dispatchEvent(new PointerEvent('pointerdown', {bubbles: true}));
const thumb = strip.lastElementChild;
thumb.click();
return [Number(thumb.dataset.tick), strip.childElementCount, thumb.textContent];
"""
"""Touches the strip, which shows all of it, and chooses the oldest thumbnail."""


def choose_oldest(page: Browser, after: int) -> int:
    """Choose the oldest thumbnail, after so many ticks; return its tick."""
    page.until(lambda: page.tick() > after)
    tick, count, text = page.script(TOUCH_OLDEST)
    assert count > 24  # that are shown while ticks follow each other
    assert text.endswith(" s ago")
    page.until(
        lambda: (
            page.text("earlier")
            and page.script(TITLE) == f"Tick {tick} is chosen: was it good or bad?"
        )
    )
    return int(tick)


TITLE = "return document.getElementById('earlier-title').textContent"


def judge_it(page: Browser, tick: int) -> None:
    """Judge the thumbnail that is chosen; the game goes on."""
    page.find("good").click()
    page.until(lambda: page.all("given"))
    assert page.all("given")[0].get_attribute("data-tick") == str(tick)
    now = page.tick()
    page.until(lambda: page.tick() > now)
    page.until_state("playing")


def test_game_waits_while_a_person_judges_an_earlier_picture(tmp_path, monkeypatch) -> None:
    folder_of_games(tmp_path, monkeypatch)
    with play("walks:endless", "--policy", "walks:stay", "--fps", "20") as at, browser() as page:
        page.open(at["url"])
        page.join()
        tick = choose_oldest(page, 120)
        assert tick < 20
        page.until_state("paused")
        judge_it(page, tick)
        # A choice that is not used is left by "Go on".
        choose_oldest(page, page.tick())
        page.until_state("paused")
        page.driver.find_element("id", "pause").click()
        page.until_state("playing")
        page.until(lambda: "choose one" in page.script(TITLE))


@on_loop
async def test_page_of_a_judge_waits_and_the_game_goes_on() -> None:
    """A judge may not pause: the page alone stands still."""
    taken: list[int] = []
    options: Any = {"policy": lambda _: 0}
    async with scene(lambda: Walk(10**6, taken), place=options, fps=20, takeover=True) as on:
        player, judge = (on.page.invite(on.place, role) for role in ("player", "judge"))
        await asyncio.to_thread(look_back, on.pages.url(player), on.pages.url(judge), taken)


def look_back(player: str, judge: str, taken: list[int]) -> None:
    with browser() as first:
        first.open(player)
        first.join()
        first.until(lambda: first.tick() > 0)
        with browser() as page:
            page.open(judge)
            page.join()
            tick = choose_oldest(page, len(taken) + 120)
            shown, before = page.tick(), len(taken)
            page.until(lambda: len(taken) > before + 20)
            assert page.tick() == shown
            assert page.text("state") == "playing"
            judge_it(page, tick)


@on_loop
async def test_page_that_is_one_too_many_says_so_and_comes_in_later(monkeypatch) -> None:
    async with scene(lambda: Walk(5), mode="press") as on:
        monkeypatch.setattr("cogrs.web.page.WEB_CONNECTIONS", 0)
        url = on.pages.url(on.page.invite(on.place))
        with browser() as page:
            await asyncio.to_thread(page.open, url)
            told = "Too many pages are connected. Trying again."
            await asyncio.to_thread(page.until, lambda: page.text("reason") == told)
            monkeypatch.undo()
            await asyncio.to_thread(page.join)
            await asyncio.to_thread(page.until, lambda: page.tick() == 0)
            await asyncio.to_thread(page.until, lambda: not page.text("reason"))


@pytest.mark.parametrize("keys", [["ARROW_LEFT"] * 3, ["ARROW_RIGHT"] * 5])
def test_slider_moved_by_keys_counts_once_at_rest(walk, keys) -> None:
    page, value = walk, (1 if "RIGHT" in keys[0] else -1) * len(keys) / 10
    before = len(page.all("given"))
    page.script("document.querySelector('[data-cogrs=value]').focus()")
    page.keys(*keys)
    page.until(lambda: len(page.all("given")) == before + 1)
    assert float(page.all("given")[0].get_attribute("data-value")) == pytest.approx(value)
    page.keys(keys[0], "ENTER")  # does not wait
    page.until(lambda: len(page.all("given")) == before + 2)


@pytest.fixture(scope="module")
def walk() -> Any:
    """A page at tick 1 of a game that waits for presses."""
    with play("CartPole-v1", "--mode", "press") as at, browser() as page:
        page.open(at["url"])
        page.join()
        page.until(lambda: page.tick() == 0)
        page.keys("ARROW_LEFT")
        page.until(lambda: page.tick() == 1)
        yield page


def test_choice_of_a_picture_holds_for_one_judgement_or_until_the_next_tick(walk) -> None:
    page = walk
    page.script("document.activeElement.blur()")
    page.keys("ARROW_RIGHT")
    page.until(lambda: page.tick() == 2)
    first = "document.querySelector('[data-cogrs=earlier] [data-tick=\"1\"]')"
    for judged in (1, 2):
        if judged == 1:
            page.script(f"{first}.click()")
        page.keys("g")
        page.until(lambda: page.all("given")[0].get_attribute("data-tick") == str(judged))  # noqa: B023
    page.script(f"{first}.click()")
    # A key that is held repeats; it is one press.
    page.script(
        "for (const repeat of [false, true, true]) dispatchEvent(new KeyboardEvent("
        "'keydown', {code: 'ArrowLeft', repeat, bubbles: true}));"
        "dispatchEvent(new KeyboardEvent('keyup', {code: 'ArrowLeft', bubbles: true}))"
    )
    page.until(lambda: page.tick() == 3)
    assert page.script(f"return {first}.getAttribute('aria-pressed')") == "false"
    count = len(page.all("given"))
    page.keys("b")
    page.until(lambda: len(page.all("given")) == count + 1)
    assert page.all("given")[0].get_attribute("data-tick") == "3"
    assert page.tick() == 3
    assert page.errors() == []
