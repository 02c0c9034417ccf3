"""Judgements: rewards for the tick on the screen, during a trial and after its end."""

from __future__ import annotations

from typing import Any

import pytest

from cogrs import sdk
from tests.web.stage import stage


class Log(sdk.DatalogSink):
    """Keeps the samples of all trials."""

    def __init__(self, samples: list[sdk.Sample]) -> None:
        self.samples = samples

    def sample(self, sample: sdk.Sample) -> None:
        self.samples.append(sample)


def logged(samples: list[sdk.Sample]) -> dict[str, Any]:
    """What gives a stage a log."""
    return {
        "local": {"log": sdk.local_datalog(lambda: Log(samples))},
        "config": {"datalog": {"type": "grpc", "url": "local://log"}},
    }


def play(wire: Any, first: int, last: int) -> None:
    """Act from one tick to before another."""
    if first == 0:
        wire.until("tick", tick=0)
    for tick in range(first, last):
        wire.send("action", tick=tick, value=1)
        wire.until("tick", tick=tick + 1)


def given(samples: list[sdk.Sample]) -> list[tuple[int, float]]:
    """Tick and value of each reward that ada sent."""
    found = []
    for sample in samples:
        for reward in sample.rewards.get("ada", ()):
            sources = [each for each in reward.sources if each.sender_name == "ada"]
            found += [(reward.tick, source.value) for source in sources]
    return found


def test_judgement_is_a_reward_of_its_tick_and_undo_its_opposite():
    samples: list[sdk.Sample] = []
    with stage(length=6, mode="press", **logged(samples)) as on:
        with on.connect() as wire:
            play(wire, 0, 4)
            wire.send("feedback", tick=2, value=0.5, confidence=0.25, seen=0.1)
            done = wire.until("ack", of="feedback")
            assert (done["ok"], done["tick"], done["value"], done["stored"]) == (True, 2, 0.5, True)
            wire.send("feedback", undo=True)
            assert wire.until("ack", of="feedback")["undone"]
            wire.send("feedback", undo=True)
            assert wire.until("ack", of="feedback")["reason"] == (
                "there is no judgement to take back"
            )
            wire.send("feedback", tick=4, value=-1)
            wire.until("ack", of="feedback", ok=True)
            wire.send("action", tick=4, value=1)
            wire.until("tick", tick=5)
            wire.send("action", tick=5, value=1)
            # What a person says of the own play is not a part of the score.
            assert wire.until("state", state="ended")["score"] == 6
        on.server.stop()
    assert given(samples) == [(2, 0.5), (2, -0.5), (4, -1.0)]


def judge(wire: Any, **fields: Any) -> Any:
    wire.send("feedback", **fields)
    return wire.until("ack", of="feedback")


def test_undo_takes_back_its_judgement_and_no_other():
    samples: list[sdk.Sample] = []
    with stage(length=10, mode="press", **logged(samples)) as on:
        with on.connect() as wire:
            play(wire, 0, 4)
            assert judge(wire, tick=2, value=1)["stored"]
            # It would be averaged with the first one, and waits until that has gone out.
            assert "stored" not in judge(wire, tick=2, value=1)
            play(wire, 4, 6)
            assert wire.until("ack", of="feedback", id=2)["stored"]
            assert judge(wire, undo=True)["undone"]
            play(wire, 6, 9)
            wire.send("action", tick=9, value=1)
            wire.until("state", state="ended")
        on.server.stop()
    assert given(samples) == [(2, 1), (2, 1), (2, -1)]
    counted = [
        reward.value
        for sample in samples
        for reward in sample.rewards.get("ada", ())
        if {source.sender_name for source in reward.sources} == {"ada"}
    ]
    assert sum(counted) == 1


