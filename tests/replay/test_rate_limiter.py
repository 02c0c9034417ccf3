"""`cogrs.RateLimiter`: its options, and its answers about counts, against the formulas."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cogrs
from cogrs import RateLimiter

LIMITERS = [
    RateLimiter(4.0, 1_000, 100.0),
    RateLimiter(0.25, 10, (1.5, 4.5)),
    RateLimiter.min_size(1_000),
    RateLimiter.queue(100),
]
REPRS = [
    "RateLimiter(samples_per_insert=4, min_size=1000, error_buffer=(3900, 4100))",
    "RateLimiter(samples_per_insert=0.25, min_size=10, error_buffer=(1.5, 4.5))",
    "RateLimiter.min_size(1000)",
    "RateLimiter.queue(100)",
]


def options(limiter: RateLimiter) -> tuple[Any, ...]:
    return (
        limiter.samples_per_insert,
        limiter.min_size_to_sample,
        limiter.low,
        limiter.high,
        limiter.largest_batch,
    )


def test_limiter_has_the_options_given_to_the_constructor() -> None:
    assert [options(limiter) for limiter in LIMITERS] == [
        (4.0, 1_000, 3_900.0, 4_100.0, 196),
        (0.25, 10, 1.5, 4.5, 2),
        (None, 1_000, None, None, None),
        (1.0, 1, 0.0, 100.0, 100),
    ]


@pytest.mark.parametrize(("limiter", "text"), list(zip(LIMITERS, REPRS, strict=True)))
def test_repr_makes_an_equal_limiter(limiter: RateLimiter, text: str) -> None:
    assert repr(limiter) == text
    assert eval(text) == limiter


@pytest.mark.parametrize("limiter", LIMITERS, ids=REPRS)
def test_pickled_and_copied_limiters_are_equal_and_have_equal_hashes(limiter: RateLimiter) -> None:
    for made in (pickle.loads(pickle.dumps(limiter)), copy.deepcopy(limiter)):
        assert made == limiter
        assert hash(made) == hash(limiter)
        assert options(made) == options(limiter)


def test_limiters_with_other_options_are_unequal() -> None:
    others = [
        *LIMITERS,
        RateLimiter(4.0, 1_000, 101.0),
        RateLimiter(1.0, 1, (0.0, 100.0)),
        RateLimiter.queue(99),
        RateLimiter.min_size(999),
    ]
    assert len(set(others)) == len(others)
    assert all(limiter != 4 for limiter in others)


@pytest.mark.parametrize("name", ["samples_per_insert", "low", "min_size_to_sample", "new"])
def test_options_cannot_be_changed(name: str) -> None:
    with pytest.raises(AttributeError):
        setattr(LIMITERS[0], name, 1)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: RateLimiter(0, 1, 9), ValueError, "samples_per_insert: expected a finite"),
        (lambda: RateLimiter(float("nan"), 1, 9), ValueError, "samples_per_insert"),
        (lambda: RateLimiter(True, 1, 9), TypeError, "samples_per_insert"),
        (lambda: RateLimiter("4", 1, 9), TypeError, "samples_per_insert: expected a number"),
        (lambda: RateLimiter(1, 0, 9), ValueError, "min_size: expected an integer >= 1, got 0"),
        (lambda: RateLimiter(1, -1, 9), ValueError, "min_size"),
        (lambda: RateLimiter(1, 1.0, 9), TypeError, "min_size: expected an integer"),
        (lambda: RateLimiter(1, 1, "9"), TypeError, r"error_buffer: expected a number or a pair"),
        (lambda: RateLimiter(1, 1, None), TypeError, r"error_buffer: expected a number or a pair"),
        (lambda: RateLimiter(1, 1, (0, 1, 2)), TypeError, "error_buffer: expected a number or"),
        (lambda: RateLimiter(1, 1, {0, 9}), TypeError, "error_buffer: expected a number or a pair"),
        (
            lambda: RateLimiter(1, 1, b"\0\t"),
            TypeError,
            "error_buffer: expected a number or a pair",
        ),
        (lambda: RateLimiter(1, 1, 10**400), ValueError, "error_buffer: expected a number that"),
        (
            lambda: RateLimiter.min_size(-1),
            ValueError,
            "min_size: expected an integer >= 1, got -1",
        ),
        (lambda: RateLimiter(1, 1, (0, "x")), TypeError, r"error_buffer\[1\]: expected a number"),
        (lambda: RateLimiter(1, 1, 0.5), ValueError, "error_buffer: expected at least max"),
        (lambda: RateLimiter(4, 1, (0, 7)), ValueError, r"high - low >= 2 \* max"),
        (lambda: RateLimiter(4, 1, (5, 50)), ValueError, "low <= min_size"),
        (lambda: RateLimiter(4, 10, (0, 39)), ValueError, "<= high, or samples and inserts could"),
        (lambda: RateLimiter.min_size(0), ValueError, "min_size: expected an integer >= 1"),
        (lambda: RateLimiter.queue(0), ValueError, "size: expected an integer >= 1, got 0"),
        (lambda: RateLimiter.queue(2.0), TypeError, "size: expected an integer"),
    ],
)
def test_wrong_options_are_refused_by_name(make: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        make()


@given(st.data())
def test_answers_about_given_counts_follow_the_formulas(data: st.DataObject) -> None:
    quarters = st.integers(1, 40).map(lambda k: k / 4)
    spi, min_size = data.draw(quarters), data.draw(st.integers(1, 20))
    buffer = max(1.0, spi) + data.draw(quarters)
    limiter = RateLimiter(spi, min_size, buffer)
    low, high = min_size * spi - buffer, min_size * spi + buffer
    assert (limiter.low, limiter.high) == (low, high)
    inserts = data.draw(st.integers(0, 100))
    removed, samples = data.draw(st.integers(0, inserts)), data.draw(st.integers(0, 1_000))
    n = data.draw(st.integers(1, 50))
    counts = (inserts, samples, removed)

    may_sample = inserts - removed >= min_size and inserts * spi - samples - n >= low
    shortage = limiter._sample_shortage(n, *counts)
    assert (shortage is None) == may_sample
    if shortage is not None:
        assert f"inserts {inserts}, samples {samples}, removed {removed}" in shortage

    def may_insert(k: int) -> bool:
        return inserts + k - removed <= min_size or (inserts + k) * spi - samples <= high

    assert (limiter._insert_shortage(*counts) is None) == may_insert(1)
    left = limiter._inserts_left(*counts)
    assert left is not None
    assert left == 0 or may_insert(left)
    assert not may_insert(left + 1)

    largest = int(high - low - spi)
    assert limiter.largest_batch == largest
    if n <= largest:
        limiter._check_batch(n)
    else:
        with pytest.raises(ValueError, match=rf"at most {largest} samples .* got {n}"):
            limiter._check_batch(n)


def test_limiter_of_a_size_leaves_inserts_and_batches_unlimited() -> None:
    limiter = RateLimiter.min_size(10)
    assert limiter._inserts_left(5, 0, 0) is None
    assert limiter._insert_shortage(10**9, 0, 0) is None
    limiter._check_batch(10**9)
    assert "min_size = 10" in str(limiter._sample_shortage(1, 9, 0, 0))
    assert limiter._sample_shortage(10**9, 10, 0, 0) is None


def test_counts_may_be_integers_of_numpy_and_nothing_else() -> None:
    limiter = RateLimiter.queue(4)
    assert limiter._inserts_left(np.int64(3), np.uint32(1), 0) == 2
    with pytest.raises(TypeError, match="samples: expected an integer"):
        limiter._inserts_left(3, 1.0, 0)
    with pytest.raises(ValueError, match="removed: expected an integer >= 0, got -1"):
        limiter._inserts_left(3, 1, -1)


def test_limiter_is_public() -> None:
    assert cogrs.replay.RateLimiter is RateLimiter
    assert RateLimiter.__module__ == "cogrs"
