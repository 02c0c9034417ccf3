"""Attributes and methods of a vector's environments, beside SyncVectorEnv."""

from __future__ import annotations

import os
import threading
from functools import partial
from typing import Any

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")
from gymnasium.error import ClosedEnvironmentError  # noqa: E402
from gymnasium.vector import SyncVectorEnv  # noqa: E402
from gymnasium.wrappers import TimeLimit  # noqa: E402

from cogrs.collector import GameError, VectorEnv  # noqa: E402
from tests.collector.build import same  # noqa: E402
from tests.collector.sample_environments import Free  # noqa: E402
from tests.collector.vector_environments import Moody, Rich, rich_frame  # noqa: E402

COUNT = 3
PLACES = pytest.mark.parametrize(
    "place", [{}, {"num_threads": 2}, {"processes": 2}], ids=["caller", "threads", "processes"]
)


def pair(env: Any, place: dict[str, int]) -> tuple[VectorEnv, Any]:
    return VectorEnv(env, COUNT, **place), SyncVectorEnv(
        [partial(env, number) for number in range(COUNT)]
    )


@PLACES
def test_attributes_and_calls_equal_sync_vector_env_s(place: dict[str, int]) -> None:
    ours, theirs = pair(rich_frame, place)
    for each in (ours, theirs):
        each.reset(seed=4)
        each.step(np.array([1, 2, 3]))
    for name in ("number", "steps", "metadata", "render_mode", "observation_space", "spec"):
        same(ours.get_attr(name), theirs.get_attr(name))
    assert ours.get_attr("taken") == theirs.get_attr("taken")
    same(ours.call("add", 3, second=4), theirs.call("add", 3, second=4))
    same(ours.call("number"), theirs.call("number"))
    same(ours.render(), theirs.render())
    assert (ours.metadata, ours.render_mode) == (theirs.metadata, theirs.render_mode)
    assert ours.np_random_seed == theirs.np_random_seed
    assert [each.random() for each in ours.np_random] == [
        each.random() for each in theirs.np_random
    ]
    for values in (7, [1, 2, 3], (4, 5, 6), "text", np.arange(2), None):
        for each in (ours, theirs):
            each.set_attr("length", values)
        same(ours.get_attr("length"), theirs.get_attr("length"))
    for each in (ours, theirs):
        each.set_attr("brand_new", [1, 2, 3])
    assert ours.get_attr("brand_new") == theirs.get_attr("brand_new") == (1, 2, 3)
    assert str(ours) == "VectorEnv(num_envs=3)"
    ours.close()
    theirs.close()


@PLACES
def test_unknown_attribute_is_an_attribute_error(place: dict[str, int]) -> None:
    ours, theirs = pair(rich_frame, place)
    for each in (ours, theirs):
        with pytest.raises(AttributeError, match="nothing_like_it"):
            each.get_attr("nothing_like_it")
        with pytest.raises(AttributeError, match="nothing_like_it"):
            each.call("nothing_like_it", 3)
    ours.reset(seed=1)
    assert ours.step(np.zeros(COUNT, int))[0][:, 2].tolist() == [1, 1, 1]
    ours.close()


@PLACES
def test_exception_of_a_called_method_is_passed_on(place: dict[str, int]) -> None:
    ours, _ = pair(rich_frame, place)
    ours.reset(seed=1)
    with pytest.raises(LookupError) as info:
        ours.call("refuse")
    assert info.value.args == ("there is nothing", 3)
    with pytest.raises(TypeError, match="unexpected keyword argument 'third'"):
        ours.call("add", 1, third=2)
    assert ours.step(np.zeros(COUNT, int))[0][:, 2].tolist() == [1, 1, 1]
    ours.close()


@PLACES
def test_wrong_number_of_values_is_refused_and_sets_nothing(place: dict[str, int]) -> None:
    ours, theirs = pair(rich_frame, place)
    for each in (ours, theirs):
        with pytest.raises(ValueError, match=r"3|2"):
            each.set_attr("length", [1, 2])
    assert ours.get_attr("length") == (4, 4, 4)
    with pytest.raises(TypeError, match="name: expected a string, got int"):
        ours.get_attr(3)  # type: ignore[arg-type]
    ours.close()
    for call in (lambda: ours.get_attr("x"), lambda: ours.set_attr("x", 1), lambda: ours.call("x")):
        with pytest.raises(ClosedEnvironmentError):
            call()


