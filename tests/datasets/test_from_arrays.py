"""Flat arrays, as D4RL's files have them, in a memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cogrs
from cogrs import datasets

if TYPE_CHECKING:
    from pathlib import Path

h5py = pytest.importorskip("h5py")


def memory(capacity: int = 500, **settings: Any) -> cogrs.ReplayMemory:
    scalar, empty = np.float32(0), np.zeros(0, np.float32)
    templates = (np.zeros(2, np.float32), np.int64(0), scalar, scalar, scalar, scalar, empty)
    settings = {"new_priority": "max", "sampler": "fifo", **settings}
    return cogrs.ReplayMemory(*templates, capacity, **settings)


def steps(count: int) -> dict[str, Any]:
    """Steps whose observations count, in one episode that has not ended."""
    k = np.arange(count)
    return {
        "observations": np.stack([k, -k], 1).astype(np.float32),
        "actions": k % 3,
        "rewards": k.astype(np.float64),
        "terminals": np.zeros(count, bool),
    }


@st.composite
def flat(draw: Any) -> dict[str, Any]:
    """Steps with ends anywhere; next observations, where they are there, count on."""
    count = draw(st.integers(1, 40))
    arrays = steps(count)
    kinds = draw(st.lists(st.sampled_from("..... tc"), min_size=count, max_size=count))
    arrays["terminals"] = np.array([kind == "t" for kind in kinds])
    if draw(st.booleans()):
        arrays["timeouts"] = np.array([kind == "c" for kind in kinds], np.uint8)
    if draw(st.booleans()):
        arrays["next_observations"] = arrays["observations"] + np.float32([1, -1])
        # The next observation of an ended episode is not the first one of the next.
        over = arrays["terminals"] | arrays.get("timeouts", np.zeros(count)).astype(bool)
        arrays["next_observations"][over] += 1000
    return arrays


def naive(arrays: dict[str, Any]) -> tuple[list[tuple[list[float], list[float], bool]], int]:
    """Return states with the final one, rewards and whether it terminated; and steps left out."""
    found, left_out, first = [], 0, 0
    count = len(arrays["rewards"])
    after = arrays.get("next_observations")
    for k in range(count):
        terminated = bool(arrays["terminals"][k])
        over = terminated or bool(arrays.get("timeouts", np.zeros(count))[k]) or k == count - 1
        if not over:
            continue
        rows = list(range(first, k + 1))
        if after is None and not terminated:
            left_out += 1
            final = arrays["observations"][rows.pop()]
        else:
            final = arrays["observations"][k] if after is None else after[k]
        if rows:
            states = [float(arrays["observations"][row][0]) for row in rows]
            rewards = [float(arrays["rewards"][row]) for row in rows]
            found.append(([*states, float(final[0])], rewards, terminated))
        first = k + 1
    return found, left_out


@given(flat())
@settings(max_examples=100)
def test_episodes_equal_a_naive_model(arrays: dict[str, Any]) -> None:
    rem = memory()
    found, left_out = naive(arrays)
    imported = datasets.from_arrays(arrays, rem, bootstrap=lambda state: float(state[0]))
    steps_of = sum(len(rewards) for _, rewards, _ in found)
    assert imported == (len(found), steps_of, left_out)
    assert rem.num_episode() == len(found)
    for index, (states, rewards, terminated) in enumerate(found):
        episode = rem.episode(index)
        assert episode.has_final_state
        assert episode.truncated is not terminated
        assert episode.entries.s[:, 0].tolist() == states
        assert episode.entries.r[:-1].tolist() == rewards
        assert episode.entries.q[-1] == (0.0 if terminated else states[-1])
        assert episode.entries.p[:-1].tolist() == [1.0] * len(rewards)


def test_terminal_step_without_next_observations_is_drawn_as_terminated() -> None:
    arrays = steps(4)
    arrays["terminals"][[1, 3]] = True
    rem = memory()
    assert datasets.from_arrays(arrays, rem) == (2, 4, 0)
    sample = rem.sample(4, nstep_return=True)
    assert sample.prev.s[:, 0, 0].tolist() == [0, 1, 2, 3]
    assert sample.next_terminated.tolist() == [False, True, False, True]
    assert sample.nstep_discount.tolist() == [1, 0, 1, 0]


def test_step_before_a_timeout_is_left_out_and_counted() -> None:
    arrays = steps(6)
    arrays["timeouts"] = np.array([0, 0, 1, 0, 0, 1])
    rem = memory()
    assert datasets.from_arrays(arrays, rem, bootstrap=7.0) == (2, 4, 2)
    assert rem.episode(0).entries.s[:, 0].tolist() == [0, 1, 2]
    assert rem.episode(1).entries.q[-1] == 7


def test_transitions_that_do_not_follow_each_other_are_episodes_of_their_own() -> None:
    arrays = steps(5)
    arrays["next_observations"] = arrays["observations"] + 50
    assert datasets.from_arrays(arrays, memory(), bootstrap=0.0) == (5, 5, 0)


def test_observations_that_are_not_a_number_follow_each_other() -> None:
    arrays = steps(4)
    arrays["observations"][2] = [np.nan, -0.0]
    arrays["next_observations"] = np.roll(arrays["observations"], -1, 0)
    arrays["next_observations"][1] = [np.nan, 0.0]
    arrays["terminals"][3] = True
    assert datasets.from_arrays(arrays, memory()) == (1, 4, 0)


@pytest.mark.parametrize("suffix", [".npz", ".h5", ".hdf5"])
def test_files_hold_the_same_as_mappings(tmp_path: Path, suffix: str) -> None:
    arrays = steps(5) | {"timeouts": np.array([0, 1, 0, 0, 0])}
    path = tmp_path / f"steps{suffix}"
    if suffix == ".npz":
        np.savez(path, **arrays)
    else:
        with h5py.File(path, "w") as file:
            for name, array in arrays.items():
                file[name] = array
            file["infos/qpos"] = np.zeros((5, 3))
    one, other = memory(), memory()
    assert datasets.from_arrays(path, one, bootstrap=1.0) == (2, 3, 2)
    datasets.from_arrays(arrays, other, bootstrap=1.0)
    for index in range(2):
        for mine, its in zip(one.episode(index).entries, other.episode(index).entries, strict=True):
            assert mine.tolist() == its.tolist()


WRONG = {
    "missing": ({"terminals": None}, ValueError, "source: expected an array 'terminals', got obs"),
    "lengths": ({"actions": np.zeros(3, int)}, ValueError, "actions: expected 5 rows, as rewards"),
    "shape": ({"observations": np.zeros((5, 3))}, ValueError, r"observations: expected .*\(5, 2\)"),
    "dtype": ({"actions": np.zeros(5)}, TypeError, r"actions: expected int64"),
    "reward": (
        {"rewards": np.array([0, 1, np.nan, 0, 0])},
        ValueError,
        "rewards: expected finite numbers, got nan at step 2",
    ),
    "flags": ({"terminals": np.full(5, 2)}, ValueError, "terminals: expected flags 0 or 1"),
    "flat": ({"terminals": np.zeros((5, 1))}, ValueError, r"terminals: expected flags 0 or 1"),
    "scalar": ({"rewards": 3.0}, ValueError, "rewards: expected one row per step, got a single"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arrays_store_nothing(name: str) -> None:
    changes, kind, text = WRONG[name]
    arrays = {key: each for key, each in (steps(5) | changes).items() if each is not None}
    rem = memory()
    with pytest.raises(kind, match=text):
        datasets.from_arrays(arrays, rem, bootstrap=0.0)
    assert rem.num_entry == 0


def test_misspelt_array_is_suggested() -> None:
    arrays = {name.replace("terminals", "terminal"): each for name, each in steps(5).items()}
    with pytest.raises(ValueError, match=r"did you mean 'terminal'\?"):
        datasets.from_arrays(arrays, memory())


def test_episode_cut_short_needs_a_bootstrap_value() -> None:
    arrays = steps(5)
    arrays["terminals"][1] = True
    rem = memory()
    with pytest.raises(ValueError, match=r"bootstrap: expected a value.* episode 1 was truncated"):
        datasets.from_arrays(arrays, rem)
    with pytest.raises(ValueError, match=r"bootstrap of episode 1: expected finite numbers"):
        datasets.from_arrays(arrays, rem, bootstrap=lambda _: np.inf)
    with pytest.raises(ValueError, match=r"bootstrap: expected float32 \(\)"):
        datasets.from_arrays(arrays, rem, bootstrap=[1.0, 2.0])
    with pytest.raises(ZeroDivisionError):
        datasets.from_arrays(arrays, rem, bootstrap=lambda _: 1 / 0)
    assert rem.num_entry == 0


def test_memory_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match=r"memory: expected max_step of at least 6, last obs"):
        datasets.from_arrays(steps(5) | {"terminals": np.arange(5) == 4}, memory(5))
    with pytest.raises(ValueError, match=r"memory: expected max_episode of at least 5, got 2"):
        datasets.from_arrays(steps(5) | {"terminals": np.ones(5)}, memory(max_episode=2))


def test_wrong_sources_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"source: expected a .npz, .h5 or .hdf5 file, got x.csv"):
        datasets.from_arrays("x.csv", memory())
    with pytest.raises(FileNotFoundError, match="source: expected a file that exists, got"):
        datasets.from_arrays(tmp_path / "x.npz", memory())
    with pytest.raises(TypeError, match="source: expected a path, got int"):
        datasets.from_arrays(3, memory())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="memory: expected a ReplayMemory, got str"):
        datasets.from_arrays(steps(5), "x")  # type: ignore[arg-type]
    objects = tmp_path / "objects.npz"
    np.savez(objects, **(steps(5) | {"actions": np.array([{}] * 5)}), allow_pickle=True)
    with pytest.raises(ValueError, match="allow_pickle"):
        datasets.from_arrays(objects, memory(), bootstrap=0.0)


def test_rate_limiter_is_waited_for_no_longer_than_asked() -> None:
    limited = cogrs.RateLimiter(1.0, 1, 2.0)
    rem = memory(limiter=limited)
    with pytest.raises(TimeoutError):
        datasets.from_arrays(steps(9) | {"terminals": np.ones(9)}, rem, wait=0.01)
    assert 0 < rem.num_episode() < 9


def test_large_sets_are_checked_before_anything_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cogrs.datasets.memory_import._STAGED", 0)
    arrays = steps(5) | {"timeouts": np.array([0, 1, 0, 0, 1])}
    rem = memory()
    with pytest.raises(ValueError, match=r"bootstrap of episode 1: expected finite numbers"):
        datasets.from_arrays(arrays, rem, bootstrap=lambda s: 0.0 if s[0] < 2 else np.nan)
    assert rem.num_entry == 0
    assert datasets.from_arrays(arrays, rem, bootstrap=0.0) == (2, 3, 2)
