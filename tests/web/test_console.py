"""The console: its wire, and the page in a real browser."""

from __future__ import annotations

import base64
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import cogrs
from cogrs import sdk
from cogrs.web import Console
from tests.web.browser import CONTRAST, NAME, browser, needs_browser, play
from tests.web.stage import Wire, report_with, stage


def test_operator_sees_and_terminates_a_trial_that_waits_for_a_person() -> None:
    with stage(mode="press") as at, at.connect() as person, at.operate() as wire:
        person.until("tick", tick=0)
        person.send("action", tick=0, value=1)
        person.until("tick", tick=1)
        title = wire.until("console")["title"]
        assert title == f"127.0.0.1:{at.server.port}"
        report = report_with(wire, lambda r: r["trials"] and r["trials"][0]["tick"] == 1)
        (trial,) = report["trials"]
        assert (trial["state"], trial["awaited"]) == ("running", {"person": 1})
        later = report_with(wire, lambda r: r["trials"][0]["waited"] >= 1)
        assert later["trials"][0]["rate"] == 0
        assert later["charts"]["ticks per second"] == 0
        assert later["counts"]["trials started"] == 1
        wire.send("terminate", trial=trial["id"])
        assert wire.until("ack", of="terminate")["ok"]
        over = report_with(wire, lambda r: r["ended"])
        reason = "TerminateTrial was called"
        assert over["ended"] == [{"id": trial["id"], "reason": reason, "failed": False}]
        assert over["trials"] == []
        ended = person.until("state", state="ended")
        assert ended["reason"] == "The trial was ended by an operator."


def test_trial_that_is_not_there_is_refused_in_words() -> None:
    with stage() as at, at.operate() as wire:
        wire.send("terminate", trial="nosuch")
        ack = wire.until("ack", of="terminate")
        assert not ack["ok"]
        assert ack["reason"] == "the orchestrator refused: no trial 'nosuch'"


@pytest.mark.parametrize("given", ["", "guess", "of a player"])
def test_token_of_no_operator_is_refused(given) -> None:
    with stage() as at:
        token = at.page.invite(at.place) if given == "of a player" else given
        with at.operate(token) as wire:
            assert wire.until_closed() == (4001, "this link is not valid: ask for a new one")
        with at.connect(token=at.console.invite()) as person:
            assert person.until_closed()[0] == 4001


def test_message_before_the_token_does_nothing() -> None:
    with (
        stage(mode="press") as at,
        at.connect() as person,
        at.client.websocket_connect("ws://127.0.0.1:8000/console/ws") as socket,
    ):
        trial = person.until("state", state="playing")["trial"]
        wire = Wire(socket)
        wire.send("terminate", trial=trial)
        assert wire.until_closed() == (1008, "expected a join message first")
        person.send("action", tick=0, value=1)
        person.until("tick", tick=1)


@pytest.mark.parametrize("kind", ["action", "join", "leave"])
def test_message_of_players_is_refused(kind) -> None:
    with stage() as at, at.operate() as wire:
        wire.send(kind)
        assert wire.until_closed()[0] == 1008


def test_dropped_items_are_counted_while_the_trial_runs() -> None:
    late = base64.b64encode(sdk.ArrayCodec().encode(0)).decode()
    options = {"actor_class": "person", "response_timeout": 0.05, "default_action": late}
    config = {"actor_options": [options]}
    with (
        stage(length=10**6, mode="press", config=config) as at,
        at.connect() as person,
        at.operate() as wire,
    ):
        person.until("tick", tick=0)
        report = report_with(wire, lambda r: r["dropped"])
        assert report["dropped"]["default actions"] > 0
        assert report["charts"]["dropped"] >= report["dropped"]["default actions"]


def test_named_replay_servers_show_their_figures_and_a_fault_hides_no_other() -> None:
    scalar, empty = np.float32(0), np.zeros(0, np.float32)
    templates = (scalar, np.int32(0), scalar, scalar, scalar, scalar, empty)
    limiter = cogrs.RateLimiter(samples_per_insert=8, min_size=1_000, error_buffer=800)
    memory = cogrs.ReplayMemory(*templates, max_step=10_000, limiter=limiter)

    def broken() -> None:
        raise RuntimeError("it is closed")

    replays = {"learner": memory, "gone": SimpleNamespace(stats=broken)}
    with stage(replays=replays) as at, at.operate() as wire:
        learner, gone = wire.until("report")["replays"]
        assert learner["figures"]["samples per insert"] == 0
        assert gone == {"name": "gone", "figures": {}, "fault": "it is closed"}


def test_replay_without_statistics_is_refused() -> None:
    controller: Any = None
    with pytest.raises(TypeError, match="replays: 'x': expected a method stats, got int"):
        Console(controller, "here", {"x": 3})


def test_console_of_an_orchestrator_that_is_gone_says_so() -> None:
    with stage() as at, at.operate() as wire:
        wire.until("report")
        at.server.stop(1.0)
        assert wire.until("state", state="waiting")["reason"]


def test_page_without_a_console_has_no_such_path() -> None:
    from starlette.testclient import TestClient

    from cogrs.web import Page

    client = TestClient(Page().app, base_url="http://127.0.0.1:8000")
    assert client.get("/").status_code == 200
    assert client.get("/console").status_code == 404


@needs_browser
def test_console_in_a_browser_shows_a_trial_and_terminates_a_trial() -> None:
    with play("CartPole-v1", "--mode", "press") as at, browser(360, 640) as page:
        page.open(at["url"])
        page.join()
        page.until(lambda: page.tick() == 0)
        page.keys("ARROW_LEFT")
        page.until(lambda: page.tick() == 1)
        person = page.driver.current_window_handle
        page.driver.switch_to.new_window("window")
        page.open(at["console"])
        page.until(lambda: page.script(ROW + "return row?.cells[2].textContent") == "1")
        assert "#" not in page.driver.current_url
        page.driver.refresh()  # which resumes by the key of the tab
        page.until(lambda: page.script(ROW + "return row?.dataset.trial"))
        charts = page.script("return document.querySelectorAll('[data-cogrs=chart] path').length")
        assert charts >= 3
        button = page.find("terminate")
        for dark in (False, True):
            page.look(360, 640, dark=dark)
            assert page.script("return matchMedia('(prefers-color-scheme: dark)').matches") is dark
            assert page.script("return document.documentElement.scrollWidth - innerWidth") <= 0
            page.until(lambda: min(page.script(CONTRAST)) >= 4.5)  # colours change over 0.12 s
            assert page.script(NAME, button)
            assert min(button.size.values()) >= 24
        button.click()
        page.until(lambda: not page.script(ROW + "return row"))
        assert page.errors() == []
        page.driver.switch_to.new_window("window")
        page.open(at["console"].partition("#")[0])
        page.until(lambda: "ask for a new one" in page.text("reason"))
        assert not page.driver.find_element("id", "trials-title").is_displayed()
        page.driver.switch_to.window(person)
        page.until_state("ended")
        assert page.text("reason").startswith("The trial was ended by an operator.")


ROW = "const row = document.querySelector('[data-cogrs=trial]');"