@PLACES
def test_calls_come_from_the_thread_and_process_of_the_environment(
    place: dict[str, int],
) -> None:
    ours, _ = pair(rich_frame, place)
    here = threading.get_ident()
    owners, pids = ours.call("thread"), ours.get_attr("pid")
    assert ours.call("thread") == owners
    assert (set(owners) == {here}) == (place == {})
    assert (set(pids) == {os.getpid()}) == ("processes" not in place)
    assert len(set(pids)) == place.get("processes", 1)
    assert len(ours.envs) == (0 if "processes" in place else COUNT)
    ours.close()


@pytest.mark.parametrize("num_threads", [0, 2])
def test_wrapper_s_attribute_is_read_and_set_in_the_wrapper(num_threads: int) -> None:
    envs = VectorEnv(lambda: TimeLimit(Free(length=50), 5), 2, num_threads=num_threads)
    envs.reset(seed=1)
    assert envs.get_attr("_max_episode_steps") == (5, 5)
    envs.set_attr("_max_episode_steps", [2, 3])
    envs.set_attr("length", 40)
    assert [each.unwrapped.length for each in envs.envs] == [40, 40]
    assert [each._max_episode_steps for each in envs.envs] == [2, 3]
    envs.step([0, 0])
    assert envs.step([0, 0])[3].tolist() == [True, False]
    envs.close()


def test_environment_without_gymnasium_s_base_class_has_its_attributes_read_and_set() -> None:
    class Plain:
        observation_space, action_space = Free.observation_space, Free.action_space
        number = 3

        def reset(self, **_: Any) -> Any:
            return np.zeros(2), {}

        def step(self, _action: Any) -> Any:
            return np.zeros(2), 0.0, False, False, {}

        def twice(self, given: int) -> int:
            return 2 * given

    envs = VectorEnv(Plain, 2)
    envs.set_attr("number", [4, 5])
    assert envs.get_attr("number") == (4, 5)
    assert envs.call("twice", 4) == (8, 8)
    envs.close()


def test_step_that_is_set_is_the_step_that_is_taken() -> None:
    envs = VectorEnv(Free, 2)
    envs.reset(seed=1)
    paid = (np.zeros(2), 5.0, False, False, {})
    envs.set_attr("step", [lambda _action: paid, envs.envs[1].step])
    assert envs.step([0, 0])[1].tolist() == [5.0, 1.0]
    envs.close()


def test_environment_that_failed_is_replaced_before_a_call() -> None:
    envs = VectorEnv(Moody, 2)
    envs.reset(seed=1)
    with pytest.raises(GameError):
        envs.step([0, 2])
    assert envs.envs[1] is None
    assert envs.get_attr("number") == (0, 1)
    envs.reset(seed=1)
    envs.step([0, 0])
    envs.close()


def test_value_that_cannot_travel_between_processes_is_a_type_error() -> None:
    envs = VectorEnv(Rich, 2, processes=1)
    envs.reset(seed=1)
    with pytest.raises(TypeError, match=r"processes: call of environment 0: .*got <object"):
        envs.call("made_of")
    for given in (object(), lambda: 3, np.array([{}, object()])):
        with pytest.raises(TypeError, match="processes: set_attr: expected numbers, text"):
            envs.set_attr("length", given)
    assert envs.step([0, 0])[0][:, 2].tolist() == [1, 1]
    envs.close()


def test_built_in_games_have_the_attributes_of_the_vector() -> None:
    envs = VectorEnv("cartpole", 2, max_episode_steps=7)
    assert envs.get_attr("action_space") == (envs.single_action_space,) * 2
    assert envs.get_attr("max_episode_steps") == (7, 7)
    assert envs.get_attr("render_mode") == envs.call("spec") == (None, None)
    assert envs.envs == []
    for call in (lambda: envs.get_attr("gravity"), lambda: envs.call("seed", 3)):
        with pytest.raises(AttributeError, match=r"(gravity|seed): expected one of \['action_sp"):
            call()
    with pytest.raises(AttributeError, match="gravity: attributes of built-in games cannot be"):
        envs.set_attr("gravity", 3)
    envs.close()
