"""Data sets of Minari in memories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import cogrs
from cogrs import datasets
from tests.datasets.arrays import ACTION, BOX, add, sampled, simple_memory, stacked

if TYPE_CHECKING:
    from pathlib import Path

minari = pytest.importorskip("minari")
h5py = pytest.importorskip("h5py")


def test_import_by_id_and_of_a_filtered_set(root: Path) -> None:
    rem = simple_memory()
    for seed, count in enumerate((2, 5, 3)):
        add(rem, count, seed, terminated=True)
    datasets.to_minari(rem, "some-v0")
    one, other = simple_memory(), simple_memory()
    assert datasets.from_minari("some-v0", one) == (3, 10, 0)
    long = minari.load_dataset("some-v0").filter_episodes(lambda episode: len(episode) > 2)
    assert datasets.from_minari(long, other) == (2, 8, 0)
    assert other.episode(0).entries.r.tolist()[:5] == [0.5, 1.5, 2.5, 3.5, 4.5]


def test_function_of_the_observation_bootstraps(root: Path) -> None:
    space = spaces.Dict(x=BOX, n=spaces.Discrete(5))
    rem = cogrs.ReplayMemory.from_spaces(space, ACTION, 20)
    seen = sampled(space, 3, 0)
    row = (stacked(space, seen[:2]), [2, 2], [0, 0], [1, 1], [0, 0], np.zeros((2, 0)), 1.0)
    rem.add_episode(*row, final_state=seen[2], truncated=True)
    datasets.to_minari(rem, "cut-v0")
    again = cogrs.ReplayMemory.from_spaces(space, ACTION, 20)
    with pytest.raises(ValueError, match=r"bootstrap: expected a value.* episode 0 was truncated"):
        datasets.from_minari("cut-v0", again)
    assert again.num_entry == 0
    datasets.from_minari("cut-v0", again, bootstrap=lambda state: state["x"][0] + state["n"])
    expected = np.float32(seen[2]["x"][0] + seen[2]["n"])
    assert again.episode(0).entries.q[-1] == expected


def test_unknown_data_sets_are_named_with_the_nearest(root: Path) -> None:
    rem = simple_memory()
    add(rem, 3, terminated=True)
    datasets.to_minari(rem, "cartpole/expert-v0")
    text = r"got 'cartpole/expret-v0'; did you mean 'cartpole/expert-v0'\?"
    with pytest.raises(FileNotFoundError, match=text):
        datasets.from_minari("cartpole/expret-v0", simple_memory())
    with pytest.raises(TypeError, match="dataset: expected a MinariDataset or an id, got int"):
        datasets.from_minari(3, simple_memory())


@pytest.mark.parametrize(
    ("space", "action_space", "text"),
    [
        (
            spaces.Box(-1, 1, (4,)),
            ACTION,
            r"observation_space: expected float32 \(4,\), got .*\(3,\)",
        ),
        (spaces.Dict(y=BOX), ACTION, r"observation_space: expected .*got float32 \(3,\)"),
        (BOX, spaces.MultiBinary(2), r"action_space: expected int8 \(2,\), got int32 \(\)"),
    ],
    ids=range(3),
)
def test_memory_of_other_spaces_is_refused(
    root: Path, space: Any, action_space: Any, text: str
) -> None:
    rem = simple_memory()
    add(rem, 3, terminated=True)
    datasets.to_minari(rem, "some-v0")
    other = cogrs.ReplayMemory.from_spaces(space, action_space, 50)
    with pytest.raises((TypeError, ValueError), match=text):
        datasets.from_minari("some-v0", other)
    assert other.num_entry == 0


def test_memory_without_room_is_refused(root: Path) -> None:
    rem = simple_memory()
    add(rem, 9, terminated=True)
    datasets.to_minari(rem, "some-v0")
    small = cogrs.ReplayMemory.from_spaces(BOX, ACTION, 9)
    with pytest.raises(ValueError, match="memory: expected max_step of at least 10, last obs"):
        datasets.from_minari("some-v0", small)


@pytest.mark.filterwarnings("ignore::UserWarning:minari")
@pytest.mark.parametrize("jpeg", [False, True])
@pytest.mark.parametrize("data_format", ["hdf5", "arrow"])
def test_sets_of_every_format_of_minari_are_read(root: Path, data_format: str, jpeg: bool) -> None:
    image = spaces.Dict(image=spaces.Box(0, 255, (40, 40, 3), np.uint8), x=spaces.Discrete(3))
    seen = {"image": np.full((4, 40, 40, 3), 128, np.uint8), "x": np.array([0, 1, 2, 0])}
    buffer = minari.data_collector.EpisodeBuffer(
        observations=seen,
        actions=np.array([2, 3, 4]),
        rewards=np.array([1.0, 2.0, 3.0]),
        terminations=np.array([False, False, True]),
        truncations=np.zeros(3, bool),
        infos={"k": np.zeros((4, 1))},
    )
    about = {"author": "a", "author_email": "b", "code_permalink": "c", "algorithm_name": "d"}
    minari.create_dataset_from_buffers(
        "theirs-v0",
        [buffer, buffer],
        observation_space=image,
        action_space=ACTION,
        data_format=data_format,
        jpeg_encoding=jpeg,
        description="e",
        requirements=[],
        **about,
    )
    rem = cogrs.ReplayMemory.from_spaces(image, ACTION, 20)
    assert datasets.from_minari("theirs-v0", rem) == (2, 6, 0)
    entries = rem.episode(1).entries
    assert entries.s["image"].tolist() == seen["image"].tolist()
    assert entries.s["x"].tolist() == [0, 1, 2, 0]
    assert entries.a[:3].tolist() == [2, 3, 4]
    assert entries.r[:3].tolist() == [1, 2, 3]


class Sampled(gymnasium.Env):
    """Shows samples of its space, for four steps."""

    action_space = spaces.Discrete(3, start=2)

    def __init__(self, space: spaces.Space[Any], *, truncates: bool) -> None:
        self.observation_space = space
        self._truncates = truncates
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, int]]:
        self._steps = 0
        return self.observation_space.sample(), {"steps": 0}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, int]]:
        self._steps += 1
        over = self._steps == 4
        ends = over and not self._truncates, over and self._truncates
        return self.observation_space.sample(), self._steps / 2, *ends, {"steps": self._steps}


def collected(
    space: spaces.Space[Any], *, truncates: bool = False, data_format: str, infos: bool
) -> Any:
    """Return what Minari's own collector makes of three episodes, the last of which is cut."""
    env = minari.DataCollector(
        Sampled(space, truncates=truncates), record_infos=infos, data_format=data_format
    )
    for steps in (4, 4, 1):
        env.reset()
        for _ in range(steps):
            env.step(env.action_space.sample())
    about = {"author": "a", "author_email": "b", "code_permalink": "c", "algorithm_name": "d"}
    return env.create_dataset("theirs-v0", description="e", requirements=[], **about)


