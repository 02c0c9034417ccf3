"""The page in a real browser."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING

import pytest
from websockets.sync.client import connect

import cogrs
from cogrs import sdk
from tests.commands.command import script
from tests.ports import unused_ports
from tests.program import program
from tests.web.browser import CONTRAST, NAME, browser, needs_browser, play
from tests.web.stored import Player, folder_of_games
from tests.web.walk import Walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.web.browser import Browser

pytestmark = needs_browser


def play_to_the_end(page: Browser) -> None:
    """Drive to one side until the pole has fallen, which takes eight steps at least."""
    while page.text("state") != "ended":
        page.keys("ARROW_LEFT")


def test_person_plays_cart_pole_by_keys_to_its_end() -> None:
    with play("CartPole-v1", "--mode", "press", "--seed", "1") as at, browser() as page:
        page.open(at["url"])
        assert "#" not in page.until(lambda: page.shown("join") and page.driver.current_url)
        assert min(page.script(CONTRAST)) >= 4.5
        page.join()
        page.until(lambda: page.tick() == 0)
        page.until_state("playing")
        play_to_the_end(page)
        assert page.script("return document.getElementById('stage').dataset.idle") == ""
        page.until(lambda: page.text("reason") == "The game is over. This was the last trial.")
        assert float(page.text("score")) >= 8
        last = int(float(page.text("score")))
        page.until(lambda: page.tick() == last)
        assert min(page.script(CONTRAST)) >= 4.5
        # Feedback after the end is recorded, and can be undone.
        page.find("good").click()
        page.until(lambda: page.all("given"))
        assert page.all("given")[0].get_attribute("data-tick") == str(last)
        page.find("undo").click()
        page.until(lambda: page.all("given")[0].get_attribute("data-undone"))
        assert page.errors() == []


def test_buttons_act_and_are_reached_by_tab() -> None:
    with play("FrozenLake-v1", "--mode", "press") as at, browser() as page:
        page.open(at["url"])
        page.join()
        page.until(lambda: page.tick() == 0)
        page.find("action-1").click()
        page.until(lambda: page.tick() == 1)
        reached = set()
        for _ in range(30):
            page.keys("TAB")
            reached.add(page.script("return document.activeElement.dataset.cogrs"))
        assert {f"action-{k}" for k in range(4)} <= reached
        assert {"good", "bad", "value", "undo", "leave"} <= reached


def test_link_that_was_used_is_refused_and_a_reload_resumes() -> None:
    with play("CartPole-v1", "--mode", "press") as at:
        with browser() as page:
            page.open(at["url"])
            page.join()
            page.until(lambda: page.tick() == 0)
            page.keys("ARROW_LEFT")
            page.until(lambda: page.tick() == 1)
            page.driver.refresh()
            page.until(lambda: page.tick() == 1)
            assert page.shown("join") is None
            with browser() as other:
                other.open(at["url"])
                other.until_state("ended")
                assert "was used already" in other.text("reason")
                assert other.shown("join") is None
            with browser() as other:
                other.open(at["spectator"])
                other.until(lambda: other.tick() == 1)
                for name in ("good", "leave", "takeover"):
                    assert other.shown(name) is None
        with browser() as page:
            page.open(at["url"].partition("#")[0])
            page.until_state("ended")
            assert "needs a link" in page.text("reason")
            for name in ("frame", "score", "leave", "good"):
                assert page.shown(name) is None


def test_second_tab_takes_over_and_the_first_is_told() -> None:
    with play("CartPole-v1", "--mode", "press") as at, browser() as page:
        page.open(at["url"])
        page.join()
        page.until(lambda: page.tick() == 0)
        first, before = page.driver.current_window_handle, set(page.driver.window_handles)
        page.script("window.open(location.href)")  # which has a copy of the session's key
        (second,) = set(page.driver.window_handles) - before
        page.driver.switch_to.window(second)
        page.until(lambda: page.shown("here"))
        page.find("here").click()
        page.until(lambda: page.tick() == 0)
        page.until_state("playing")
        page.driver.switch_to.window(first)
        page.until_state("elsewhere")
        page.until(lambda: page.shown("here"))


def start_trial(where: str) -> None:
    """Start a trial, once the orchestrator answers."""

    async def start() -> None:
        async with sdk.TrialController(where) as controller:
            async with asyncio.timeout(60):
                while True:
                    with suppress(sdk.UnreachableError):
                        await controller.start_trial()
                        return
                    await asyncio.sleep(0.1)

    asyncio.run(start())


def test_page_says_that_its_orchestrator_is_gone_and_plays_the_next_trial() -> None:
    (port,) = unused_ports(1)
    where = f"127.0.0.1:{port}"
    player = {"name": "ada", "actor_class": "person", "endpoint": "client"}
    params = {"environment": {"endpoint": "local://walk"}, "actors": [player]}
    walk = sdk.GymnasiumEnvironment.factory(lambda: Walk(9), frames_to=["ada"])
    local = {"walk": sdk.local_environments({"": walk})}
    serve = partial(cogrs.serve_orchestrator, {"trial_params": params}, port=port, local=local)
    arguments = ("--orchestrator", where, "--actor-class", "person", "--mode", "press", "--json")
    with ExitStack() as stack:
        server = serve()
        stack.callback(server.stop, 0)
        process = stack.enter_context(program(script("web", *arguments)))
        at = json.loads(process.stdout.readline())
        page = stack.enter_context(browser())
        page.open(at["url"])
        page.join()
        page.until_state("waiting")
        start_trial(where)
        page.until(lambda: page.tick() == 0)
        page.keys("a")
        page.until(lambda: page.tick() == 1)
        assert page.driver.title == "Walk · cogrs"
        server.stop(0)
        page.until_state("waiting", "ended")
        page.until(lambda: page.text("reason"))
        server = serve()
        stack.callback(server.stop, 0)
        start_trial(where)
        page.until(lambda: page.tick() == 0)
        page.until_state("playing")
        page.keys("d", "d")
        page.until(lambda: page.tick() >= 1)
        assert page.errors() == []


def test_page_that_slept_goes_on_at_the_present_tick(tmp_path, monkeypatch) -> None:
    folder_of_games(tmp_path, monkeypatch)
    with play("walks:endless", "--policy", "walks:stay", "--fps", "60") as at, browser() as page:
        page.open(at["url"])
        page.join()
        page.until(lambda: page.tick() > 5)
        page.driver.execute_cdp_cmd("Page.setWebLifecycleState", {"state": "frozen"})
        with connect(f"ws://127.0.0.1:{at['port']}/ws") as socket:
            watcher = Player(socket)
            watcher.send("join", token=at["spectator"].partition("#")[2])
            first = watcher.until("tick")["tick"]
            while (present := watcher.until("tick")["tick"]) < first + 60:
                pass
        page.driver.execute_cdp_cmd("Page.setWebLifecycleState", {"state": "active"})
        page.until(lambda: page.tick() >= present)
        page.until_state("playing")
        # Not all the ticks of the sleep are shown, but those of now are.
        page.find("good").click()
        page.until(lambda: page.all("given"))
        assert int(page.all("given")[0].get_attribute("data-tick")) >= present
        # The browser itself may have closed the connection of a page that sleeps.
        assert [each for each in page.errors() if "Back-Forward Cache" not in each] == []


@pytest.fixture(scope="module")
def at_tick_0() -> Iterator[Browser]:
    """A page that plays CartPole and has not acted, for tests that look at it."""
    with play("CartPole-v1", "--mode", "press") as at, browser() as page:
        page.open(at["url"])
        page.join()
        page.until(lambda: page.tick() == 0)
        yield page


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_phone_shows_picture_and_controls_without_scrolling(at_tick_0, dark) -> None:
    page = at_tick_0
    page.show(360, 640, dark=dark)
    assert page.script("return matchMedia('(prefers-color-scheme: dark)').matches") is dark
    page.script("scrollTo(0, 0)")
    for name in ("frame", "state", "action-0", "action-1", "good", "bad"):
        box = page.script(
            "const b = arguments[0].getBoundingClientRect();"
            "return [b.left, b.top, innerWidth - b.right, innerHeight - b.bottom]",
            page.find(name),
        )
        assert min(box) >= 0, (name, box)
    for element in page.driver.find_elements("css selector", "button, input"):
        if element.is_displayed():
            assert min(element.size.values()) >= 24, element.get_attribute("outerHTML")
            assert page.script(NAME, element), element.get_attribute("outerHTML")
    assert page.script("return document.documentElement.lang") == "en"
    assert page.script("return document.documentElement.scrollWidth") <= 360
    assert min(page.script(CONTRAST)) >= 4.5


def test_page_asks_for_nothing_of_other_hosts(at_tick_0) -> None:
    page = at_tick_0
    page.show(1000, 900)
    found = page.script("return performance.getEntriesByType('resource').map(e => e.name)")
    here = page.script("return location.origin")
    assert {url.partition("/page")[0] for url in found} == {here}
    with urllib.request.urlopen(f"{here}/") as reply:
        assert "script-src 'self'" in reply.headers["Content-Security-Policy"]


def test_person_is_told_how_to_play_before_the_first_tick(tmp_path, monkeypatch) -> None:
    """The form says what the keys do in this mode; the empty list of feedback has no heading."""
    (tmp_path / "still.py").write_text("def stay(observation):\n    return 0\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with play("CartPole-v1", "--policy", "still:stay") as at, browser() as page:
        page.open(at["url"])
        form = page.until(lambda: page.shown("join"))
        assert "A policy plays. Hold Shift to act in its place." in form.text
        page.join()
        page.until(lambda: page.tick() >= 1)
        heading = page.driver.find_element("id", "given-title")
        assert not heading.is_displayed()
        page.find("good").click()
        page.until(lambda: page.all("given"))
        assert heading.is_displayed()
