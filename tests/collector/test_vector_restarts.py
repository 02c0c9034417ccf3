"""Environments of a vector that fail, with `on_error="restart"`; processes that end or hang."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")
from gymnasium import spaces  # noqa: E402
from gymnasium.error import ResetNeeded  # noqa: E402
from gymnasium.vector import AutoresetMode, SyncVectorEnv  # noqa: E402

from cogrs.collector import GameError, VectorEnv  # noqa: E402
from tests.collector import vector_environments  # noqa: E402
from tests.collector.build import same, until  # noqa: E402
from tests.collector.sample_environments import Free, stored  # noqa: E402
from tests.collector.vector_environments import Moody, Strange  # noqa: E402

MODULE = "tests.collector.vector_environments:"
PLACES = pytest.mark.parametrize(
    "place", [{}, {"num_threads": 2}, {"processes": 2}], ids=["caller", "threads", "processes"]
)


def restarting(place: dict[str, int], count: int = 3, **more: Any) -> VectorEnv:
    return VectorEnv(Moody, count, on_error="restart", restart_backoff=0.0, **place, **more)


@PLACES
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_restarted_environment_shows_a_first_state_and_truncates_the_broken_episode(
    mode: AutoresetMode, place: dict[str, int], caplog: pytest.LogCaptureFixture
) -> None:
    envs = restarting(place, autoreset_mode=mode)
    envs.reset(seed=1)
    envs.step([0, 0, 0])
    with caplog.at_level(logging.WARNING, "cogrs.collector"):
        shown, rewards, terminated, truncated, infos = envs.step([0, 2, 1])
    # The logs of worker processes go to their standard error.
    assert ("environment 1 restarts (1): ZeroDivisionError" in caplog.text) != (
        "processes" in place
    )
    assert shown[:, 1].tolist() == [2, 0, 2]
    assert rewards.tolist() == [2, 0, 2]
    assert not terminated.any()
    assert truncated.tolist() == [False, True, False]
    if mode is AutoresetMode.SAME_STEP:
        assert infos["final_obs"][1][1] == 1
        assert infos["_final_obs"].tolist() == [False, True, False]
    if mode is AutoresetMode.DISABLED:
        with pytest.raises(ResetNeeded):
            envs.step([0, 0, 0])
        envs.reset(options={"reset_mask": truncated})
    shown, rewards, *ends, _ = envs.step([0, 0, 0])
    begins = 0 if mode is AutoresetMode.NEXT_STEP else 1
    assert shown[:, 1].tolist() == rewards.tolist() == [3, begins, 3]
    assert not np.any(ends)
    assert envs.get_attr("number") == (0, 1, 2)
    envs.close()


@PLACES
def test_environment_that_fails_too_often_is_an_error_that_says_how_often(
    place: dict[str, int],
) -> None:
    envs = restarting(place, max_restarts=2)
    envs.reset(seed=1)
    for _ in range(2):
        assert envs.step([0, 0, 2])[3].tolist() == [False, False, True]
        envs.step([0, 0, 0])
    with pytest.raises(GameError, match=r"environment 2: .*told to.* \(after 2 restarts\)") as info:
        envs.step([0, 0, 2])
    assert info.value.game == 2
    envs.reset(seed=1)
    envs.step([0, 0, 0])
    envs.close()


@pytest.mark.parametrize("num_threads", [0, 2])
def test_restarted_environment_is_closed_and_made_in_its_thread(num_threads: int) -> None:
    class Fragile(stored()):  # type: ignore[misc]
        def step(self, action: Any) -> Any:
            if action == 4:
                raise OSError("told to")
            return super().step(action)

    envs = VectorEnv(Fragile, 3, num_threads=num_threads, on_error="restart", restart_backoff=0.0)
    envs.reset(seed=1)
    envs.step([0, 4, 0])
    assert [each.order for each in envs.envs] == [0, 3, 2]
    assert Fragile.made[1].closed
    assert Fragile.made[1].threads == Fragile.made[3].threads
    envs.close()


@pytest.mark.parametrize("where", ["reset", "make"])
def test_reset_restarts_an_environment_that_raises_and_keeps_its_seed(where: str) -> None:
    raises = {"reset": [OSError("once")], "make": []}

    class Late(Free):
        def __init__(self) -> None:
            super().__init__()
            if raises["make"]:
                raise raises["make"].pop()

        def reset(self, **given: Any) -> Any:
            if raises["reset"]:
                raise raises["reset"].pop()
            return super().reset(**given)

    envs = VectorEnv(Late, 2, on_error="restart", restart_backoff=0.0)
    if where == "make":
        raises["make"].append(OSError("twice"))
    assert envs.reset(seed=5)[0][:, 0].tolist() == [5, 6]
    envs.close()


def test_reward_that_is_no_number_restarts_the_environment() -> None:
    class Odd(Free):
        def step(self, action: Any) -> Any:
            shown, reward, *rest = super().step(action)
            return shown, "many" if action == 3 else reward, *rest

    envs = VectorEnv(Odd, 2, on_error="restart", restart_backoff=0.0)
    envs.reset(seed=1)
    _, rewards, _, truncated, _ = envs.step([0, 3])
    assert rewards.tolist() == [1, 0]
    assert truncated.tolist() == [False, True]
    assert envs.step([0, 0])[0][:, 1].tolist() == [2, 0]
    envs.close()


@PLACES
@pytest.mark.parametrize("action", [3, 4])
def test_observation_outside_its_space_restarts_the_environment(
    action: int, place: dict[str, int]
) -> None:
    options: Any = {"on_error": "restart", "restart_backoff": 0.0, "max_restarts": 2}
    envs = VectorEnv(Strange, 3, **options, **place)
    envs.reset(seed=1)
    for _ in range(2):
        shown, rewards, terminated, truncated, _ = envs.step([0, action, 0])
        assert (shown[1, 1], rewards[1], truncated.tolist()) == (0, 0, [False, True, False])
        assert not terminated.any()
        assert envs.step([0, 0, 0])[0][1, 1] == 0
    with pytest.raises(GameError, match=r"environment 1: .*observation.*\(after 2 restarts\)"):
        envs.step([0, action, 0])
    envs.reset(seed=1)
    envs.close()
    envs = VectorEnv(Strange, 3, always=True, **options, **place)
    with pytest.raises(GameError, match=r"environment 1: .*observation.*\(after 2 restarts\)"):
        envs.reset(seed=1)
    envs.close()


def test_rest_before_a_restart_doubles() -> None:
    envs = VectorEnv(Moody, 1, on_error="restart", restart_backoff=0.05)
    envs.reset(seed=1)
    rests = []
    for _ in range(3):
        begin = time.monotonic()
        envs.step([2])
        rests.append(time.monotonic() - begin)
        envs.step([0])
    assert rests[0] >= 0.05
    assert rests[1] >= 0.1
    assert rests[2] >= 0.2
    envs.close()


def test_process_that_ends_is_told_with_its_moving_environment() -> None:
    envs = VectorEnv(Moody, 5, processes=2)
    envs.reset(seed=1)
    with pytest.raises(GameError, match=r"environment 3: worker process 2 .* exit code 7") as info:
        envs.step([0, 0, 0, 3, 0])
    assert info.value.game == 3
    with pytest.raises(ResetNeeded, match="environment 3"):
        envs.step([0] * 5)
    theirs = SyncVectorEnv([lambda: Free(length=50)] * 5)
    same(envs.reset(seed=9), theirs.reset(seed=9))
    same(envs.step(np.zeros(5, int)), theirs.step(np.zeros(5, int)))
    envs.close()


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_environments_of_a_process_that_ends_all_restart(mode: str) -> None:
    envs = restarting({"processes": 2}, 4, max_restarts=1, autoreset_mode=mode)
    envs.reset(seed=1)
    envs.step([0] * 4)
    shown, rewards, terminated, truncated, infos = envs.step([0, 0, 0, 3])
    assert shown[:, 1].tolist() == rewards.tolist() == [2, 2, 0, 0]
    assert truncated.tolist() == [False, False, True, True]
    assert not terminated.any()
    if mode == "same_step":
        assert [each if each is None else each[1] for each in infos["final_obs"]] == [
            *[None, None],
            *[1, 1],
        ]
    envs.step([0] * 4)
    with pytest.raises(GameError, match=r"environment 3: .* \(after 1 restart\)"):
        envs.step([0, 0, 0, 3])
    envs.close()


def test_process_whose_environment_hangs_is_ended_by_close_with_a_warning() -> None:
    envs = VectorEnv(Moody, 3, processes=2)
    envs.reset(seed=1)
    moved: Any = envs._games._moved  # type: ignore[union-attr]
    shares = [share for share, _ in moved._owners]
    workers = [share._process for share in shares]

    def hang() -> None:
        with pytest.raises(GameError, match=r"environment 1: worker process 1 .* exit code -9"):
            envs.step([0, 4, 0])

    stuck = threading.Thread(target=hang)
    stuck.start()
    until(lambda: shares[1].doing() == "environment 1")
    with pytest.warns(RuntimeWarning, match="environment 1 did not return within"):
        envs.close()
    until(lambda: not any(worker.is_alive() for worker in workers))
    stuck.join(20)
    assert not stuck.is_alive()


@pytest.mark.parametrize("name", ["Words"])
def test_space_without_a_fixed_shape_is_refused_by_processes(name: str) -> None:
    env = getattr(vector_environments, name)
    assert isinstance(env.observation_space, spaces.Text)
    envs = VectorEnv(env, 2)
    assert envs.reset(seed=1)[0] == ("word", "word")
    envs.close()
    with pytest.raises(TypeError, match=r"observation_space: .* leave processes out, or encode"):
        VectorEnv(env, 2, processes=1)


def test_infos_that_cannot_travel_are_told_with_their_environment() -> None:
    envs = VectorEnv(MODULE + "Telling", 3, processes=2)
    envs.reset(seed=1)
    with pytest.raises(GameError, match=r"environment 2: TypeError: expected numbers, text"):
        envs.step([0, 0, 2])
    envs.reset(seed=1)
    envs.close()


def test_function_that_other_processes_cannot_import_is_refused() -> None:
    with pytest.raises(ValueError, match="processes: expected an id, 'module:function'"):
        VectorEnv(lambda: Free(), 2, processes=2)
    with pytest.raises(ValueError, match="processes: expected options that JSON can hold"):
        VectorEnv(Moody, 2, processes=2, number=np.zeros(2))


def test_exception_from_making_an_environment_in_a_process_is_passed_on() -> None:
    with pytest.raises(TypeError, match=r"Rich.__init__\(\) got an unexpected .* 'legnth'"):
        VectorEnv(MODULE + "Rich", 2, processes=2, legnth=3)
    with pytest.raises(gymnasium.error.NameNotFound, match="NoSuch"):
        VectorEnv("NoSuch-v1", 2, processes=1)
