"""The example of a run of many processes."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cogrs.cluster import Plan

EXAMPLE = Path(__file__).parents[2] / "examples/cluster"


@pytest.mark.skipif(sys.platform == "win32", reason="runs need POSIX signals")
@pytest.mark.timeout(300)
def test_example_runs_its_plan_to_the_last_update(tmp_path):
    text = (EXAMPLE / "plan.toml").read_text(encoding="utf-8")
    assert "updates = 20_000" in text
    plan = tmp_path / "plan.toml"
    plan.write_text(text.replace("updates = 20_000", "updates = 100"), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(EXAMPLE / "apex.py"), "--plan", str(plan)],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "6,400 drawn" in done.stdout.splitlines()[-1]


def test_plan_of_the_example_has_two_shards_and_four_actors():
    plan = Plan.from_toml(EXAMPLE / "plan.toml")
    assert (plan.shards, plan.actors) == (2, 4)


def test_learner_of_the_example_goes_on_with_its_state(monkeypatch):
    gymnasium = pytest.importorskip("gymnasium")
    monkeypatch.syspath_prepend(str(EXAMPLE))
    import dqn

    spaces = gymnasium.spaces.Box(-1, 1, (4,)), gymnasium.spaces.Discrete(2)
    one, other = dqn.Learner(*spaces), dqn.Learner(*spaces)
    one._descend({name: np.ones_like(array) for name, array in one.net.items()})
    other.restore(one.state())
    for each in (one, other):
        each._descend({name: np.ones_like(array) for name, array in each.net.items()})
    for name, array in one.state().items():
        np.testing.assert_array_equal(other.state()[name], array)
