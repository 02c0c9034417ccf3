"""Connect Four learned from self-play."""

from __future__ import annotations

import signal

import pytest

from tests.examples.script import example, finish


def test_both_sides_learn_and_a_table_shows_the_results():
    with example("self_play", "--games", "600", "--seed", "1") as process:
        code, out, err = finish(process)
    assert code == 0, err
    *progress, header, white, black = out.splitlines()
    assert len(progress) >= 5
    assert all(line.endswith(" of 600 games") for line in progress)
    assert header.split() == ["white", "black", "won", "drawn", "lost"]
    for line, players in ((white, ["learned", "random"]), (black, ["random", "learned"])):
        assert line.split()[:2] == players
        assert sum(map(int, line.split()[2:])) == 500
    # Where both play at random white wins some 270 of 500, black 230.
    assert int(white.split()[2]) > 320
    assert int(black.split()[4]) > 270


@pytest.mark.parametrize("arguments", [("--games", "0"), ("--seed", "-1"), ("--games", "many")])
def test_wrong_arguments_are_named_and_return_2(arguments):
    with example("self_play", *arguments) as process:
        code, out, err = finish(process)
    assert (code, out) == (2, "")
    assert arguments[0] in err.splitlines()[-1]


def test_interrupt_ends_the_example_with_code_130():
    with example("self_play", "--games", "4000") as process:
        assert process.stdout is not None
        assert process.stdout.readline().endswith(" of 4000 games\n")
        process.send_signal(signal.SIGINT)
        assert finish(process)[0] == 130
