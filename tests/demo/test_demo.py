"""The demo, end to end: what it says, what it leaves, how it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import time

import pytest

from tests.demo.process import DEADLINE, MISSING, Demo, folder_of, metrics_of

pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"no extra 'demo': {', '.join(MISSING)}"),
    pytest.mark.timeout(3 * DEADLINE),
]

# Seconds after the first line, which comes before the first process; demos of a row run at once.
MOMENTS = [(0.4, 1.8), (4.0, 0.0, 2.4, 3.2, 6.0), (0.8, 1.3, 9.0)]
ROLES = ["learner", "environment", "actor"]
# A demo takes 10 s of a core before its first trial has ended.
if os.environ.get("HYPOTHESIS_PROFILE") != "soak":
    MOMENTS = [(1.8,)]
    ROLES = ROLES[:1]
ENDLESS = ("--goal", "1000", "--trials", "4")


@pytest.fixture
def start(tmp_path):
    """Start the demo; it is ended with the test at the latest."""
    started = []

    def start(*arguments, **options):
        started.append(Demo("--out", str(tmp_path), *arguments, **options))
        return started[-1]

    yield start
    for demo in started:
        demo.kill()


def test_two_concurrent_demos_reach_the_goal(start, tmp_path):
    demos = [start("--goal", "12", "--trials", "8", "--seed", seed) for seed in "12"]
    for demo in demos:
        demo.line(r"trials \d")
    sockets = set().union(*(demo.sockets() for demo in demos))
    for demo in demos:
        code, out, err = demo.finish()
        assert (code, err) == (0, "")
        assert "goal reached" in out
        assert len(out.splitlines()) < 24
        demo.assert_gone(sockets)
    folders = list(tmp_path.iterdir())
    assert len(folders) == 2
    for folder in folders:
        rows = metrics_of(folder)
        seconds = [row["seconds"] for row in rows]
        assert seconds == sorted(seconds)
        last = rows[-1]
        assert last["mean_return"] >= 12
        # A step of CartPole is a reward of 1, and each trial stores its final state too.
        assert last["trials"] >= 20
        assert last["replay_size"] >= last["steps"] + last["trials"]
        assert last["seconds"] > 0


def test_demo_out_of_time_fails_with_and_without_a_terminal(start, tmp_path):
    arguments = ("--goal", "1000", "--max-seconds", "1.5")
    plain = start(*arguments)
    ours, theirs = os.openpty()
    live = start(*arguments, stdout=theirs, TERM="xterm", COLUMNS="80")
    os.close(theirs)
    drawn = b""
    # Linux answers with an error, not with an end of file, when the other side is closed.
    with contextlib.suppress(OSError):
        while piece := os.read(ours, 4096):
            drawn += piece
    os.close(ours)
    code, out, err = plain.finish()
    assert (code, err) == (1, "")
    assert "goal not reached" in out
    code, _, err = live.finish()
    assert (code, err) == (1, "")
    assert b"\x1b[2K" in drawn, "no line was drawn over another"
    assert b"goal not reached" in drawn
    for folder in tmp_path.iterdir():
        assert metrics_of(folder)[-1]["seconds"] >= 1.5


def test_demo_learns_until_a_signal_and_a_resumed_run_continues_its_counts(start, tmp_path):
    options = (*ENDLESS, "--workers", "2", "--env", "FrozenLake-v1")
    first = start(*options)
    first.line(r"updates [1-9]")
    sockets = first.sockets()
    # The orchestrator's, the environment's, two actors', and the learner's three.
    assert len(sockets) == 7
    assert set(first.children()) == {"actor", "environment", "learner"}
    for _ in range(20):  # an impatient person's
        first.ctrl_c()
        time.sleep(0.01)
    code, out, err = first.finish()
    assert (code, err) == (130, "")
    assert out.count("stopping") == 1
    assert "\ninterrupted\n" in out
    assert "goal not" not in out
    first.assert_gone(sockets)
    folder = folder_of(tmp_path)
    before = metrics_of(folder)[-1]
    for name in ("caches", "updates", "samples_per_insert", "loss"):
        assert before[name] > 0
    assert {path.name for path in folder.glob("*.checkpoint")} == {
        "learner.checkpoint",
        "replay-0.checkpoint",
        "replay-1.checkpoint",
    }
    again = start(*options, "--resume", str(folder))
    again.line(r"updates [1-9]")
    sockets = again.sockets()
    again.process.terminate()
    code, out, err = again.finish()
    assert (code, err) == (143, "")
    assert again.pids() == set(), "SIGTERM ends the children first"
    assert "\ninterrupted\n" in out
    again.assert_gone(sockets)
    (later,) = set(tmp_path.iterdir()) - {folder}
    after = metrics_of(later)[-1]
    for name in ("updates", "steps", "replay_size"):
        assert after[name] > before[name] > 0
    other = start("--resume", str(folder))
    code, _, err = other.finish()
    assert code == 2
    assert "--resume: env: expected CartPole-v1" in err


BROKEN = """
import gymnasium

