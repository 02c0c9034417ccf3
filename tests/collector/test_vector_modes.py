"""Autoreset modes and observation modes of vectors, beside SyncVectorEnv."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")
from gymnasium import spaces  # noqa: E402
from gymnasium.error import ResetNeeded  # noqa: E402
from gymnasium.vector import AutoresetMode, SyncVectorEnv  # noqa: E402

from cogrs.collector import VectorEnv  # noqa: E402
from tests.collector.build import same  # noqa: E402
from tests.collector.vector_environments import Rich, Sized  # noqa: E402

COUNT = 5
MODES = pytest.mark.parametrize("mode", list(AutoresetMode))
PLACES = pytest.mark.parametrize(
    "place", [{}, {"num_threads": 2}, {"processes": 2}], ids=["caller", "threads", "processes"]
)


def pair(env: Any, place: dict[str, int], **options: Any) -> tuple[VectorEnv, Any]:
    theirs = SyncVectorEnv([partial(env, number) for number in range(COUNT)], **options)
    return VectorEnv(env, COUNT, **place, **options), theirs


@PLACES
@MODES
def test_vector_of_each_autoreset_mode_equals_sync_vector_env(
    mode: AutoresetMode, place: dict[str, int]
) -> None:
    ours, theirs = pair(Rich, place, autoreset_mode=mode)
    assert ours.metadata == theirs.metadata
    ours.action_space.seed(2)
    for kind in ({"seed": 5}, {"options": {"x": 1}}, {"seed": [3, None, 1, 4, None]}, {}):
        same(ours.reset(**kind), theirs.reset(**kind))
        over = np.zeros(COUNT, bool)
        for _ in range(30):
            if mode is AutoresetMode.DISABLED and over.any():
                for options in ({"reset_mask": over.copy()}, {"reset_mask": over.copy(), "y": 2}):
                    given = [dict(options), dict(options)]
                    same(ours.reset(options=given[0]), theirs.reset(options=given[1]))
            actions = ours.action_space.sample()
            stepped = ours.step(actions)
            same(stepped, theirs.step(actions))
            over = stepped[2] | stepped[3]
    ours.close()
    theirs.close()


def test_same_step_infos_have_the_last_observation_and_infos_of_the_ended_episodes() -> None:
    envs = VectorEnv(Rich, 2, autoreset_mode="SameStep", length=2)
    envs.reset(seed=1)
    envs.step(np.zeros(2, int))
    shown, _, terminated, truncated, infos = envs.step(np.zeros(2, int))
    assert (terminated | truncated).tolist() == [True, False]
    assert shown[:, 2].tolist() == [0, 2]
    assert infos["final_obs"][0].tolist()[2] == 2
    assert infos["final_obs"][1] is None
    assert infos["_final_obs"].tolist() == infos["_final_info"].tolist() == [True, False]
    assert infos["final_info"]["int"].tolist() == [2, 0]
    assert infos["first"].tolist() == [True, False]
    envs.close()


def test_last_observation_in_memory_that_is_used_again_is_kept_for_the_caller() -> None:
    class Reusing(Rich):
        memory = np.zeros(3, np.float32)

        def shown(self) -> Any:
            self.memory[:] = super().shown()
            return self.memory

    envs = VectorEnv(Reusing, 1, autoreset_mode="same_step", length=3)
    envs.reset(seed=1)
    final = None
    while final is None:
        *_, infos = envs.step([0])
        final = infos.get("final_obs")
    assert final[0][2] == 3
    envs.close()


@PLACES
def test_step_after_the_end_without_a_reset_is_refused_by_mode_disabled(
    place: dict[str, int],
) -> None:
    envs = VectorEnv(Rich, 3, autoreset_mode=AutoresetMode.DISABLED, **place)
    envs.reset(seed=1)
    over = np.zeros(3, bool)
    while not over.any():
        shown, _, terminated, truncated, _ = envs.step(np.zeros(3, int))
        over = terminated | truncated
    for kind in (ResetNeeded, AssertionError):
        with pytest.raises(kind, match=r"whose episode is over: \[0, 2\]"):
            envs.step(np.zeros(3, int))
    envs.reset(options={"reset_mask": np.array([True, False, False])})
    with pytest.raises(AssertionError, match=r"is over: \[2\]"):
        envs.step(np.zeros(3, int))
    again, _ = envs.reset(options={"reset_mask": over})
    assert again[:, 2].tolist() == [0, shown[1, 2], 0]
    assert envs.step(np.zeros(3, int))[0][:, 2].tolist() == [1, shown[1, 2] + 1, 1]
    envs.close()


def episodes(name: str, mode: AutoresetMode) -> list[list[Any]]:
    """Return the complete episodes of each game: states, and what each step paid and ended."""
    count, steps = 4, 150
    envs = VectorEnv(name, count, seed=3, autoreset_mode=mode)
    shown, _ = envs.reset()

    def row(number: int, of: Any) -> Any:
        return {key: part[number].tolist() for key, part in of.items()}

    def parts(of: Any) -> Any:
        return of if isinstance(of, dict) else {"s": of}

    found: list[list[Any]] = [[[row(number, parts(shown))]] for number in range(count)]
    over = np.zeros(count, bool)
    for _ in range(steps):
        masks = parts(shown).get("action_mask", np.tile([1, 1], (count, 1)))
        actions = np.where(masks[:, 1], 1, masks.argmax(axis=1))
        before = over
        shown, rewards, terminated, truncated, infos = envs.step(actions)
        over = terminated | truncated
        for number in range(count):
            if before[number] and mode is AutoresetMode.NEXT_STEP:
                assert (rewards[number], over[number]) == (0, False)
                found[number].append([row(number, parts(shown))])
                continue
            last = parts(shown)
            if over[number] and mode is AutoresetMode.SAME_STEP:
                final = parts(infos["final_obs"][number])
                last = {key: np.array([part] * count) for key, part in final.items()}
            ends = terminated[number], truncated[number]
            found[number][-1] += [(rewards[number], *ends), row(number, last)]
            if over[number] and mode is AutoresetMode.SAME_STEP:
                found[number].append([row(number, parts(shown))])
        if mode is AutoresetMode.DISABLED and over.any():
            shown, _ = envs.reset(options={"reset_mask": over})
            for number in np.flatnonzero(over):
                found[number].append([row(number, parts(shown))])
    envs.close()
    return [each[:-1] for each in found]


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.DISABLED])
@pytest.mark.parametrize("name", ["cartpole", "connect_four", "catch"])
def test_built_in_games_have_the_same_episodes_in_every_autoreset_mode(
    name: str, mode: AutoresetMode
) -> None:
    expected, found = episodes(name, AutoresetMode.NEXT_STEP), episodes(name, mode)
    for one, other in zip(expected, found, strict=True):
        complete = min(len(one), len(other))
        assert complete > 5
        assert one[:complete] == other[:complete]


def test_built_in_games_with_same_step_resets_pay_and_go_on_like_next_step_resets() -> None:
    envs = VectorEnv("cartpole", 3, max_episode_steps=4, autoreset_mode="same_step", seed=1)
    assert envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    first, _ = envs.reset()
    for _ in range(3):
        for step in range(4):
            shown, rewards, terminated, truncated, infos = envs.step([0, 1, 0])
            assert rewards.tolist() == [1, 1, 1]
            assert truncated.tolist() == [step == 3] * 3
            assert not terminated.any()
            assert set(infos) == (
                {"final_obs", "_final_obs", "final_info", "_final_info"} if step == 3 else set()
            )
        assert (np.abs(shown) <= 0.05).all()
        assert (shown != first).any()
    envs.close()


def test_reset_mask_of_a_built_in_game_leaves_the_other_ended_episodes_over() -> None:
    envs = VectorEnv("cartpole", 2, max_episode_steps=2, autoreset_mode="disabled", seed=1)
    envs.reset()
    envs.step([0, 0])
    envs.step([0, 0])
    envs.reset(options={"reset_mask": np.array([True, False])})
    with pytest.raises(ResetNeeded, match=r"\[1\]"):
        envs.step([0, 0])
    envs.reset(options={"reset_mask": np.array([False, True])})
    assert envs.step([0, 0])[3].tolist() == [False, False]
    assert envs.step([0, 0])[3].tolist() == [True, True]
    envs.close()


@PLACES
def test_observations_of_different_bounds_are_batched_as_by_sync_vector_env(
    place: dict[str, int],
) -> None:
    ours, theirs = pair(Sized, place, observation_mode="different")
    assert ours.observation_space == theirs.observation_space
    assert ours.single_observation_space == theirs.single_observation_space
    same(ours.reset(seed=3), theirs.reset(seed=3))
    for _ in range(12):
        same(ours.step(np.ones(COUNT, int)), theirs.step(np.ones(COUNT, int)))
    ours.close()
    theirs.close()


@PLACES
def test_pair_of_spaces_is_taken_as_the_batched_and_the_single_space(
    place: dict[str, int],
) -> None:
    single = spaces.Box(-np.inf, np.inf, (3,), np.float32)
    given = gymnasium.vector.utils.batch_space(single, COUNT), single
    ours, theirs = pair(Sized, place, observation_mode=given)
    assert ours.observation_space == theirs.observation_space == given[0]
    assert ours.single_observation_space == theirs.single_observation_space == single
    same(ours.reset(seed=3), theirs.reset(seed=3))
    ours.close()
    theirs.close()


@PLACES
@pytest.mark.parametrize(
    ("mode", "options", "words"),
    [
        ("same", {}, "observation_space: .*observation_mode='different'"),
        ("different", {"env_kwargs": [{}, {}, {"wide": True}]}, "dtype and shape .* environment 2"),
    ],
)
def test_observation_spaces_that_do_not_agree_are_refused(
    place: dict[str, int], mode: str, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(RuntimeError, match=words):
        VectorEnv(Sized, 3, observation_mode=mode, **options, **place)


@pytest.mark.parametrize("env", ["cartpole", Rich])
@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"autoreset_mode": "never"}, ValueError, "autoreset_mode: expected one of .*'never'"),
        ({"autoreset_mode": 3}, ValueError, "autoreset_mode: expected one of"),
        ({"observation_mode": "other"}, ValueError, "observation_mode: expected 'same', 'differ"),
        ({"observation_mode": spaces.Discrete(3)}, ValueError, "observation_mode: expected"),
        ({"observation_mode": (1, 2)}, TypeError, "expected a pair of spaces, got int and int"),
    ],
)
def test_wrong_mode_is_refused(env: Any, options: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        VectorEnv(env, 2, **options)
