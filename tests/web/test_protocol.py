"""The protocol of the page, as any program can speak it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.websockets import WebSocketDisconnect

from cogrs import sdk
from cogrs.web.reasons import PLAYER_LEFT
from tests.web.stage import stage


def test_program_plays_a_trial_to_its_end():
    with stage(length=6, mode="press", fps=60) as on, on.connect(name="Ada") as wire:
        hello = wire.until("hello")
        assert (hello["role"], hello["ready"], hello["mode"]) == ("player", True, "press")
        assert hello["controls"]["actions"][0]["name"] == "action 0"
        for tick in range(6):
            seen = wire.until("tick", tick=tick)
            assert (seen["score"], seen["deadline"]) == (float(tick), None)
            wire.send("action", tick=tick, value=tick % 3)
        ended = wire.until("state", state="ended")
        assert ended["reason"] == "The game is over."
        assert ended["score"] == 6
        assert on.taken == [0, 1, 2, 0, 1, 2]


def test_picture_of_tick_0_is_shown_before_the_first_action():
    with stage(mode="press") as on, on.connect() as wire:
        picture = wire.until("picture")
        assert (picture["tick"], picture["picture"][:4]) == (0, b"\x89PNG")
        assert on.taken == []


def test_held_action_counts_until_its_release_and_then_the_default():
    with stage(length=40, fps=30) as on, on.connect() as wire:
        wire.until("tick", tick=0)
        wire.send("action", value=1, keys=["KeyD"])
        wire.until("tick", tick=5)
        wire.send("action", value=None, keys=[])
        wire.until("state", state="ended")
        assert on.taken[:4] == [1, 1, 1, 1]
        assert on.taken[-10:] == [2] * 10


def test_default_actions_play_an_untouched_trial():
    with stage(length=4, fps=60) as on, on.connect() as wire:
        assert wire.until("tick", tick=0)["deadline"] == 3.0
        wire.until("state", state="ended")
        assert on.taken == [2] * 4


def test_queued_presses_wait_for_their_ticks():
    with stage(length=5, mode="queue") as on, on.connect() as wire:
        wire.until("tick", tick=0)
        for value in (0, 1, 2, 1, 0):
            wire.send("action", value=value)
        wire.until("state", state="ended")
        assert on.taken == [0, 1, 2, 1, 0]


def test_action_of_a_past_tick_does_not_count():
    with stage(length=3, mode="press") as on, on.connect() as wire:
        wire.until("tick", tick=0)
        wire.send("action", tick=0, value=1)
        wire.until("tick", tick=1)
        wire.send("action", tick=0, value=0)
        wire.send("ping", id=7)
        wire.until("ack", of="ping", id=7)
        assert on.taken == [1]


@pytest.mark.parametrize("value", [3, -1, 0.5, [1, 2]])
def test_action_outside_the_space_is_refused_in_words_and_the_place_is_kept(value):
    with stage(length=1, mode="press") as on, on.connect() as wire:
        wire.until("tick", tick=0)
        wire.send("action", tick=0, value=value)
        refused = wire.until("ack", of="action")
        assert not refused["ok"]
        assert refused["reason"].startswith("action: expected one of Discrete(3), got")
        wire.send("action", tick=0, value=1)
        wire.until("state", state="ended")
        assert on.taken == [1]


def test_pause_stops_the_ticks_until_its_end():
    with stage(length=30, fps=60) as on, on.connect() as wire:
        wire.until("tick", tick=2)
        wire.send("pause", on=True)
        wire.until("state", state="paused")
        wire.send("ping", id=1)
        wire.until("ack", of="ping")
        count = len(on.taken)
        assert count < 30
        wire.send("pause", on=False)
        wire.until("state", state="playing")
        wire.until("state", state="ended")
        assert len(on.taken) == 30


def test_leave_ends_the_trial():
    with stage(length=100, mode="press") as on, on.connect() as wire:
        wire.until("tick", tick=0)
        wire.send("leave")
        assert wire.until("state", state="ended")["reason"] == PLAYER_LEFT
        assert on.taken == []


def test_next_trial_follows_by_itself():
    with stage(length=2, trials=2, fps=60) as on, on.connect() as wire:
        first = wire.until("state", state="ended")
        second = wire.until("state", state="playing")
        assert second["trial"] != first["trial"]
        wire.until("state", state="ended", trial=second["trial"])
        assert len(on.taken) == 4


# -- sessions --------------------------------------------------------------------------------------


def test_token_is_good_for_one_join():
    with stage(mode="press") as on:
        token = on.page.invite(on.place)
        with on.connect(token=token) as wire:
            wire.until("hello")
        with on.connect(token=token) as again:
            assert again.until_closed() == (
                4002,
                "this link was used already: ask for a new one",
            )


@pytest.mark.parametrize("join", [{"token": "x"}, {"token": ""}, {"session": "y"}], ids=str)
def test_unknown_token_or_session_is_refused(join):
    with stage() as on, on.connect(**join) as wire:
        assert wire.until_closed() == (4001, "this link is not valid: ask for a new one")


def test_session_resumes_at_the_present_tick():
    with stage(length=5, mode="press") as on:
        with on.connect(name="Ada") as wire:
            key = wire.until("hello")["session"]
            wire.until("tick", tick=0)
            wire.send("action", tick=0, value=1)
            wire.until("tick", tick=1)
        with on.connect(session=key, ready=False) as wire:
            assert wire.until("hello")["ready"]
            wire.until("tick", tick=1)
            wire.send("action", tick=1, value=0)
            wire.until("tick", tick=2)
        assert on.taken == [1, 0]


def test_new_link_counts_for_more_than_an_old_session():
    with stage(mode="press") as on:
        with on.connect() as wire:
            key = wire.until("hello")["session"]
        token = on.page.invite(on.place, "spectator")
        with on.connect(token=token, session=key) as wire:
            assert wire.until("hello")["role"] == "spectator"
        used = on.page.invite(on.place)
        with on.connect(token=used) as wire:
            key = wire.until("hello")["session"]
        with on.connect(token=used, session=key) as wire:
            assert wire.until("hello")["session"] == key


def test_second_tab_is_asked_and_the_first_is_told():
    with stage(mode="press") as on, on.connect() as first:
        key = first.until("hello")["session"]
        first.until("tick", tick=0)
        with on.connect(session=key) as second:
            assert second.until("state")["state"] == "elsewhere"
            assert second.until_closed() == (4003, "this session is open in another tab")
        with on.connect(session=key, here=True) as second:
            second.until("tick", tick=0)
            assert first.until("state", state="elsewhere")["reason"]
            assert first.until_closed() == (4003, "this session went on in another tab")
            second.send("action", tick=0, value=1)
            second.until("tick", tick=1)
        assert on.taken == [1]


def test_spectators_watch_and_change_nothing():
    with stage(length=2, mode="press") as on, on.connect() as player:
        player.until("tick", tick=0)
        token = on.page.invite(on.place, "spectator")
        for _ in range(2):
            with on.connect(token=token) as wire:
                hello = wire.until("hello")
                assert (hello["controls"], hello["takeover"], hello["feedback"]) == (
                    {},
                    False,
                    False,
                )
                wire.until("tick", tick=0)
                for kind, fields in (
                    ("action", {"tick": 0, "value": 1}),
                    ("feedback", {"tick": 1, "value": 1}),
                    ("pause", {"on": True}),
                    ("leave", {}),
                ):
                    wire.send(kind, **fields)
                    assert wire.until("ack", of=kind)["reason"] == "spectators only watch"
        assert on.taken == []
        player.send("action", tick=0, value=1)
        player.until("tick", tick=1)


def test_judges_judge_and_do_not_act():
    with stage(mode="press") as on, on.connect() as player:
        player.until("tick", tick=0)
        with on.connect(token=on.page.invite(on.place, "judge")) as judge:
            hello = judge.until("hello")
            assert (hello["role"], hello["controls"], hello["feedback"]) == ("judge", {}, True)
            for kind, fields in (("action", {"value": 1}), ("pause", {"on": True})):
                judge.send(kind, **fields)
                refused = judge.until("ack", of=kind)
                assert refused["reason"] == "judges watch and judge, and do not act"
            player.send("action", tick=0, value=0)
            judge.until("tick", tick=1)
            judge.send("feedback", tick=1, value=1)
            assert judge.until("ack", of="feedback")["ok"]
        assert on.taken == [0]


def test_consent_comes_first():
    with stage(mode="press", consent="We store what you do.") as on, on.connect() as wire:
        hello = wire.until("hello")
        assert (hello["consent"], hello["ready"]) == ("We store what you do.", False)
        wire.send("join", name="Ada", consent=True)
        assert wire.until("hello")["ready"]
        wire.until("tick", tick=0)


def test_action_before_consent_closes_the_connection():
    with stage(consent="Yes?") as on, on.connect() as wire:
        wire.send("action", value=1)
        code, reason = wire.until_closed()
        assert (code, reason[:30]) == (1008, "action: expected a join messag")


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "code", "reason"),
    [
        ("{", 1008, "expected JSON"),
        ('{"type": "pause"}', 1008, "pause: on: expected flag, got nothing"),
        ('{"type": "ping", "x": "' + 17_000 * "x" + '"}', 1009, "expected at most 16384 bytes"),
    ],
    ids=["json", "field", "size"],
)
def test_malformed_message_closes_the_connection_with_a_reason(text, code, reason):
    with stage() as on, on.connect() as wire:
        wire.until("hello")
        wire.send_text(text)
        closed, why = wire.until_closed()
        assert closed == code
        assert why.startswith(reason)


def test_first_message_has_to_be_join():
    with stage() as on, on.client.websocket_connect("ws://127.0.0.1:8000/ws") as socket:
        socket.send_text('{"type": "ping"}')
        assert socket.receive() == {
            "type": "websocket.close",
            "code": 1008,
            "reason": "expected a join message first",
        }


def test_unknown_type_is_ignored():
    with stage() as on, on.connect() as wire:
        wire.until("hello")
        wire.send("dance")
        wire.send("ping", id=1)
        assert wire.until("ack")["id"] == 1


def test_flood_of_messages_closes_the_connection():
    with stage(mode="press") as on, on.connect() as wire:
        wire.until("hello")
        for _ in range(2000):
            wire.send("ping")
        assert wire.until_closed()[0] == 1008


@pytest.mark.parametrize(
    "headers",
    [{"origin": "http://example.org"}, {"origin": "null"}, {"host": "example.org:8000"}],
    ids=str,
)
def test_other_sites_are_refused(headers):
    with stage() as on:
        with (
            pytest.raises(WebSocketDisconnect),
            on.client.websocket_connect("ws://127.0.0.1:8000/ws", headers=headers),
        ):
            pass
        if "host" in headers:
            assert on.client.get("/", headers=headers).status_code == 403


def test_own_origin_is_let_in():
    with stage() as on:
        headers = {"origin": "http://127.0.0.1:8000", "host": "127.0.0.1:8000"}
        with on.client.websocket_connect("ws://127.0.0.1:8000/ws", headers=headers):
            pass


def test_files_come_with_a_strict_policy():
    with stage() as on:
        for path, kind in (("/", "html"), ("/page.js", "javascript"), ("/page.css", "css")):
            reply = on.client.get(path)
            assert reply.status_code == 200
            assert kind in reply.headers["content-type"]
            policy = reply.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
        assert "<script>" not in on.client.get("/").text
        assert on.client.get("/../page.py").status_code == 404


def test_person_that_leaves_while_a_tick_closes_is_no_failure(monkeypatch, caplog) -> None:
    original = sdk.ClientSession.act

    async def late(session: sdk.ClientSession, value: Any, **given: Any) -> None:
        if on.place._tick == 1:
            while not session._left:  # noqa: ASYNC110  (it has no event)
                await asyncio.sleep(0)
        await original(session, value, **given)

    monkeypatch.setattr(sdk.ClientSession, "act", late)
    with stage(mode="press") as on, on.connect() as wire:
        for tick in range(2):
            wire.until("tick", tick=tick)
            wire.send("action", tick=tick, value=1)
        wire.send("leave")
        assert wire.until("state", state="ended")["reason"] == PLAYER_LEFT
        wire.send("ping", id=1)
        wire.until("ack", of="ping")
    assert "a place failed" not in caplog.text
