"""The example of human feedback, with a simulated person."""

import importlib.util
from pathlib import Path

PATH = Path(__file__).parents[2] / "examples" / "human_feedback.py"


def test_praised_steps_are_drawn_more_often():
    spec = importlib.util.spec_from_file_location("human_feedback", PATH)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    seen = []

    def judge(places: list[int]) -> int:
        seen.append(places)
        return {1: 8, 3: -8}.get(len(seen) - 1, 0)

    shares = example.main(4, judge)
    assert len(seen) == 4
    assert all(len(places) == 9 and places[0] == 0 for places in seen)
    (first_before, first_after), (second_before, second_after) = shares
    # Nothing counts until somebody praises; then that trial is all there is to draw.
    assert (first_before, first_after) == (0.0, 1.0)
    assert second_before == 0.0
    assert 0.3 < second_after < 0.7
    assert len(PATH.read_text().splitlines()) < 100
