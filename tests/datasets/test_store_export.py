"""Trials of a store as data sets of Minari."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cogrs
from cogrs import datasets, sdk
from cogrs.space_json import ActorSpaces
from cogrs.store import Store, TrialFilter, open_store
from tests.datasets.arrays import equal, sampled, stacked
from tests.datasets.trials import SPACES, observation, played, reward, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

minari = pytest.importorskip("minari")
pytest.importorskip("h5py")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    (tmp_path / "logs").mkdir()
    with open_store(tmp_path / "store", create=True) as each:
        yield each


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return tmp_path / "logs"


def only(dataset_id: str) -> Any:
    (episode,) = minari.load_dataset(dataset_id)
    return episode


def metadata(dataset_id: str) -> list[dict[str, Any]]:
    dataset = minari.load_dataset(dataset_id)
    return list(dataset.storage.get_episode_metadata(dataset.episode_indices))


def test_episode_is_the_trial_step_by_step(root: Path, store: Store, logs: Path) -> None:
    write(store, logs, "t", played(4, terminated=True))
    (exported,) = datasets.to_minari(store, "cartpole/seen-v0")
    assert exported == ("cartpole/seen-v0", root / "cartpole/seen-v0", 1, 4, 0)
    episode = only("cartpole/seen-v0")
    assert episode.observations.tolist() == [[k, -k] for k in range(5)]
    assert episode.observations.dtype == np.float32
    assert episode.actions.tolist() == [0, 1, 2, 0]
    assert episode.rewards.tolist() == [0, 1, 2, 3]
    assert episode.terminations.tolist() == [False, False, False, True]
    assert not episode.truncations.any()
    infos = {name: column.tolist() for name, column in episode.infos.items()}
    assert infos == {
        "tick": [0, 1, 2, 3, 4],
        "acted": [True, True, True, True, False],
        "reward_environment": [0, 1, 2, 3, 0],
        "reward_people": [0] * 5,
        "confidence": [1, 1, 1, 1, 0],
        "timestamp": [1000, 1001, 1002, 1003, 1004],
    }
    (found,) = metadata("cartpole/seen-v0")
    assert {name: found[name] for name in ("trial_id", "actor", "actor_class", "user")} == {
        "trial_id": "t",
        "actor": "player",
        "actor_class": "p",
        "user": "ada",
    }
    assert (found["implementation"], found["end_reason"]) == ("env", "environment: final update")
    dataset = minari.load_dataset("cartpole/seen-v0")
    assert (dataset.observation_space, dataset.action_space) == SPACES
    assert dataset.storage.jpeg_encoding is False


def test_end_that_the_environment_did_not_say_is_a_truncation(
    root: Path, store: Store, logs: Path
) -> None:
    write(store, logs, "t", played(3, end_reason="max_steps: 3 steps are done"))
    datasets.to_minari(store, "cut-v0")
    episode = only("cut-v0")
    assert not episode.terminations.any()
    assert episode.truncations.tolist() == [False, False, True]


def test_late_rewards_are_added_to_their_actions(root: Path, store: Store, logs: Path) -> None:
    both = reward(1, ("env", 0.0, 1.0), ("carol", 3.0, 0.5))
    late = {
        3: (reward(1, ("bob", 2.0, 0.5), ("carol", 6.0, 1.5)), reward(99, ("bob", 9.0, 1.0))),
        4: (reward(2, ("coach", 8.0, 1.0)), reward(2, ("bob", -1.0, 1.0))),
    }
    samples = played(4, rewards=late)
    samples[1] = sdk.Sample(1, samples[1].observations, samples[1].actions, {"player": (both,)})
    actors = {"player": "p", "coach": "c", "bob": "person", "carol": "person"}
    endpoints = {"bob": "client", "carol": "client"}
    write(store, logs, "t", samples, actors=actors, endpoints=endpoints)
    datasets.to_minari(store, "late-v0")
    episode = only("late-v0")
    # As it was delivered, (0 + 0.5 * 3) / 1.5 = 1, and 5 later; 1, and 8 and -1 later.
    assert episode.rewards.tolist() == [1 + 5, 1 + 8 - 1, 2, 3]
    assert episode.infos["reward_environment"].tolist() == [0, 1, 2, 3, 0]
    # Of bob 2 with 0.5, of carol 3 with 0.5 and 6 with 1.5. The coach is an agent.
    assert episode.infos["reward_people"].tolist() == [(1 + 1.5 + 9) / 2.5, -1, 0, 0, 0]
    assert episode.infos["confidence"].tolist() == [1 + 0.5 + 0.5 + 1.5, 3, 1, 1, 0]


def test_reward_after_the_end_of_the_trial_is_in_the_export(
    root: Path, store: Store, logs: Path
) -> None:
    write(store, logs, "t", played(3))
    store.add_reward("t", "player", 2, 0.5, sender="dora")
    datasets.to_minari(store, "after-v0")
    episode = only("after-v0")
    assert episode.rewards.tolist() == [0, 1.5, 2]
    assert episode.infos["reward_people"].tolist() == [0, 0.5, 0, 0]


def test_default_action_did_not_act(root: Path, store: Store, logs: Path) -> None:
    samples = played(3)
    first = samples[1]
    samples[1] = sdk.Sample(
        1, first.observations, first.actions, first.rewards, stood_in=frozenset({"player"})
    )
    write(store, logs, "t", samples)
    datasets.to_minari(store, "stood-v0")
    assert only("stood-v0").infos["acted"].tolist() == [True, False, True, False]


def test_failed_and_partial_trials_are_left_out_unless_asked_for(
    root: Path, store: Store, logs: Path
) -> None:
    write(store, logs, "good", played(2))
    write(store, logs, "failed", played(3, end_reason="environment grpc://x:1: OnEnd: it broke"))
    write(store, logs, "partial", played(4, end_reason=""))
    assert datasets.to_minari(store, "good-v0")[0].steps == 2
    assert datasets.to_minari(store, "all-v0", failed=True)[0].steps == 9
    chosen = datasets.to_minari(store, "one-v0", failed=True, trials=TrialFilter(ended_by="broke"))
    assert chosen[0].steps == 3


def test_trial_that_broke_off_loses_its_last_action(root: Path, store: Store, logs: Path) -> None:
    write(store, logs, "long", played(4)[:3])
    write(store, logs, "one", played(4)[:1])
    (exported,) = datasets.to_minari(store, "broken-v0", failed=True)
    assert (exported.episodes, exported.steps, exported.left_out) == (1, 2, 2)
    episode = only("broken-v0")
    assert episode.observations.tolist() == [[0, 0], [1, -1], [2, -2]]
    assert episode.truncations.tolist() == [False, True]


def test_episode_ends_where_its_actor_did_not_answer(root: Path, store: Store, logs: Path) -> None:
    samples = played(4)
    samples[2] = sdk.Sample(2, samples[2].observations, {}, samples[2].rewards)
    write(store, logs, "t", samples)
    (exported,) = datasets.to_minari(store, "gone-v0")
    assert (exported.steps, exported.left_out) == (2, 0)
    assert only("gone-v0").actions.tolist() == [0, 1]


def test_classes_implementations_and_spaces_make_data_sets_of_their_own(
    root: Path, store: Store, logs: Path
) -> None:
    other = ActorSpaces(spaces.Box(-20, 20, (2,)), spaces.Discrete(3))
    write(store, logs, "a", played(2))
    write(store, logs, "b", played(3, name="judge"), actors={"judge": "über/judge"})
    write(store, logs, "c", played(4), implementation="gym:x")
    write(store, logs, "d", played(5), told={"player": other})
    found = datasets.to_minari(store, "ns/many-v2")
    assert {each.dataset_id: each.steps for each in found} == {
        "ns/many-env-p-1-v2": 2,
        "ns/many-env-_ber_judge-v2": 3,
        "ns/many-gym_x-p-v2": 4,
        "ns/many-env-p-2-v2": 5,
    }
    assert sorted(minari.list_local_datasets()) == sorted(each.dataset_id for each in found)
    assert minari.load_dataset("ns/many-env-p-2-v2").observation_space == other.observation


def test_two_classes_are_told_apart_by_their_names(root: Path, store: Store, logs: Path) -> None:
    one, two = played(2, name="left"), played(2, name="right")
    samples = [
        sdk.Sample(
            a.tick,
            {**a.observations, **b.observations},
            {**a.actions, **b.actions},
            {**a.rewards, **b.rewards},
            end_reason=a.end_reason,
        )
        for a, b in zip(one, two, strict=True)
    ]
    write(store, logs, "t", samples, actors={"left": "cat", "right": "mouse"})
    found = datasets.to_minari(store, "chase-v0")
    assert [each.dataset_id for each in found] == ["chase-cat-v0", "chase-mouse-v0"]
    assert metadata("chase-mouse-v0")[0]["actor"] == "right"


def test_trials_without_spaces_take_given_spaces(root: Path, store: Store, logs: Path) -> None:
    write(store, logs, "t", played(2), told={})
    with pytest.raises(TypeError, match=r"observation_space, action_space: .* trial t told no"):
        datasets.to_minari(store, "told-v0")
    assert list(root.iterdir()) == []
    given = {"observation_space": SPACES.observation, "action_space": SPACES.action}
    datasets.to_minari(store, "told-v0", **given)
    assert minari.load_dataset("told-v0").observation_space == SPACES.observation


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            np.zeros(3, np.float32),
            r"observations of 'player' in trial t: expected arrays of one sh",
        ),
        (b"own message", r"observations of 'player' in trial t: expected arrays of Box.*got bytes"),
        (
            {"x": np.zeros(2, np.float32)},
            r"observations of 'player' in trial t: expected arrays of",
        ),
    ],
    ids=range(3),
)
def test_values_that_are_not_of_the_space_leave_nothing(
    root: Path, store: Store, logs: Path, value: Any, text: str
) -> None:
    samples = played(3)
    samples[1] = sdk.Sample(1, {"player": observation(1, value)}, samples[1].actions)
    write(store, logs, "t", samples)
    with pytest.raises((TypeError, ValueError), match=text):
        datasets.to_minari(store, "wrong-v0")
    assert list(root.iterdir()) == []


def test_empty_store_is_refused(root: Path, store: Store) -> None:
    with pytest.raises(ValueError, match="source: expected at least one episode with an action"):
        datasets.to_minari(store, "none-v0")


NESTED = spaces.Dict(
    image=spaces.Box(0, 255, (84, 84, 1), np.uint8),
    pair=spaces.Tuple([spaces.Discrete(5, start=-2), spaces.MultiBinary((2, 2))]),
    half=spaces.Box(-1, 1, (), np.float16),
)


@given(
    space=st.sampled_from([NESTED, spaces.MultiDiscrete([[2, 3], [4, 5]]), spaces.Discrete(9)]),
    action_space=st.sampled_from(
        [
            spaces.Discrete(4, start=3),
            spaces.Tuple([spaces.Box(-1, 1, (2,), np.float64), spaces.Dict(a=spaces.Discrete(2))]),
        ]
    ),
    count=st.integers(1, 5),
    terminated=st.booleans(),
)
@settings(
    max_examples=settings.default.max_examples // 15,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_round_trips_of_trials_are_equal_to_the_bit(
    root: Path, tmp_path: Path, space: Any, action_space: Any, count: int, terminated: bool
) -> None:
    number = len(list(tmp_path.glob("store-*")))
    seen, done = sampled(space, count + 1, count), sampled(action_space, count, count)
    made = [
        sdk.Sample(
            tick,
            {
                "player": observation(
                    tick, _kept(seen[tick]), terminated=terminated and tick == count
                )
            },
            {"player": _kept(done[tick])} if tick < count else {},
            end_reason="done" if tick == count else "",
        )
        for tick in range(count + 1)
    ]
    logs = tmp_path / f"logs-{number}"
    logs.mkdir()
    told = {"player": ActorSpaces(space, action_space)}
    with open_store(tmp_path / f"store-{number}", create=True) as store:
        write(store, logs, f"t{number}", made, told=told)
        datasets.to_minari(store, f"trip-{number}-v0")
    dataset = minari.load_dataset(f"trip-{number}-v0")
    assert (dataset.observation_space, dataset.action_space) == (space, action_space)
    (episode,) = dataset
    assert equal(episode.observations, stacked(space, seen))
    assert equal(episode.actions, stacked(action_space, done))
    rem = cogrs.ReplayMemory.from_spaces(space, action_space, 20)
    datasets.from_minari(dataset, rem, bootstrap=0.0)
    assert rem.episode(0).truncated is not terminated


def _kept(value: Any) -> Any:
    """Return a value as trials carry it."""
    from cogrs.sdk.space import carried

    return carried(value)


def test_zero_byte_in_the_name_of_an_actor_is_a_space_in_the_metadata(
    root: Path, store: Store, logs: Path
) -> None:
    write(store, logs, "t", played(2, name="a\0b"), actors={"a\0b": "p\0"})
    datasets.to_minari(store, "cartpole/seen-v0")
    (about,) = metadata("cartpole/seen-v0")
    assert (about["actor"], about["actor_class"], about["total_steps"]) == ("a b", "p ", 2)
