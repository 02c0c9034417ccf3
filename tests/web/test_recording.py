"""Stored trials in the console: over its wire, and in a real browser."""

from __future__ import annotations

import io
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from websockets.sync.client import connect

from cogrs import sdk
from cogrs.api.any import pack
from cogrs.api.common_pb2 import RewardSource, TrialParams
from cogrs.sdk.codecs import array_message
from cogrs.sdk.trial import Actor
from cogrs.store import open_store
from cogrs.web.picture import compress_frame
from cogrs.web.recording import Recording
from cogrs.web.wire import PNG, pack_frame, unpack_frame
from tests.web.browser import CONTRAST, NAME, browser, needs_browser
from tests.web.stage import stage
from tests.web.stored import Player, folder_of_games, joined, play

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytest.importorskip("pyarrow")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return folder_of_games(tmp_path, monkeypatch)


def play_long(at: dict[str, Any]) -> str:
    """Watch a policy, take over from tick 3 to about 20, and judge a step after the end."""
    with joined(at) as player:
        trial = player.until("state", state="playing")["trial"]
        player.until("tick", tick=3)
        player.send("action", value=1, takeover=True)
        player.until("tick", tick=20)
        player.send("action", value=1, takeover=False)
        player.until("state", state="ended")
        player.send("feedback", tick=10, value=-1, confidence=0.5)
        assert player.until("ack", of="feedback")["stored"]
    return str(trial)


@contextmanager
def operator(at: dict[str, Any]) -> Iterator[Player]:
    with connect(f"ws://127.0.0.1:{at['port']}/console/ws") as socket:
        wire = Player(socket)
        wire.send("join", token=at["console"].partition("#")[2])
        assert wire.until("console")["store"]
        yield wire


def test_operator_sees_rewards_origins_and_pictures_of_a_stored_trial(folder):
    image = pytest.importorskip("PIL.Image")
    with play(folder, "walks:long", "--policy", "walks:stay") as at:
        trial = play_long(at)
        with operator(at) as wire:
            wire.send("list")
            (row,) = wire.until("stored")["trials"]
            assert (row["id"], row["ticks"], row["people"]) == (trial, 40, True)
            wire.send("list", until=row["started"] - 1)
            assert wire.until("stored")["trials"] == []
            wire.send("open", trial=trial)
            line = wire.until("timeline")
            assert (line["last"], line["width"], line["pictures"]) == (40, 1, 41)
            (actor,) = line["actors"]
            assert actor["rewards"]["env"] == [[tick, 1] for tick in range(1, 41)]
            assert actor["rewards"]["player"] == [[10, -1]]
            by_person = [tick for tick, _ in actor["origins"]["person"]]
            by_policy = [tick for tick, _ in actor["origins"]["policy"]]
            assert sorted(by_person + by_policy) == list(range(40))
            assert {0, 1, 2, 39} <= set(by_policy)
            assert {10, 15} <= set(by_person)
            wire.send("show", trial=trial, tick=10)
            step = wire.until("step")
            (did,) = step["actors"]
            assert (did["origin"], did["action"], did["policy"]) == ("person", {"": [1]}, {"": [2]})
            assert did["seen"] == {"": [10.0]}
            late = {"sender": "player", "value": -1, "confidence": 0.5, "delivered": 40}
            assert late in did["rewards"]
            assert step["picture"]
            kind, tick, picture = unpack_frame(wire.picture())
            assert (kind, tick) == (1, 10)
            assert (np.asarray(image.open(io.BytesIO(picture))) == 100).all()


def test_request_for_a_trial_or_tick_that_is_not_there_is_refused_in_words(folder):
    with play(folder, "walks:short", "--mode", "press") as at, operator(at) as wire:
        wire.send("open", trial="nosuch")
        refused = wire.until("ack", of="open")
        assert not refused["ok"]
        assert "nosuch" in refused["reason"]
        wire.send("show", trial="nosuch", tick=0)
        assert wire.until("ack", of="show")["reason"].startswith("trial: expected the one that was")
        with joined(at) as player:
            trial = player.until("state", state="playing")["trial"]
            for tick in range(4):
                player.until("tick", tick=tick)
                player.send("action", tick=tick, value=1)
            player.until("state", state="ended")
            player.send("feedback", tick=1, value=1)
            player.until("ack", of="feedback")
        wire.send("open", trial=trial)
        wire.until("timeline")
        wire.send("show", trial=trial, tick=5)
        assert wire.until("ack", of="show")["reason"] == "tick: expected one from 0 to 4, got 5"


