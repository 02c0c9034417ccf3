"""Which thread makes, moves and closes the environments of a vector, and in which order."""

from __future__ import annotations

import signal
import threading
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gymnasium")
from gymnasium.vector import SyncVectorEnv

from cogrs.collector import GameError, VectorEnv
from tests.collector import sample_environments
from tests.collector.build import LIMIT, same, until
from tests.collector.sample_environments import stored


@pytest.mark.parametrize("num_threads", [0, 1, 2, 3, 9])
@pytest.mark.parametrize("count", [1, 5])
def test_all_calls_of_an_environment_come_from_one_thread(count: int, num_threads: int) -> None:
    env = stored()
    envs = VectorEnv(env, count, num_threads=num_threads)
    theirs = SyncVectorEnv([stored()] * count)
    same(envs.reset(seed=3), theirs.reset(seed=3))
    for number in range(20):
        if number == 11:
            mask = np.arange(count) % 2 == 0
            same(
                envs.reset(options={"reset_mask": mask}), theirs.reset(options={"reset_mask": mask})
            )
        actions = np.full(count, number % 5)
        same(envs.step(actions), theirs.step(actions))
    assert envs.render() == theirs.render()
    envs.close()
    theirs.close()
    assert len(env.made) == count
    assert all(each.closed for each in env.made)
    assert [len(each.threads) for each in env.made] == [1] * count
    owners = {thread for each in env.made for thread in each.threads}
    if num_threads < 2 or count < 2:
        assert owners == {threading.get_ident()}
    else:
        assert threading.get_ident() not in owners
        assert len(owners) == min(num_threads, count)


def test_environments_may_set_signal_handlers_in_the_main_thread() -> None:
    class Alarmed(sample_environments.Counting):
        def __init__(self) -> None:
            super().__init__()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

        def step(self, action: Any) -> Any:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            return super().step(action)

        def close(self) -> None:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    envs = VectorEnv(Alarmed, 2)
    envs.reset(seed=1)
    for _ in range(3):
        envs.step(np.zeros(2, int))
    envs.close()
    with pytest.raises(ValueError, match="main thread"):
        VectorEnv(Alarmed, 2, num_threads=2)


def test_vector_made_and_used_in_another_thread_belongs_to_that() -> None:
    env = stored()

    def use() -> None:
        envs = VectorEnv(env, 3)
        envs.reset(seed=1)
        envs.step(np.zeros(3, int))
        envs.close()

    thread = threading.Thread(target=use)
    thread.start()
    thread.join(LIMIT)
    assert [each.threads for each in env.made] == [{thread.ident}] * 3
    assert all(each.closed for each in env.made)


@pytest.mark.parametrize("num_threads", [0, 2, 3, 6])
def test_environments_are_created_in_order_of_index(num_threads: int) -> None:
    env = stored()
    envs = VectorEnv(env, 6, num_threads=num_threads)
    assert [each.order for each in envs.envs] == list(range(6))
    envs.close()


@pytest.mark.parametrize("num_threads", [0, 2])
def test_new_environment_is_created_in_the_thread_of_the_old_environment(num_threads: int) -> None:
    class Fragile(stored()):  # type: ignore[misc]
        def step(self, action: Any) -> Any:
            if action == 4:
                raise ZeroDivisionError("told to")
            return super().step(action)

    envs = VectorEnv(Fragile, 4, num_threads=num_threads)
    envs.reset(seed=1)
    owners = [each.threads for each in envs.envs]
    with pytest.raises(GameError, match="environment 3"):
        envs.step(np.array([0, 0, 0, 4]))
    assert envs.envs[3] is None
    assert Fragile.made[3].closed
    envs.reset(seed=1)
    envs.step(np.zeros(4, int))
    assert [each.order for each in envs.envs] == [0, 1, 2, 4]
    assert [each.threads for each in envs.envs] == owners
    envs.close()


@pytest.mark.parametrize("num_threads", [0, 3])
def test_environments_made_before_one_that_cannot_be_are_closed(num_threads: int) -> None:
    made: list[Any] = []

    def make() -> Any:
        if len(made) == 4:
            raise OSError("no more")
        made.append(stored()())
        return made[-1]

    with pytest.raises(OSError, match="no more"):
        VectorEnv(make, 6, num_threads=num_threads)
    assert [each.closed for each in made] == [True] * 4
    assert [len(each.threads) for each in made] == [1] * 4


def test_threads_end_with_the_vector() -> None:
    names = [f"cogrs-environments-{at}" for at in range(3)]

    def there() -> int:
        return sum(each.name in names for each in threading.enumerate())

    before = there()
    envs = VectorEnv(stored(), 3, num_threads=3)
    assert there() == before + 3
    envs.close()
    until(lambda: there() == before)
    forgotten = VectorEnv(stored(), 3, num_threads=3)
    forgotten.reset(seed=1)
    made = list(forgotten.envs)
    del forgotten
    until(lambda: there() == before)
    assert all(each.closed for each in made)


def test_environment_that_hangs_is_abandoned_by_close() -> None:
    released = threading.Event()

    class Hanging(sample_environments.Counting):
        def close(self) -> None:
            released.wait(10 * LIMIT)

    envs = VectorEnv(Hanging, 2, num_threads=2)
    envs.reset(seed=1)
    with pytest.warns(
        RuntimeWarning,
        match=r"^environment 0, environment 1 did not return .* is abandoned "
        r"\(thread cogrs-environments-0, cogrs-environments-1\)$",
    ):
        envs.close()
    released.set()


def test_interrupt_of_the_wait_for_threads_loses_no_environment() -> None:
    """The threads finish their moves; the next step waits for that."""
    inside = threading.Barrier(3)
    slow = threading.Event()

    class Slow(sample_environments.Counting):
        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            return super().reset(seed=7 if seed is None else seed)

        def step(self, action: Any) -> Any:
            if action == 3:
                inside.wait(LIMIT)
                assert slow.wait(LIMIT)
            return super().step(action)

    envs = VectorEnv(Slow, 2, num_threads=2, length=50)
    envs.reset(seed=1)

    def interrupt() -> None:
        inside.wait(LIMIT)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)  # type: ignore[arg-type]
        interrupted.wait(LIMIT)
        slow.set()

    interrupted = threading.Event()
    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        envs.step(np.array([3, 3]))
    interrupted.set()
    shown, rewards, *_ = envs.step(np.zeros(2, int))
    thread.join()
    assert shown[:, 1].tolist() == rewards.tolist() == [2, 2]
    envs.close()
