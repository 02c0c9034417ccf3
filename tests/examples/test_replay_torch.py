"""CartPole learned from prioritized replay with PyTorch."""

from __future__ import annotations

import importlib.util

import pytest

from tests.examples.script import EXAMPLES, example, finish

for package in ("torch", "gymnasium"):
    # Looked up and not imported: their threads and hooks would stay for the tests of other modules.
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"could not import {package!r}", allow_module_level=True)


def test_example_reaches_its_goal():
    with example("replay_torch", "--goal", "40", "--seed", "1") as process:
        code, out, err = finish(process)
    assert code == 0, err
    *_, progress, end = out.splitlines()
    assert end.startswith("Goal reached after ")
    assert float(progress.split()[-1]) >= 40


def test_seed_below_zero_is_refused():
    with example("replay_torch", "--seed", "-1") as process:
        code, out, err = finish(process)
    assert (code, out) == (2, "")
    assert "--seed must be >= 0, got -1" in err


def test_example_has_at_most_60_lines():
    assert len((EXAMPLES / "replay_torch.py").read_text(encoding="utf-8").splitlines()) <= 60
