"""Memories of frames as games have them, and how two of them are compared."""

from typing import Any

import numpy as np

from cogrs import ReplayMemory

SHAPE = (24, 20)
Steps = dict[str, Any]


def frames(count: int, seed: int = 0) -> np.ndarray:
    """Frames of a game: a still background with a moving point, and noise now and then."""
    rng = np.random.default_rng(seed)
    made = np.zeros((count, *SHAPE), np.uint8)
    made[:, 10:14] = 87
    for at, frame in enumerate(made):
        frame[rng.integers(SHAPE[0]), rng.integers(SHAPE[1])] = 255
        if at % 37 == 36:
            frame[:] = rng.integers(0, 256, SHAPE, np.uint8)
    return made


def game_memory(max_step: int = 400, **options: Any) -> ReplayMemory:
    zero, scalar = np.zeros(SHAPE, np.uint8), np.float32(0)
    templates = (zero, np.int64(0), scalar, scalar, scalar, scalar, np.zeros(30, np.int16))
    return ReplayMemory(*templates, max_step, seed=7, **options)


def game_steps(count: int, seed: int) -> Steps:
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(3, count)).astype(np.float32)
    return {
        "s": frames(count, seed),
        "a": rng.integers(0, 18, count),
        "r": numbers[0],
        "p": numbers[1],
        "v": numbers[2],
        "i": rng.integers(0, 3, (count, 30)).astype(np.int16),
        "init_w": rng.uniform(0, 2, count),
    }


def row(steps: Steps, at: int) -> Steps:
    return {name: values[at] for name, values in steps.items()}


def fill(to: ReplayMemory, seed: int) -> None:
    """Episodes by several writers, in all ways to add one; some are aborted."""
    rng = np.random.default_rng(seed)
    others = [to.writer() for _ in range(3)]
    for turn in range(12):
        length = int(rng.integers(1, 60))
        steps = game_steps(length, seed * 100 + turn)
        ending: dict[str, Any] = {}
        if turn % 3:
            ending["final_state"] = frames(1, turn)[0]
        if turn % 3 == 2:
            ending["final_info"] = np.arange(30, dtype=np.int16)
        if turn % 4 == 0:
            to.add_episode(**steps, **ending)
            continue
        writer = others[turn % 3]
        writer.new_episode()
        half = length // 2
        writer.add_entries(**{name: values[:half] for name, values in steps.items()})
        to.new_episode()
        for at in range(half, length):
            writer.add_entry(**row(steps, at))
            to.add_entry(**row(steps, at))
        if turn % 4 == 1:
            writer.abort_episode()
        else:
            writer.close_episode(**ending)
        to.abort_episode()


def arrays(batch: Any) -> list[np.ndarray]:
    """All arrays of a batch, tuples in tuples too."""
    if isinstance(batch, tuple):
        return [array for part in batch for array in arrays(part)]
    return [np.asarray(batch)]


def assert_same(got: Any, expected: Any) -> None:
    for one, other in zip(arrays(got), arrays(expected), strict=True):
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()


def assert_draws_are_the_same(one: ReplayMemory, other: ReplayMemory) -> None:
    assert one.num_entry == other.num_entry
    assert_same(one.sample(64, nstep_return=True), other.sample(64, nstep_return=True))
    assert_same(one.get_batch(7), other.get_batch(7))
    sequences = {"n": 5, "length": 6, "burn_in": 3, "after": 2}
    assert_same(one.sample_sequences(**sequences), other.sample_sequences(**sequences))
    for at in range(one.num_episode()):
        assert_same(one.episode(at), other.episode(at))
