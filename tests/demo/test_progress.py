"""What the demo tells of its run: figures that hold for any run, lines that are few and short."""

from __future__ import annotations

import json

import pytest

from cogrs.demo import progress as module
from cogrs.demo.options import Options
from cogrs.demo.progress import Display, Progress
from cogrs.stop_signal import StopSignal

LEARNER = {"updates": 0, "caches": 0, "loss": None}


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass when the test says so."""

    class Clock:
        now = 1000.0

        def monotonic(self):
            return self.now

    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
def progress(clock):
    return Progress(Options(), started=clock.now)


def play(progress, steps):
    progress.take({"episode": steps, "total_reward": float(steps), "stored": 0})


def test_rate_of_trials_that_end_together_is_over_the_whole_time(clock, progress):
    assert progress.rate == 0
    clock.now += 1
    play(progress, 11)
    play(progress, 9)
    assert progress.rate == 20
    progress.ended = clock.now
    clock.now += 100
    assert progress.rate == 20


def test_rate_is_over_the_last_seconds(clock, progress):
    for _ in range(30):
        clock.now += 1
        play(progress, 10)
    for _ in range(20):
        clock.now += 1
        play(progress, 300)
    assert progress.rate == pytest.approx(300)
    clock.now += 20
    assert progress.rate == 0


def test_rate_without_elapsed_time_is_zero(progress):
    play(progress, 10)
    assert progress.rate == 0


def test_goal_is_printed_without_decimals(progress):
    assert dict(progress.rows())["mean return"] == "0.0, goal 195"


def test_phase_follows_the_learner(progress):
    phases = [progress.phase]
    for updates in (0, 0, 5):
        progress.take({**LEARNER, "updates": updates})
        phases.append(progress.phase)
    assert phases == ["importing JAX", "compiling", "compiling", "learning"]


def test_display_prints_few_and_short_lines(clock, progress, tmp_path, capsys):
    with Display(progress, tmp_path, StopSignal()) as display:
        for tenth in range(600):
            clock.now += 0.1
            if tenth == 20:
                progress.take(LEARNER)
            if tenth == 25:
                play(progress, 500)
            if tenth > 60:
                play(progress, 500)
                progress.take({"updates": 123_456 + tenth, "caches": 99_999, "loss": 123.4567})
            display.show()
    lines = capsys.readouterr().out.splitlines()
    assert 12 <= len(lines) <= 16  # one in five seconds, and one for each news
    assert max(map(len, lines)) <= 100
    assert "importing JAX" in lines[0]
    assert any("compiling" in line for line in lines)
    assert "updates 12" in lines[-1]
    rows = (tmp_path / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    assert 58 <= len(rows) <= 62
    assert json.loads(rows[-1])["trials"] == progress.trials


def test_summary_shows_the_ratio_and_how_long_actors_and_learner_waited(progress):
    limiter = {
        "samples_per_insert": 7.96,
        "insert_wait_seconds": 3.21,
        "sample_wait_seconds": 12.04,
    }
    progress.take({**LEARNER, "limiter": limiter})
    rows = dict(progress.rows())
    assert rows["samples"] == "8.0 per step"
    assert rows["waits"] == "actors 3.2 s to insert, learner 12.0 s for samples"
    assert progress.figures()["samples_per_insert"] == 7.96
    assert progress.figures()["insert_wait_seconds"] == 3.21


def test_summary_of_a_run_without_a_report_of_the_learner_shows_no_waits(progress):
    assert dict(progress.rows())["waits"] == "actors 0.0 s to insert, learner 0.0 s for samples"
