"""`cogrs play --store`: trials that are kept, with what people judged after their end."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from websockets.sync.client import connect

from cogrs import cli, sdk
from cogrs.store import TrialFilter, open_store
from tests.web.browser import browser, needs_browser
from tests.web.stored import Player, folder_of_games, joined, play

if TYPE_CHECKING:
    from pathlib import Path

    from cogrs.sdk.trial import ReceivedReward

parquet = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return folder_of_games(tmp_path, monkeypatch)


def given(folder: Path, trial_id: str) -> list[tuple[int | None, float, float]]:
    """Tick, value and confidence of each reward by a person, as `read_log` has them."""
    with open_store(folder) as store:
        record = store.trial(trial_id)
        assert not record.partial
        _, samples = sdk.read_log(store.path(record))
        rewards: list[ReceivedReward] = [
            reward for sample in samples for reward in sample.rewards.get("player", ())
        ]
    return [
        (reward.tick, source.value, source.confidence)
        for reward in rewards
        for source in reward.sources
        if source.sender_name == "player"
    ]


def test_judgements_during_and_after_a_trial_are_at_their_steps_in_the_store(folder, capsys):
    with play(folder, "walks:short", "--mode", "press") as at, joined(at) as player:
        trial = player.until("state", state="playing")["trial"]
        for tick in range(4):
            player.until("tick", tick=tick)
            if tick == 3:
                player.send("feedback", tick=2, value=0.5)
                assert player.until("ack", of="feedback")["stored"]
            player.send("action", tick=tick, value=1)
        player.until("state", state="ended")
        # At once: the trial is not in the store yet.
        player.send("feedback", tick=4, value=-1, confidence=0.25)
        assert player.until("ack", of="feedback")["stored"]
        player.send("feedback", tick=1, value=1)
        assert player.until("ack", of="feedback")["stored"]
        player.send("feedback", undo=True)
        assert player.until("ack", of="feedback", undone=True)
    assert given(folder, trial) == [(2, 0.5, 1), (4, -1, 0.25), (1, 1, 1), (1, -1, 1)]
    with open_store(folder) as store:
        (record,) = store.trials(TrialFilter(people=True))
        assert record.trial_id == trial
        assert list(store.verify()) == []
    assert cli.main(["data", "show", trial, "--json", "--store", str(folder)]) == 0
    lines = map(json.loads, capsys.readouterr().out.splitlines())
    steps = {line["step"]: line for line in lines if "step" in line}
    by = {
        step: [one["value"] for each in line["rewards"] for one in each["sources"]]
        for step, line in steps.items()
    }
    assert by[3] == [1.0, -1.0]
    assert by[0] == [1.0, 1.0, -1.0]


def test_nothing_of_a_person_is_stored(folder):
    header = {"User-Agent": "Browser of Quentin"}
    with play(folder, "walks:short", "--mode", "press") as at:
        token = at["url"].partition("#")[2]
        with connect(f"ws://127.0.0.1:{at['port']}/ws", additional_headers=header) as socket:
            player = Player(socket)
            player.send("join", token=token, name="Quentin Zwick")
            session = player.until("hello")["session"]
            for tick in range(4):
                player.until("tick", tick=tick)
                player.send("action", tick=tick, value=1)
            player.send("feedback", tick=2, value=1)
            player.until("state", state="ended")
    # Texts of Parquet files may be compressed, so their columns are read as well.
    files = [path for path in folder.rglob("*") if path.is_file()]
    logs = [path for path in files if path.suffix == ".parquet"]
    kept = b"".join(path.read_bytes() for path in files)
    kept += "".join(repr(parquet.read_table(log).to_pydict()) for log in logs).encode()
    assert len(logs) == 1
    assert b"player" in kept
    for secret in ("Quentin", "Zwick", token, session):
        assert secret.encode() not in kept


def test_judgement_that_ctrl_c_follows_at_once_is_in_the_store(folder):
    with play(folder, "walks:short", "--mode", "press") as at, joined(at) as player:
        trial = player.until("state", state="playing")["trial"]
        for tick in range(4):
            player.until("tick", tick=tick)
            player.send("action", tick=tick, value=1)
        player.until("state", state="ended")
        player.send("feedback", ticks=[1, 2, 3, 4], value=1)
        player.send("ping", id=7)
        player.until("ack", of="ping", id=7)
    assert given(folder, trial) == [(tick, 0.25, 1) for tick in (1, 2, 3, 4)]


def test_judgement_of_an_earlier_trial_leaves_the_next_one_alone(folder):
    arguments = ("walks:short", "--mode", "press", "--trials", "2")
    with play(folder, *arguments) as at, joined(at) as player:
        trials = []
        for _ in range(2):
            trials.append(player.until("state", state="playing")["trial"])
            for tick in range(4):
                player.until("tick", tick=tick)
                player.send("action", tick=tick, value=1)
            player.until("state", state="ended")
        player.send("feedback", tick=2, value=1, trial=trials[0])
        assert player.until("ack", of="feedback")["stored"]
    assert [given(folder, trial) for trial in trials] == [[(2, 1, 1)], []]


def test_stored_trial_has_take_overs_with_both_actions_and_its_pictures(folder):
    image = pytest.importorskip("PIL.Image")
    with play(folder, "walks:long", "--policy", "walks:stay") as at, joined(at) as player:
        trial = player.until("state", state="playing")["trial"]
        player.until("tick", tick=3)
        player.send("action", value=1, takeover=True)
        player.until("tick", tick=20)
        player.send("action", value=1, takeover=False)
        player.until("state", state="ended")
        player.send("feedback", tick=40, value=1)
        assert player.until("ack", of="feedback")["stored"]
    notes, actions, pictures = {}, [], {}
    with open_store(folder) as store:
        _, samples = store.read(trial)
        for sample in samples:
            if "player" in sample.actions:
                actions.append(sample.actions["player"])
            for message in sample.messages.get("player", ()):
                content = sdk.read_array_message(message.payload)
                if message.sender == "player":
                    notes[message.tick] = {key: part.item() for key, part in content.items()}
                else:
                    pictures[message.tick] = np.asarray(image.open(io.BytesIO(content.tobytes())))
    taken = [int(action) for action in actions if action is not None]
    assert len(taken) == 40
    assert set(notes) == {tick for tick, action in enumerate(taken) if action == 1}
    assert all(note == {"policy": 2, "person": 1, "takeover": True} for note in notes.values())
    assert sorted(pictures) == list(range(41))
    assert (pictures[3] == 30).all()


@needs_browser
def test_thumb_for_an_earlier_picture_after_the_end_is_in_the_store(folder):
    with play(folder, "walks:short", "--mode", "press") as at, browser() as page:
        page.open(at["url"])
        page.join()
        for tick in range(4):
            page.until(lambda tick=tick: page.tick() == tick)
            page.keys("d")
        page.until_state("ended")
        page.until(lambda: len(page.all("earlier")) == 4)
        (third,) = [e for e in page.all("earlier") if e.get_attribute("data-tick") == "3"]
        third.click()
        page.find("good").click()
        page.until(lambda: page.all("given"))
        assert "not stored" not in page.text("given")
    with open_store(folder) as store:
        (record,) = store.trials()
    assert given(folder, record.trial_id) == [(3, 1, 1)]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--store", ""], "--store: expected a folder, got ''"),
        (["--store-files", "x"], "--store-files: expected only beside a postgresql:// URL"),
        (["--store", "postgresql://db/x"], "--store-files: expected the folder of files"),
        (["--store", "walks.py"], "walks.py"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_store_that_cannot_be_used_is_an_error_in_one_line(folder, capsys, arguments, error):
    assert cli.main(["play", "CartPole-v1", "--no-browser", *arguments]) == 2
    err = capsys.readouterr().err
    assert err.startswith("cogrs play: ")
    assert error in err
    assert len(err.splitlines()) == 1