def test_console_without_a_store_names_the_missing_option() -> None:
    with stage() as at, at.operate() as wire:
        assert not wire.until("console")["store"]
        for kind, fields in (("list", {}), ("open", {"trial": "x"})):
            wire.send(kind, **fields)
            assert wire.until("ack", of=kind)["reason"].endswith("give --store")


@pytest.mark.parametrize("people", [False, True])
def test_list_of_trials_is_narrowed_to_trials_with_judgements(folder, people) -> None:
    with play(folder, "walks:short", "--mode", "press") as at:
        with joined(at) as player:
            player.until("state", state="playing")
            for tick in range(4):
                player.until("tick", tick=tick)
                player.send("action", tick=tick, value=1)
            player.until("state", state="ended")
        with operator(at) as wire:
            rows: list[Any] = []
            while not rows:
                wire.send("list")
                rows = wire.until("stored")["trials"]
            wire.send("list", people=people)
            assert len(wire.until("stored")["trials"]) == (0 if people else 1)
    with open_store(folder) as store:
        assert store.count() == 1


# -- recordings of samples that are made here ----------------------------------------------------


def source(sender: str, value: float, confidence: float = 1.0) -> RewardSource:
    return RewardSource(sender_name=sender, value=value, confidence=confidence)


def recording(ticks: int, **first: Any) -> Recording:
    """A trial of an agent that is late at ticks 2 and 3, and of a client; raw pictures."""
    params = TrialParams()
    params.actors.add(name="a", actor_class="x", endpoint="local://agents")
    params.actors.add(name="c", actor_class="x", endpoint="client")
    trial = sdk.LoggedTrial("t", (Actor("a", "x"), Actor("c", "x")), params)

    def sample(tick: int) -> sdk.Sample:
        sources = (source("env", 2.0), source("c", float("nan")), source("c", -0.5, 0.0))
        pixels = np.full((2, 3, 3), tick % 256, np.uint8)
        picture = sdk.ReceivedMessage("env", pack(array_message(pixels)), tick)
        return sdk.Sample(
            tick,
            {"a": sdk.Observation(tick, np.float32([tick])), "c": sdk.Observation(tick, b"x" * 9)},
            {"a": np.int64(1), "c": np.int64(0)} if tick < ticks else {},
            {"a": (sdk.ReceivedReward(tick, 2.0, sources),)} if tick else {},
            {"c": (picture,)} | (first if tick == 0 else {}),
            stood_in=frozenset({"a"} if tick in (2, 3) else ()),
        )

    return Recording(trial, map(sample, range(ticks + 1)), lambda: False)


def test_time_line_of_a_long_trial_has_few_parts_and_the_same_sums() -> None:
    made = recording(5_000)
    line = made.timeline()
    a, c = line["actors"]
    assert line["width"] == 9
    assert len(a["rewards"]["env"]) <= 600
    assert sum(total for _, total in a["rewards"]["env"]) == 2.0 * 5_000
    assert sum(count for _, count in a["origins"]["agent"]) == 5_000 - 2
    assert a["origins"]["default"] == [[0, 2]]
    assert sum(count for _, count in c["origins"]["client"]) == 5_000
    assert c["rewards"] == {}
    json.dumps(line, allow_nan=False)
    made.close()


def test_step_of_a_recording_has_the_picture_in_any_order() -> None:
    image = pytest.importorskip("PIL.Image")
    made = recording(300)
    for tick in (255, 3, 300, 0):
        packed = made.picture(tick)
        assert packed is not None
        _, shown, picture = unpack_frame(packed)
        assert shown == tick
        assert (np.asarray(image.open(io.BytesIO(picture))) == tick % 256).all()
        a, c = made.step(tick)["actors"]
        assert a["seen"] == {"": [float(tick)]}
        assert c["seen"] == {"": ["9 bytes"]}
    assert [each["origin"] for each in made.step(3)["actors"]] == ["default", "client"]
    assert [each["origin"] for each in made.step(300)["actors"]] == ["none", "none"]
    made.close()


