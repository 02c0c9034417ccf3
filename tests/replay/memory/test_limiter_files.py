"""Files of memories with a rate limiter, and of memories without one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from cogrs import RateLimiter, ReplayMemory
from cogrs.workers.checkpoint import restore_episodes
from tests.replay.build import TEMPLATES, add_uniform, memory
from tests.replay.model import FIELDS

if TYPE_CHECKING:
    from pathlib import Path

LIMITER = RateLimiter(2.0, 2, 30.0)


def limited(limiter: RateLimiter = LIMITER, **settings: Any) -> ReplayMemory:
    templates = (TEMPLATES[name] for name in FIELDS)
    return ReplayMemory(*templates, 8, seed=0, limiter=limiter, **settings)


def counts(of: ReplayMemory) -> tuple[int, int, int]:
    figures = of.stats().limiter
    assert figures is not None
    return figures.inserts, figures.samples, figures.removed


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A file with 9 inserts, 5 samples, and 3 entries removed."""
    rem = limited()
    for _ in range(3):
        add_uniform(rem, 3, final_state=0)
    rem.sample(5)
    assert counts(rem) == (9, 5, 3)
    rem.save(tmp_path / "memory")
    return tmp_path / "memory"


def test_file_keeps_limiter_and_counts(saved: Path) -> None:
    rem = ReplayMemory.load(saved)
    assert rem.limiter == LIMITER
    assert counts(rem) == (9, 5, 3)
    with pytest.raises(TimeoutError, match=r"inserts 9, samples 5, removed 3"):
        rem.sample(41 - 5 + 5, wait=0)


@pytest.mark.parametrize("limiter", [RateLimiter.min_size(3), RateLimiter.queue(2)])
def test_another_limiter_goes_on_from_the_counts_of_the_file(
    saved: Path, limiter: RateLimiter
) -> None:
    rem = ReplayMemory.load(saved, limiter=limiter)
    assert rem.limiter == limiter
    assert counts(rem) == (9, 5, 3)


def test_file_with_limiter_loads_into_a_memory_without_one(saved: Path) -> None:
    rem = ReplayMemory.load(saved, limiter=None)
    assert rem.limiter is None
    assert rem.stats().limiter is None
    assert rem.num_entry == 8
    rem.sample(10_000)


def test_file_without_counts_counts_as_if_its_entries_had_just_been_inserted(
    tmp_path: Path,
) -> None:
    rem = memory(8)
    for _ in range(3):
        add_uniform(rem, 3, final_state=0)
    rem.save(tmp_path / "memory")
    loaded = ReplayMemory.load(tmp_path / "memory")
    assert loaded.limiter is None
    loaded = ReplayMemory.load(tmp_path / "memory", limiter=LIMITER)
    assert counts(loaded) == (6, 0, 0)


def test_file_without_counts_counts_used_up_entries_as_removed(tmp_path: Path) -> None:
    rem = memory(8, max_times_sampled=1)
    add_uniform(rem, 3, final_state=0)
    rem.sample(2)
    rem.save(tmp_path / "memory")
    loaded = ReplayMemory.load(tmp_path / "memory", limiter=LIMITER)
    assert counts(loaded) == (3, 0, 2)


def test_used_up_entries_stay_removed_in_a_file(tmp_path: Path) -> None:
    rem = limited(max_times_sampled=1)
    add_uniform(rem, 4, final_state=0)
    rem.sample(3)
    rem.save(tmp_path / "memory")
    assert counts(ReplayMemory.load(tmp_path / "memory")) == (4, 3, 3)


@pytest.mark.parametrize("wrong", [4, "mine", b"file"])
def test_load_refuses_a_limiter_of_another_type(saved: Path, wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"limiter: expected a cogrs\.RateLimiter, None or 'file'"):
        ReplayMemory.load(saved, limiter=wrong)


def test_load_refuses_a_limiter_whose_min_size_exceeds_max_step(saved: Path) -> None:
    with pytest.raises(ValueError, match="limiter: expected min_size of at most max_step = 8"):
        ReplayMemory.load(saved, limiter=RateLimiter.min_size(9))


def test_seconds_that_were_waited_begin_anew_in_a_loaded_memory(tmp_path: Path) -> None:
    rem = limited()
    with pytest.raises(TimeoutError):
        rem.sample(1, wait=0.05)
    rem.save(tmp_path / "memory")
    figures = ReplayMemory.load(tmp_path / "memory").stats().limiter
    assert figures is not None
    assert figures.sample_wait_seconds == 0.0


def test_restored_episodes_count_as_inserts_and_do_not_wait(tmp_path: Path) -> None:
    source = memory(8)
    for _ in range(2):
        source.add_episode(*[[0, 1]] * 3, [0.0, 1.0], *[[0, 1]] * 2, 1.0, final_state=2)
    source.save(tmp_path / "memory")
    rem = limited(RateLimiter.queue(1))
    assert restore_episodes(rem, tmp_path / "memory") == 2
    assert counts(rem) == (4, 0, 0)
