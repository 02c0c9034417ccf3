"""The example of a policy that a person's thumbs train, with a simulated person."""

from __future__ import annotations

import pytest

from tests.examples.script import example, finish

pytest.importorskip("PIL")


def arrivals(*arguments: str) -> list[int]:
    """Run it; return the arrivals in each sixth of the steps."""
    given = ("--simulate", "--steps", "300", "--fps", "50", *arguments)
    with example("tamer", *given) as process:
        code, out, err = finish(process)
    assert (code, err) == (0, "")
    head, _, counts = out.strip().partition(": ")
    assert head == "arrivals in each 50 steps"
    return [int(count) for count in counts.split()]


def test_walker_learns_from_judgements_over_the_page_and_not_without() -> None:
    judged, silent = arrivals(), arrivals("--silent")
    # Five times as often as a random walk would, at the least; the shortest way allows 5 in 50.
    assert sum(judged[3:]) >= 6 > sum(silent[3:])