def test_message_of_another_kind_is_not_a_picture() -> None:
    strange = [np.zeros((2, 2, 5), np.uint8), np.zeros(4, np.uint8), np.float32([[1]])]
    messages = tuple(sdk.ReceivedMessage("env", pack(array_message(each)), 0) for each in strange)
    others = (sdk.ReceivedMessage("env", pack(TrialParams()), 0),)
    made = recording(1, a=messages + others)
    assert made.timeline()["pictures"] == 2
    made.close()


def test_compressed_picture_of_a_store_is_sent_unchanged() -> None:
    pytest.importorskip("PIL.Image")
    kept = compress_frame(np.zeros((4, 4, 3), np.uint8))
    params = TrialParams()
    params.actors.add(name="a", actor_class="x", endpoint="client")
    picture = sdk.ReceivedMessage("env", pack(array_message(kept)), 0)
    sample = sdk.Sample(0, {"a": sdk.Observation(0, np.float32([0]))}, messages={"a": (picture,)})
    made = Recording(sdk.LoggedTrial("t", (Actor("a", "x"),), params), [sample], lambda: False)
    assert made.picture(0) == pack_frame(PNG, 0, kept.tobytes())
    made.close()


def test_recording_beyond_its_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cogrs.web.recording.WEB_RECORDING_BYTES", 2_000)
    with pytest.raises(ValueError, match="trial t: expected at most 2000 bytes of pictures"):
        recording(100)


def test_unwanted_recording_stops_to_read() -> None:
    trial = sdk.LoggedTrial("t", (), TrialParams())
    endless = iter(lambda: sdk.Sample(0), None)
    asked = iter([False] * 5)
    with pytest.raises(InterruptedError):
        Recording(trial, endless, lambda: next(asked, True))


# -- the page -----------------------------------------------------------------------------------


@needs_browser
def test_operator_replays_a_stored_trial_in_a_browser(folder) -> None:
    with play(folder, "walks:long", "--policy", "walks:stay") as at:
        trial = play_long(at)
        with browser(360, 640) as page:
            page.open(at["console"])
            row = page.until(lambda: page.script(f"return {ROW}"))
            assert row.get_attribute("data-trial") == trial
            row.find_element("css selector", "button").click()
            page.until(lambda: page.tick() == 0)
            bars = page.script(
                "return document.querySelector('[data-sender=env]').getAttribute('d')"
            )
            assert bars.count("M") == 40
            seek = page.driver.find_element("id", "seek")
            seek.click()  # its middle
            page.until(lambda: page.tick() > 0)
            page.keys("HOME")
            page.until(lambda: page.tick() == 0)
            page.keys("ARROW_RIGHT", "ARROW_RIGHT")
            page.until(lambda: page.tick() == 2)
            page.driver.find_element("id", "play").click()
            page.until(lambda: page.tick() == 40)
            assert (
                page.script("return document.getElementById('tick').textContent") == "Tick 40 of 40"
            )
            page.script("document.querySelector('#lanes svg').dispatchEvent("
                        "new MouseEvent('click', {bubbles: true, clientX: 100}))")  # fmt: skip
            page.until(lambda: page.tick() < 40)
            for dark in (False, True):
                page.look(360, 640, dark=dark)
                overflow = page.script("return document.documentElement.scrollWidth - innerWidth")
                assert overflow <= 0
                page.until(lambda: min(page.script(CONTRAST)) >= 4.5)  # colours change over 0.12 s
            for element in page.driver.find_elements("css selector", "button, input, select"):
                if element.is_displayed():
                    assert page.script(NAME, element), element.get_attribute("outerHTML")
            page.driver.refresh()
            page.until(lambda: page.script(f"return {ROW}"))
            assert page.errors() == []


ROW = "document.querySelector('[data-cogrs=stored]')"