def leaves(value: Any) -> Any:
    """Return observations with lists in the place of arrays."""
    if isinstance(value, dict):
        return {name: leaves(each) for name, each in value.items()}
    return [leaves(each) for each in value] if isinstance(value, tuple) else value.tolist()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("infos", [False, True])
@pytest.mark.parametrize("data_format", ["hdf5", "arrow"])
@pytest.mark.parametrize(
    "space",
    [
        spaces.Dict(x=BOX, n=spaces.Discrete(4, start=-2)),
        spaces.Tuple((spaces.MultiBinary(3), spaces.Dict(y=spaces.MultiDiscrete([2, 3])))),
        spaces.Box(0, 255, (16, 16), np.uint8),
    ],
    ids=["dict", "tuple", "frames"],
)
def test_sets_of_the_collector_of_minari_are_equal_in_the_memory(
    root: Path, space: spaces.Space[Any], data_format: str, infos: bool
) -> None:
    theirs = collected(space, truncates=infos, data_format=data_format, infos=infos)
    rem = cogrs.ReplayMemory.from_spaces(space, Sampled.action_space, 20)
    assert datasets.from_minari(theirs, rem, bootstrap=0.25) == (3, 9, 0)
    for number, episode in enumerate(theirs.iterate_episodes()):
        entries = rem.episode(number).entries
        steps = len(episode.actions)
        assert leaves(entries.s) == leaves(episode.observations)
        assert entries.a[:steps].tolist() == episode.actions.tolist()
        assert entries.r[:steps].tolist() == episode.rewards.tolist()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_set_with_texts_is_refused_by_the_name_of_the_space(root: Path) -> None:
    space = spaces.Dict(said=spaces.Text(5), x=BOX)
    theirs = collected(space, data_format="hdf5", infos=False)
    rem = simple_memory()
    with pytest.raises(TypeError, match=r"observation_space\['said'\]: expected Box.*got Text"):
        datasets.from_minari(theirs, rem)
    assert rem.num_entry == 0


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("lengths", [(0,), (2, 0), (2, 2)], ids=["empty", "one empty", "infos"])
def test_sets_that_minari_writes_and_cannot_read_are_named(
    root: Path, lengths: tuple[int, ...]
) -> None:
    infos = {"k": np.arange(3)} if lengths == (2, 2) else None
    buffers = [
        minari.data_collector.EpisodeBuffer(
            observations=[BOX.sample() for _ in range(steps + 1)],
            actions=[ACTION.sample() for _ in range(steps)],
            rewards=[1.0] * steps,
            terminations=[False] * steps,
            truncations=[False] * steps,
            infos=infos,
        )
        for steps in lengths
    ]
    about = {"author": "a", "author_email": "b", "code_permalink": "c", "algorithm_name": "d"}
    minari.create_dataset_from_buffers(
        "theirs-v0",
        buffers,
        observation_space=BOX,
        action_space=ACTION,
        data_format="arrow",
        description="e",
        requirements=[],
        **about,
    )
    rem = simple_memory()
    text = "episode 0: expected at least one step" if lengths == (0,) else "got 'theirs-v0'"
    with pytest.raises(ValueError, match=text):
        datasets.from_minari("theirs-v0", rem)
    assert rem.num_entry == 0


def test_broken_sets_store_nothing(root: Path) -> None:
    rem = simple_memory()
    for seed in range(2):
        add(rem, 3, seed, terminated=True)
    datasets.to_minari(rem, "broken-v0")
    path = root / "broken-v0" / "data" / "main_data.hdf5"
    again = simple_memory()
    with h5py.File(path, "a") as file:
        file["episode_1/rewards"][1] = np.nan
    with pytest.raises(ValueError, match="rewards of episode 1: expected finite numbers, got nan"):
        datasets.from_minari("broken-v0", again)
    with h5py.File(path, "a") as file:
        file["episode_1/rewards"].resize((2,))
    with pytest.raises(ValueError, match=r"observations of episode 1: expected float32 \(3, 3\)"):
        datasets.from_minari("broken-v0", again)
    with h5py.File(path, "a") as file:
        del file["episode_1/rewards"]
    with pytest.raises(ValueError, match="episode_1/rewards: expected an array in the data set"):
        datasets.from_minari("broken-v0", again)
    assert again.num_entry == 0
