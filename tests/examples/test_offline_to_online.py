"""A data set beside new steps, and new steps alone."""

from __future__ import annotations

import importlib.util
import re

import pytest

from tests.examples.script import EXAMPLES, example, finish
from tests.program import program
from tests.replay.build import SOAK

for package in ("gymnasium", "jax", "optax", "matplotlib"):
    # Looked up and not imported: their threads and hooks would stay for the tests of other modules.
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"could not import {package!r}", allow_module_level=True)

LINE = r"seed (\d)  (online alone|offline and online) +goal (\d+): (\d+ steps|not reached)"


def test_example_compares_both_for_each_seed():
    arguments = ("--goal", "9", "--episodes", "5", "--seeds", "1", "--max-steps", "2000")
    with example("offline_to_online", *arguments) as process:
        code, out, err = finish(process)
    assert code in (0, 1), err
    *lines, end = out.splitlines()
    found = [re.fullmatch(LINE, line) for line in lines]
    assert [each and each[2] for each in found] == ["online alone", "offline and online"]
    assert all(each[4] == "1000 steps" for each in found if each)
    assert end == "The data set saved steps with 0 of 1 seeds"
    assert code == 1


@pytest.mark.skipif(not SOAK, reason="takes minutes: HYPOTHESIS_PROFILE=soak runs it")
@pytest.mark.timeout(3600)
def test_data_set_saves_steps_with_every_seed():
    path = str(EXAMPLES / "offline_to_online.py")
    begin = f"import runpy, sys; sys.argv = [{path!r}]; sys.path.insert(0, {str(EXAMPLES)!r})"
    with program(f"{begin}; runpy.run_path({path!r}, run_name='__main__')") as process:
        out, err = process.communicate(timeout=3000)
    assert process.returncode == 0, err
    assert out.splitlines()[-1] == "The data set saved steps with 3 of 3 seeds"