class Broken(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, **_):
        raise ArithmeticError("the world never was")

gymnasium.register("Broken-v0", Broken)
"""


def test_environment_that_always_fails_ends_the_run(start, tmp_path):
    (tmp_path / "broken_world.py").write_text(BROKEN)
    demo = start("--env", "broken_world:Broken-v0", PYTHONPATH=str(tmp_path))
    code, _, err = demo.finish()
    assert code == 1
    assert "the world never was" in err
    assert "trials in a row ended without a step" in err.splitlines()[-1]


@pytest.mark.parametrize("moments", MOMENTS, ids=str)
def test_ctrl_c_leaves_no_process_or_socket(start, moments):
    demos = [start(*ENDLESS) for _ in moments]
    for demo in demos:
        demo.line("starting")
    begin = time.monotonic()
    sockets = []
    for demo, moment in zip(demos, moments, strict=True):
        time.sleep(max(0.0, begin + moment - time.monotonic()))
        sockets.append(demo.sockets())
        demo.ctrl_c()
    for demo, had in zip(demos, sockets, strict=True):
        code, _, err = demo.finish()
        assert (code, err) == (130, "")
        demo.assert_gone(had)


@pytest.mark.parametrize(("kind", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_end_before_the_first_trial_draws_no_curve(start, tmp_path, kind, code):
    demo = start(*ENDLESS)
    demo.line("starting")
    demo.process.send_signal(kind)
    assert demo.process.stdout.readline() == "stopping\n"
    ended, out, err = demo.finish()
    assert (ended, err) == (code, "")
    metrics = folder_of(tmp_path) / "metrics.jsonl"
    assert out == f"interrupted\n{metrics}\n"
    assert {path.name for path in metrics.parent.iterdir()} == {metrics.name, "run.json"}


def test_children_of_a_killed_parent_end(start):
    demos = {line: start(*ENDLESS) for line in ("starting", "trials [1-9]")}
    for line, demo in demos.items():
        demo.line(line)
        sockets = demo.sockets()
        demo.process.kill()
        code, _, err = demo.finish()
        assert code == -signal.SIGKILL
        assert "Traceback" not in err
        demo.assert_gone(sockets)


def test_demo_ends_when_a_child_dies(start):
    demos = {role: start(*ENDLESS) for role in ROLES}
    sockets = set()
    for role, demo in demos.items():
        demo.line(r"trials [1-9]")
        sockets |= demo.sockets()
        os.kill(demo.children()[role], signal.SIGKILL)
    for role, demo in demos.items():
        code, _, err = demo.finish()
        assert code == 1
        line = f"cogrs demo: the {role} process ended by itself: exit code -9"
        assert err.splitlines()[-1] == line
        demo.assert_gone(sockets)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        pytest.param(["--env", "Nowhere-v0"], "Nowhere", id="unknown"),
        pytest.param(["--env", "Pendulum-v1"], "discrete actions", id="continuous actions"),
        pytest.param(["--resume", "/nowhere"], "--resume: expected", id="no run to go on from"),
        pytest.param(["--out", "/proc/version"], "--out", id="out is a file"),
        pytest.param(["--out", "/proc/nowhere/runs"], "--out", id="out cannot be made"),
    ],
)
def test_demo_with_bad_options_is_refused_in_one_line(start, arguments, reason):
    demo = start(*arguments)
    code, out, err = demo.finish()
    assert (code, out) == (2, "")
    assert err.startswith("cogrs demo: ")
    assert reason in err
    assert len(err.splitlines()) == 1