def test_judgement_taken_back_while_waiting_is_never_sent():
    samples: list[sdk.Sample] = []
    with stage(length=8, mode="press", **logged(samples)) as on:
        with on.connect() as wire:
            play(wire, 0, 4)
            judge(wire, tick=2, value=1)
            judge(wire, tick=2, value=1)
            # Another step does not wait with it.
            assert judge(wire, tick=3, value=0.5)["stored"]
            assert judge(wire, undo=True)["id"] == 3
            assert judge(wire, undo=True)["id"] == 2
            assert judge(wire, undo=True)["id"] == 1
            play(wire, 4, 7)
            wire.send("action", tick=7, value=1)
            wire.until("state", state="ended")
        on.server.stop()
    assert sorted(given(samples)) == [(2, -1), (2, 1), (3, -0.5), (3, 0.5)]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"tick": 0, "value": 1}, "no action led to the first picture"),
        ({"tick": 3, "value": 1}, "tick: expected at most 2, got 3"),
        ({"tick": 1, "value": 2}, "value: expected a number from -1 to 1, got 2"),
        ({"tick": 1, "value": 1, "confidence": 0}, "confidence: expected a number from 0 to 1"),
        ({"tick": 1}, "feedback: expected a tick and a value"),
        ({"tick": 1, "value": 1, "trial": "another"}, "trial: expected one of the latest, got 'an"),
        ({"ticks": [1, 1], "value": 1}, "ticks: expected at most 256, each of them once"),
        ({"ticks": [*range(1, 258)], "value": 1}, "t"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_judgement_that_fits_no_step_is_refused_in_words(fields, reason):
    with stage(mode="press") as on, on.connect() as wire:
        play(wire, 0, 2)
        wire.send("feedback", **fields)
        refused = wire.until("ack", of="feedback")
        assert not refused["ok"]
        assert refused["reason"].startswith(reason)


def test_credit_window_spreads_a_judgement_over_its_steps():
    samples: list[sdk.Sample] = []
    with stage(length=5, mode="press", credit=(0.8, 0.2), **logged(samples)) as on:
        with on.connect() as wire:
            assert wire.until("hello")["credit"] == [0.8, 0.2]
            play(wire, 0, 4)
            wire.send("feedback", ticks=[1, 2, 3, 4], value=1)
            wire.until("ack", of="feedback", ok=True)
            wire.send("action", tick=4, value=1)
            wire.until("state", state="ended")
        on.server.stop()
    assert given(samples) == [(1, 0.25), (2, 0.25), (3, 0.25), (4, 0.25)]


def test_judgement_after_the_end_is_recorded_and_said_not_to_be_stored():
    with stage(length=1, mode="press") as on, on.connect() as wire:
        wire.until("tick", tick=0)
        wire.send("action", tick=0, value=1)
        wire.until("state", state="ended")
        wire.send("feedback", tick=1, value=1)
        done = wire.until("ack", of="feedback")
        assert (done["ok"], done["stored"]) == (True, False)


def test_judgement_after_the_end_reaches_the_keeper_of_trials():
    kept: list[tuple[str, sdk.Reward]] = []

    def keep(trial: str, reward: sdk.Reward) -> bool:
        kept.append((trial, reward))
        return True

    with stage(length=1, mode="press", keep_late=keep) as on, on.connect() as wire:
        trial = wire.until("state", state="playing")["trial"]
        wire.send("action", tick=0, value=1)
        wire.until("state", state="ended")
        wire.send("feedback", tick=1, value=1)
        assert wire.until("ack", of="feedback")["stored"]
        (found,) = kept
        assert (found[0], found[1].tick, found[1].value) == (trial, 1, 1.0)


def test_judgements_are_shown_again_after_a_reload():
    with stage(mode="press") as on:
        with on.connect() as wire:
            key = wire.until("hello")["session"]
            play(wire, 0, 2)
            wire.send("feedback", tick=1, value=1)
            wire.until("ack", of="feedback")
        with on.connect(session=key) as wire:
            shown = wire.until("ack", of="feedback")
            assert (shown["tick"], shown["value"]) == (1, 1)


def test_takeover_acts_in_place_of_the_policy_and_both_actions_are_logged():
    samples: list[sdk.Sample] = []
    with stage(length=40, fps=30, policy=lambda seen: 0, **logged(samples)) as on:
        with on.connect() as wire:
            assert wire.until("hello")["takeover"]
            wire.until("tick", tick=3)
            wire.send("action", value=1, takeover=True)
            wire.until("tick", tick=20)
            wire.send("action", value=1, takeover=False)
            wire.until("state", state="ended")
        on.server.stop()
    taken = on.taken
    assert taken[:3] == [0, 0, 0]
    assert taken[-5:] == [0] * 5
    person = [tick for tick, action in enumerate(taken) if action == 1]
    assert person == list(range(person[0], person[-1] + 1))
    notes = {
        message.tick: sdk.read_array_message(message.payload)
        for sample in samples
        for message in sample.messages.get("ada", ())
        if message.sender == "ada"
    }
    assert sorted(notes) == person
    for note in notes.values():
        assert {name: part.item() for name, part in note.items()} == {
            "policy": 0,
            "person": 1,
            "takeover": True,
        }
