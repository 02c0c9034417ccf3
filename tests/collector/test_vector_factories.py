"""Environments of a vector that differ: by their factories, arguments and numbers."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")
from gymnasium.vector import SyncVectorEnv  # noqa: E402

import cogrs  # noqa: E402
from cogrs.collector import VectorEnv  # noqa: E402
from tests.collector.build import same  # noqa: E402
from tests.collector.sample_environments import Counting  # noqa: E402
from tests.collector.vector_environments import Rich, Sized, rich_frame  # noqa: E402

PLACES = pytest.mark.parametrize(
    "place",
    [{}, {"num_threads": 2}, {"num_threads": 5}, {"processes": 2}],
    ids=["caller", "two threads", "five threads", "processes"],
)


@PLACES
def test_environment_i_is_made_by_factory_i(place: dict[str, int]) -> None:
    made: list[int] = []

    def make(number: int, at: Any) -> Any:
        made.append(number)
        return at(number)

    if "processes" in place:
        factories: list[Any] = [Rich, rich_frame, Rich, rich_frame, Rich]
    else:
        kinds = [Rich, rich_frame, Rich, rich_frame, Rich]
        factories = [partial(make, number, kind) for number, kind in enumerate(kinds)]
    envs = VectorEnv(factories, **place)
    theirs = SyncVectorEnv(
        [partial(kind, at) for at, kind in enumerate([Rich, rich_frame] * 2 + [Rich])]
    )
    assert envs.num_envs == 5
    assert envs.get_attr("render_mode") == (None, "rgb_array", None, "rgb_array", None)
    same(envs.reset(seed=4), theirs.reset(seed=4))
    for _ in range(9):
        same(envs.step(np.ones(5, int)), theirs.step(np.ones(5, int)))
    assert made == ([] if "processes" in place else [0, 1, 2, 3, 4])
    envs.close()


@PLACES
def test_mappings_of_keyword_arguments_belong_to_one_environment_each(
    place: dict[str, int],
) -> None:
    envs = VectorEnv(Rich, env_kwargs=[{"length": 3 + at} for at in range(5)], **place)
    assert envs.get_attr("length") == (3, 4, 5, 6, 7)
    assert envs.get_attr("number") == (0, 1, 2, 3, 4)
    envs.close()
    envs = VectorEnv([Rich, rich_frame], env_kwargs=[{"length": 3}, {}], **place)
    assert envs.get_attr("length") == (3, 4)
    envs.close()
    envs = VectorEnv(Rich, 2, env_kwargs={"length": 3}, render_mode="rgb_array", **place)
    assert (envs.get_attr("length"), envs.render_mode) == ((3, 3), "rgb_array")
    envs.close()


def test_ids_and_their_keyword_arguments_may_differ() -> None:
    ids = ["CartPole-v1", "CartPole-v0"]
    with pytest.warns(DeprecationWarning, match="CartPole-v0"):
        envs = VectorEnv(ids, env_kwargs=[{"max_episode_steps": 7}, {}])
    assert [each.spec.id for each in envs.envs] == ids
    assert [each.spec.max_episode_steps for each in envs.envs] == [7, 200]
    envs.close()


def test_factories_may_come_from_a_generator() -> None:
    envs = VectorEnv(partial(Rich, number) for number in (5, 6))
    assert envs.get_attr("number") == (5, 6)
    envs.close()


@pytest.mark.parametrize(
    ("factory", "expected"),
    [
        (Rich, [0, 1]),
        (lambda index: Rich(index + 3), [3, 4]),
        (lambda index, /, length=7: Rich(index, length=length), [0, 1]),
        (lambda number=8: Rich(number), [8, 8]),
        (lambda *args: Rich(sum(args, 9)), [9, 9]),
        (partial(Rich, 4), [4, 4]),
        (partial(Rich, number=4), [4, 4]),
        ("tests.collector.vector_environments:rich_frame", [0, 1]),
    ],
)
def test_factory_that_needs_one_argument_is_given_the_number(
    factory: Any, expected: list[int]
) -> None:
    envs = VectorEnv(factory, 2)
    assert list(envs.get_attr("number")) == expected
    envs.close()


def test_argument_that_an_option_gives_is_not_the_number() -> None:
    envs = VectorEnv(Rich, 2, number=6)
    assert envs.get_attr("number") == (6, 6)
    envs.close()


@pytest.mark.parametrize(
    ("arguments", "options", "kind", "words"),
    [
        (([],), {}, ValueError, "env: expected at least one, got an empty sequence"),
        (([Rich, Rich], 3), {}, ValueError, "num_envs: expected 2, one for each .*, got 3"),
        ((Rich, 3), {"env_kwargs": [{}, {}]}, ValueError, "num_envs: expected 2"),
        ((Rich,), {"env_kwargs": []}, ValueError, "env_kwargs: expected at least one"),
        (
            ([Rich] * 2,),
            {"env_kwargs": [{}]},
            ValueError,
            "env_kwargs: expected 2 mappings, one for each of `env`, got 1",
        ),
        (
            (Rich, 2),
            {"env_kwargs": [3, {}]},
            TypeError,
            "env_kwargs: expected a mapping .* got int",
        ),
        ((Rich, 2), {"env_kwargs": 3}, TypeError, "env_kwargs: expected a mapping .* got int"),
        (([Rich, 3],), {}, TypeError, "env: expected an id, .* got int"),
        (([Rich(0)],), {}, TypeError, "got an environment"),
        ((Rich(0),), {}, TypeError, "got an environment"),
        ((["cartpole"] * 2,), {}, gymnasium.error.UnregisteredEnv, "cartpole"),
        (("cartpole", 2), {"env_kwargs": [{}] * 2}, TypeError, "env_kwargs: .* got a sequence"),
        (("cartpole", 2), {"env_kwargs": 3}, TypeError, "env_kwargs: expected a mapping or None"),
        (("cartpole", 2), {"processes": 2}, ValueError, "processes: expected 0 for a built-in"),
        (("cartpole", 2), {"on_error": "restart"}, ValueError, "on_error: expected 'raise' for a"),
    ],
)
def test_factories_that_do_not_fit_are_refused(
    arguments: Any, options: Any, kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        VectorEnv(*arguments, **options)


def test_built_in_game_takes_its_options_as_a_mapping() -> None:
    envs = VectorEnv("cartpole", 2, env_kwargs={"max_episode_steps": 3})
    assert envs.get_attr("max_episode_steps") == (3, 3)
    envs.close()


@pytest.mark.parametrize("processes", [0, 2])
def test_games_of_a_collector_are_made_by_factories_of_their_own(processes: int) -> None:
    co = cogrs.ContextOptions(num_games=3, seed=1, num_threads=0 if processes else 1)
    factories = [Rich, "tests.collector.vector_environments:Rich", Rich]
    context = cogrs.GameContext("gymnasium", co, factories, processes=processes, length=9)
    with cogrs.GCWrapper(
        context, co, {"actor": ({"s": "", "id": "", "_batchsize": 3}, {"a": ""})}
    ) as games:
        numbers: dict[int, float] = {}

        def note(batch: Any, _gpu: Any, _reply: Any) -> None:
            pairs = zip(batch[0]["id"], batch[0]["s"][:, 0], strict=True)
            numbers.update({int(game): float(number) for game, number in pairs})

        games.reg_callback("actor", note)
        games.Start()
        for _ in range(4):
            games.Run(20)
    assert numbers == {0: 0, 1: 1, 2: 2}


def test_collector_of_another_number_of_games_is_refused() -> None:
    co = cogrs.ContextOptions(num_games=3)
    context = cogrs.GameContext("gymnasium", co, [Counting, Counting])
    with pytest.raises(ValueError, match=r"num_games: expected 2, one for each .*, got 3"):
        cogrs.GCWrapper(context, co, {"actor": ({"s": "", "_batchsize": 3}, {"a": ""})}).Start()
    context.Stop()


def test_spaces_of_a_sequence_of_factories_may_differ_in_bounds() -> None:
    envs = VectorEnv([Sized] * 3, observation_mode="different")
    lows = envs.observation_space.low[:, 0]  # type: ignore[attr-defined]
    assert lows.tolist() == [-1e9, -2e9, -3e9]
    envs.close()
