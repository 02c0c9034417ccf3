"""Why a trial does not run: a sentence for people, the whole reason for operators."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from cogrs.web import reasons
from tests.web.stage import report_with, stage
from tests.web.walk import Walk

SECRET = "cannot open /home/ada/weights.pt: token=abc"


class Breaking(Walk):
    """Fails at its second step."""

    def step(self, action: Any) -> Any:
        if self.tick == 1:
            raise RuntimeError(SECRET)
        return super().step(action)


def test_failed_environment_is_a_sentence_for_people_and_whole_for_operators(caplog) -> None:
    with (
        stage(env=Breaking, mode="press") as at,
        at.connect() as person,
        at.connect(token=at.page.invite(at.place, "spectator")) as watcher,
        at.operate() as operator,
    ):
        for tick in range(2):
            person.until("tick", tick=tick)
            person.send("action", tick=tick, value=1)
        for wire in (person, watcher):
            told = wire.until("state", state="ended")["reason"]
            assert told == "The trial was stopped by a failure. Its operators can see the cause."
        (ended,) = report_with(operator, lambda report: report["ended"])["ended"]
        assert ended["failed"]
        assert SECRET in ended["reason"]
    assert any(SECRET in each.getMessage() for each in caplog.records)


def test_failed_policy_is_a_sentence_for_people_and_whole_in_the_log(caplog) -> None:
    def policy(_: Any) -> int:
        raise OSError(SECRET)

    with stage(policy=policy) as at, at.connect() as person:
        told = person.until("state", state="ended")["reason"]
        assert told.startswith("The trial was stopped by a failure.")
    assert SECRET in caplog.text


def test_last_trial_is_said_to_be_the_last() -> None:
    with stage(length=1, mode="press") as at, at.connect() as person:
        person.until("tick", tick=0)
        person.send("action", tick=0, value=1)
        assert person.until("state", state="ended")["reason"] == "The game is over."
        told = person.until("state", state="ended")["reason"]
        assert told == "The game is over. This was the last trial."


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("environment: final update", "The game is over."),
        ("max_steps: 20 steps are done", "The game is over: it has at most 20 steps."),
        ("max_inactivity: nothing was received for 9 s", "The trial was stopped, because nothing"),
        ("the orchestrator stops", "The trial was ended, because its server stops."),
        ("", "The trial was stopped by a failure."),
        (f"environment: final update: {SECRET}", "The trial was stopped by a failure."),
        (f"max_steps: 20 steps are done\n{SECRET}", "The trial was stopped by a failure."),
        ("internal error: KeyError('x')", "The trial was stopped by a failure."),
    ],
)
def test_reason_of_an_orchestrator_has_a_sentence(reason, told) -> None:
    assert reasons.end_text(reason).startswith(told)
    assert SECRET not in reasons.end_text(reason)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (grpc.StatusCode.UNAVAILABLE, "The connection to the game was lost. Trying again."),
        (grpc.StatusCode.NOT_FOUND, "Waiting for a trial to begin."),
    ],
)
def test_waiting_says_nothing_of_addresses(code, told) -> None:
    empty = grpc.aio.Metadata()
    error = grpc.aio.AioRpcError(code, empty, empty, f"ipv4:10.0.0.7:9000: {SECRET}")
    assert reasons.wait_text(error) == told
    assert SECRET in reasons.whole_text(error)
    assert reasons.error_text(error) == "The connection to the game was lost."


def test_error_for_people_is_told_whole_in_one_line() -> None:
    assert reasons.error_text(reasons.PublicError("no actions\nwere told")) == (
        "no actions\\nwere told"
    )
