"""A policy learned from a data set of trials."""

from __future__ import annotations

import importlib.util
import re

import pytest

from tests.examples.script import example, finish
from tests.replay.build import SOAK

for package in ("gymnasium", "jax", "optax", "minari", "h5py", "pyarrow"):
    # Looked up and not imported: their threads and hooks would stay for the tests of other modules.
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"could not import {package!r}", allow_module_level=True)

GOAL, TRIALS = (475, 20) if SOAK else (150, 3)


def test_example_reaches_its_goal_from_exported_trials():
    with example("behaviour_cloning", "--goal", str(GOAL), "--trials", str(TRIALS)) as process:
        code, out, err = finish(process)
    assert code == 0, err
    first, *_, progress, end = out.splitlines()
    found = re.fullmatch(rf"cartpole/script-v0: {TRIALS} episodes, (\d+) steps", first)
    assert found
    assert 100 * TRIALS <= int(found[1]) <= 500 * TRIALS
    assert float(progress.split()[-1]) >= GOAL
    assert end.startswith("Goal reached after ")
