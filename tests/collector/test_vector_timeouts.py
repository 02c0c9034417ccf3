"""A step or reset of `VectorEnv` with a timeout, where an environment hangs."""

from __future__ import annotations

import os
import resource
import threading
import time
from typing import Any

import pytest

gymnasium = pytest.importorskip("gymnasium")
from gymnasium.error import ResetNeeded  # noqa: E402

from cogrs.collector import GameError, GameTimeoutError, VectorEnv  # noqa: E402
from tests.collector.build import until  # noqa: E402
from tests.collector.sample_environments import Free  # noqa: E402
from tests.collector.vector_environments import (  # noqa: E402
    HANGS,
    Frees,
    Hanging,
    HangsElsewhere,
)


@pytest.fixture
def hanging() -> Any:
    """The class with a list and an event of its own, which is set at the end."""
    made = type("Fresh", (Hanging,), {"released": threading.Event(), "made": []})
    yield made
    made.released.set()


@pytest.mark.parametrize("num_threads", [0, 1, 2, 3])
def test_environment_that_hangs_in_a_step_is_named_and_replaced_by_a_reset(
    hanging: Any, num_threads: int
) -> None:
    envs = VectorEnv(hanging, 3, num_threads=num_threads, timeout=1.0)
    envs.reset(seed=1)
    with pytest.raises(
        GameTimeoutError, match=r"environment 1 did not return within 1\.0 s"
    ) as info:
        envs.step([0, HANGS, 0])
    assert info.value.game == 1
    assert isinstance(info.value, TimeoutError)
    with pytest.raises(ResetNeeded):
        envs.step([0, 0, 0])
    shown, _ = envs.reset(seed=5)
    assert shown[:, 0].tolist() == [5, 6, 7]
    assert envs.step([0, 0, 0])[1].tolist() == [1, 1, 1]
    assert hanging.made[1] not in envs.envs
    # The old one is closed by its own thread when it comes back.
    assert not hanging.made[1].closed
    hanging.released.set()
    until(lambda: hanging.made[1].closed)
    envs.close()


def test_environment_that_hangs_in_a_reset_is_named(hanging: Any) -> None:
    envs = VectorEnv(hanging, 2, timeout=1.0)
    with pytest.raises(GameTimeoutError, match=r"environment 0 did not return within 1\.0 s"):
        envs.reset(seed=1, options={"hang": True})
    assert envs.reset(seed=1)[0][:, 0].tolist() == [1, 2]
    envs.close()


def test_two_that_hang_are_both_named(hanging: Any) -> None:
    envs = VectorEnv(hanging, 2, num_threads=2, timeout=1.0)
    envs.reset(seed=1)
    with pytest.raises(GameTimeoutError, match="environment 0, environment 1 did not return"):
        envs.step([HANGS, HANGS])
    envs.close()


def test_process_that_hangs_is_ended_and_reset_starts_another() -> None:
    envs = VectorEnv(Hanging, 2, processes=2, timeout=5.0)
    envs.reset(seed=1)
    with pytest.raises(
        GameTimeoutError, match=r"environment 1 did not return within 5\.0 s"
    ) as info:
        envs.step([0, HANGS])
    assert info.value.game == 1
    assert envs.reset(seed=5)[0][:, 0].tolist() == [5, 6]
    assert envs.step([0, 0])[1].tolist() == [1, 1]
    envs.close()


def test_process_that_hangs_restarts_with_on_error_restart() -> None:
    envs = VectorEnv(
        Hanging, 2, processes=2, timeout=5.0, on_error="restart", max_restarts=1, restart_backoff=0
    )
    envs.reset(seed=1)
    _, rewards, _, truncated, _ = envs.step([0, HANGS])
    assert (rewards.tolist(), truncated.tolist()) == ([1, 0], [False, True])
    with pytest.raises(GameError, match=r"environment 1 did not return .* \(after 1 restart\)"):
        envs.step([0, HANGS])
    envs.close()


def test_time_out_does_not_count_the_time_between_calls() -> None:
    envs = VectorEnv(Free, 2, timeout=1.0)
    envs.reset(seed=1)
    time.sleep(1.1)
    assert envs.step([0, 0])[1].tolist() == [1, 1]
    envs.close()


@pytest.mark.parametrize(
    ("timeout", "kind", "words"),
    [
        (0, ValueError, "timeout: expected seconds > 0 or None, got 0"),
        (-1.0, ValueError, "timeout: expected seconds > 0 or None"),
        ("soon", TypeError, "timeout: expected seconds > 0 or None"),
    ],
)
def test_timeout_that_is_no_time_is_refused(
    timeout: Any, kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        VectorEnv(Free, timeout=timeout)


def test_timeout_of_a_built_in_game_is_refused() -> None:
    with pytest.raises(ValueError, match="timeout: expected None for a built-in game"):
        VectorEnv("cartpole", timeout=1.0)


# The limit holds for the reset too, for which a new process imports some more.
@pytest.mark.parametrize(
    ("place", "timeout"), [({}, 2.0), ({"num_threads": 2}, 2.0), ({"processes": 2}, 8.0)]
)
def test_environment_that_hangs_in_another_call_is_named_and_has_to_be_reset(
    place: dict[str, int], timeout: float
) -> None:
    envs = VectorEnv([Frees, Frees, HangsElsewhere], timeout=timeout, **place)
    envs.reset(seed=1)
    calls = {
        "call": lambda: envs.call("hangs"),
        "render": envs.render,
        "set_attr": lambda: envs.set_attr("odd", 1),
    }
    for call in calls.values():
        with pytest.raises(
            GameTimeoutError, match=f"environment 2 did not return within {timeout}"
        ) as info:
            call()
        assert info.value.game == 2
        # Environments beside it may have been replaced, whose episodes are not the ones before.
        with pytest.raises(ResetNeeded):
            envs.step([0, 0, 0])
        assert envs.reset(seed=5)[0][:, 0].tolist() == [5, 6, 7]
    envs.close()


def test_processes_with_a_timeout_work_in_a_program_with_many_open_files() -> None:
    # `select` takes file descriptors below 1024 only.
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most < 2048:
        pytest.skip("needs 2048 file descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limit, 2048), most))
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        envs = VectorEnv(Free, 1, processes=1, timeout=60.0)
        envs.reset(seed=1)
        assert envs.step([0])[1].tolist() == [1]
        envs.close()
    finally:
        for file in files:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))
