"""Names that are misspelt, and options that vectors do not have."""

from __future__ import annotations

from typing import Any

import pytest

gymnasium = pytest.importorskip("gymnasium")
import cogrs  # noqa: E402
from cogrs.collector import ContextOptions, VectorEnv  # noqa: E402
from tests.collector import sample_environments  # noqa: E402


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("cartpol", "cartpole"),
        ("cart_pole", "cartpole"),
        ("mountaincar", "mountain_car"),
        ("pendulm", "pendulum"),
        ("conect_four", "connect_four"),
    ],
)
def test_misspelt_built_in_game_is_suggested(name: str, meant: str) -> None:
    with pytest.raises(gymnasium.error.UnregisteredEnv, match=f"did you mean {meant!r}"):
        VectorEnv(name, 2)
    with pytest.raises(ValueError, match=f"did you mean {meant!r}"):
        cogrs.GameContext(name)


def test_name_unlike_all_games_gets_no_suggestion() -> None:
    with pytest.raises(gymnasium.error.UnregisteredEnv) as info:
        VectorEnv("Xylophone-v3")
    assert "built-in" not in str(info.value)
    with pytest.raises(ValueError, match="name: expected one of") as refused:
        cogrs.GameContext("xylophone")
    assert "did you mean" not in str(refused.value)
    with pytest.raises(ValueError, match="name: expected one of"):
        cogrs.GameContext(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("env", ["cartpole", "CartPole-v1", sample_environments.Counting])
@pytest.mark.parametrize("option", ["shared_memory", "context", "daemon", "worker"])
def test_option_of_async_vector_env_names_processes(env: Any, option: str) -> None:
    with pytest.raises(TypeError, match=f"{option}: VectorEnv has no such option: .*processes=k"):
        VectorEnv(env, 2, **{option: None})


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("processes", -1, "processes: expected an integer from 0 to"),
        ("on_error", "drop", "on_error: expected 'raise' or 'restart', got 'drop'"),
        ("max_restarts", -1, "max_restarts: expected an integer"),
        ("restart_backoff", -1.0, "restart_backoff: "),
        ("copy", 3, "copy: expected"),
    ],
)
def test_option_of_a_vector_out_of_its_range_is_refused(
    option: str, value: Any, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        VectorEnv(sample_environments.Counting, 2, **{option: value})


@pytest.mark.parametrize(
    ("env", "option", "meant"),
    [
        ("cartpole", "max_episode_step", "max_episode_steps"),
        ("cartpole", "num_thread", "num_threads"),
        ("pendulum", "num_env", "num_envs"),
        ("CartPole-v1", "num_thread", "num_threads"),
        ("CartPole-v1", "numthreads", "num_threads"),
        (sample_environments.Counting, "num_env", "num_envs"),
        ("tests.collector.sample_environments:Counting", "sed", "seed"),
    ],
)
def test_misspelt_option_is_suggested(env: Any, option: str, meant: str) -> None:
    with pytest.raises(TypeError, match=f"{option}.*did you mean {meant!r}"):
        VectorEnv(env, 2, **{option: 3})


@pytest.mark.parametrize(
    ("option", "meant"),
    [("proceses", "processes"), ("stop_timout", "stop_timeout"), ("starttimeout", "start_timeout")],
)
def test_misspelt_option_of_a_game_context_is_suggested(option: str, meant: str) -> None:
    for env in ("CartPole-v1", sample_environments.Counting):
        with pytest.raises(TypeError, match=f"{option}.*did you mean {meant!r}"):
            cogrs.GameContext("gymnasium", ContextOptions(), env, **{option: 3})


def test_misspelt_option_of_a_built_in_game_context_is_suggested() -> None:
    with pytest.raises(TypeError, match=r"max_episode_step: .*you mean 'max_episode_steps'"):
        cogrs.GameContext("cartpole", ContextOptions(), max_episode_step=3)
    context: Any = cogrs.GameContext("cartpole", ContextOptions(), max_episode_steps=3)
    assert context.options.max_episode_steps == 3


def test_exception_of_the_environment_is_passed_on() -> None:
    class Choosy(sample_environments.Counting):
        def __init__(self, seeds: int = 3) -> None:
            raise TypeError("'seeds' are not to be had")

    with pytest.raises(TypeError, match=r"^cannot"):
        VectorEnv(lambda: (_ for _ in ()).throw(TypeError("cannot")), 2)
    with pytest.raises(TypeError, match="are not to be had"):
        VectorEnv(Choosy, 2, seeds=3)
