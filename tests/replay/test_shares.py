"""Rows per source: exact shares, whatever the sizes of the batches are."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cogrs.replay.shares import Shares, fractions_of

PARTS = st.lists(st.integers(0, 40), min_size=1, max_size=9).filter(any)
SIZES = st.lists(st.integers(1, 70), min_size=1, max_size=40)


def shares_of(parts: list[int]) -> Shares:
    return Shares([Fraction(part, sum(parts)) for part in parts])


@given(PARTS, SIZES)
def test_each_source_stays_within_one_row_of_its_share(parts: list[int], sizes: list[int]) -> None:
    shares, total, given_rows = shares_of(parts), 0, [0] * len(parts)
    for size in sizes:
        counts = shares.next(size)
        assert sum(counts) == size
        assert min(counts) >= 0
        shares.count(counts)
        total += size
        given_rows = [before + count for before, count in zip(given_rows, counts, strict=True)]
        for part, rows in zip(parts, given_rows, strict=True):
            assert abs(rows - Fraction(part * total, sum(parts))) < 1
            assert part or not rows


@given(PARTS, SIZES)
def test_rows_that_were_not_given_are_not_counted(parts: list[int], sizes: list[int]) -> None:
    once, again = shares_of(parts), shares_of(parts)
    for size in sizes:
        again.next(2 * size)
        assert again.next(size) == once.next(size)
        again.count(again.next(size))
        once.count(once.next(size))


def test_whole_shares_are_given_in_every_batch() -> None:
    shares = Shares(fractions_of("f", {"a": 0.1, "b": 0.2, "c": 0.7}, "abc"))
    for _ in range(1000):
        counts = shares.next(10)
        assert counts == [1, 2, 7]
        shares.count(counts)


def test_odd_batches_of_halves_alternate() -> None:
    shares = Shares([Fraction(1, 2)] * 2)
    seen = []
    for _ in range(4):
        seen.append(shares.next(3))
        shares.count(seen[-1])
    assert seen == [[2, 1], [1, 2], [2, 1], [1, 2]]


@pytest.mark.parametrize(
    ("given_fractions", "kind", "text"),
    [
        (0.5, TypeError, r"f: expected a mapping from names of sources to fractions, got float"),
        ({"first": 1.0}, ValueError, r"f: expected a fraction of every source, got none of 'rest'"),
        (
            {"frist": 0.5, "rest": 0.5},
            ValueError,
            r"f: expected 'first', 'rest', got 'frist'; did you mean 'first'\?",
        ),
        ({"first": "1", "rest": 0}, TypeError, r"f\['first'\]: expected a finite number, got str"),
        (
            {"first": -0.5, "rest": 1.5},
            ValueError,
            r"f\['first'\]: expected a number from 0 to 1, got -0.5",
        ),
        (
            {"first": 0.5, "rest": 0.4},
            ValueError,
            r"f: expected fractions that add up to 1, got 0.9",
        ),
        ({"first": float("nan"), "rest": 1}, ValueError, r"f\['first'\]: expected a finite number"),
    ],
)
def test_wrong_fractions_are_refused(
    given_fractions: object, kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        fractions_of("f", given_fractions, ["first", "rest"])
