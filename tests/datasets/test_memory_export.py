"""Memories as data sets of Minari, and data sets in memories."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cogrs
from cogrs import datasets
from tests.datasets.arrays import ACTION, BOX, add, equal, sampled, simple_memory, stacked

if TYPE_CHECKING:
    from pathlib import Path

minari = pytest.importorskip("minari")
pytest.importorskip("h5py")

DTYPES = [np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8)]
DTYPES += [np.dtype(name) for name in ("f2", "f4", "f8", "bool")]


def box(dtype: np.dtype[Any], shape: tuple[int, ...]) -> spaces.Box:
    if dtype.kind == "b":
        return spaces.Box(0, 1, shape, dtype.type)
    if dtype.kind == "f":
        return spaces.Box(-np.inf, np.inf, shape, dtype.type)
    info = np.iinfo(dtype)
    return spaces.Box(info.min, info.max, shape, dtype.type)


LEAVES = st.one_of(
    st.builds(
        box,
        st.sampled_from(DTYPES[:-1]),
        st.sampled_from([(), (1,), (3,), (2, 3), (33, 34), (84, 84, 1), (40, 40, 3)]),
    ),
    st.builds(
        lambda n, start: spaces.Discrete(n, start=start), st.integers(1, 9), st.integers(-5, 9)
    ),
    st.sampled_from(
        [
            spaces.MultiDiscrete([3, 4]),
            spaces.MultiDiscrete([[3, 4], [5, 6]], start=[[1, 2], [-3, 4]]),
            spaces.MultiDiscrete([2, 7], dtype=np.int32),
            spaces.MultiBinary(5),
            spaces.MultiBinary((2, 3)),
        ]
    ),
)
NAMES = st.lists(
    st.text("abcxyz. é-", min_size=1, max_size=4).filter(lambda name: name != "."),
    min_size=1,
    max_size=3,
    unique=True,
)
SPACES = st.recursive(
    LEAVES,
    lambda parts: st.one_of(
        st.lists(parts, min_size=1, max_size=3).map(spaces.Tuple),
        NAMES.flatmap(
            lambda names: st.tuples(*[parts] * len(names)).map(
                lambda made: spaces.Dict(dict(zip(names, made, strict=True)))
            )
        ),
    ),
    max_leaves=4,
)


@given(
    space=SPACES, action_space=SPACES, lengths=st.lists(st.integers(1, 6), min_size=1, max_size=3)
)
@settings(
    max_examples=settings.default.max_examples // 15,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_round_trips_are_equal_to_the_bit(
    root: Path, space: Any, action_space: Any, lengths: list[int]
) -> None:
    rem = cogrs.ReplayMemory.from_spaces(space, action_space, 100)
    expected = []
    for at, count in enumerate(lengths):
        seen, done = sampled(space, count + 1, at), sampled(action_space, count, at)
        rem.add_episode(
            *(stacked(space, seen[:-1]), stacked(action_space, done), np.arange(count) + 0.5),
            *(np.ones(count), np.zeros(count), np.zeros((count, 0)), 1.0),
            final_state=seen[-1],
            **({"terminated": True} if at % 2 else {"bootstrap_value": 1.5}),
        )
        expected.append((stacked(space, seen), stacked(action_space, done)))
    dataset_id = f"trip/n{len(os.listdir(root / 'trip')) if (root / 'trip').exists() else 0}-v0"
    (exported,) = datasets.to_minari(rem, dataset_id)
    assert exported == (dataset_id, root / dataset_id, len(lengths), sum(lengths), 0)
    dataset = minari.load_dataset(dataset_id)
    assert dataset.observation_space == space
    assert dataset.action_space == action_space
    for at, (episode, (seen_rows, done_rows)) in enumerate(zip(dataset, expected, strict=True)):
        assert equal(episode.observations, seen_rows)
        assert equal(episode.actions, done_rows)
        assert episode.rewards.tolist() == (np.arange(lengths[at]) + 0.5).tolist()
        last = [False] * (lengths[at] - 1)
        assert episode.terminations.tolist() == [*last, bool(at % 2)]
        assert episode.truncations.tolist() == [*last, not at % 2]
    again = cogrs.ReplayMemory.from_spaces(dataset.observation_space, dataset.action_space, 100)
    imported = datasets.from_minari(dataset, again, bootstrap=1.5)
    assert imported == (len(lengths), sum(lengths), 0)
    for at in range(len(lengths)):
        one, other = rem.episode(at), again.episode(at)
        assert equal(tuple(one.entries[:3]), tuple(other.entries[:3]))
        assert equal(one.entries.q, other.entries.q)
        assert (one.truncated, one.has_final_state) == (other.truncated, other.has_final_state)


def test_infos_hold_fields_of_entries(root: Path) -> None:
    rem = simple_memory()
    add(rem, 3, terminated=True)
    datasets.to_minari(rem, "infos-v0")
    (episode,) = minari.load_dataset("infos-v0")
    assert episode.infos["prob"].tolist() == [0.25, 0.25, 0.25, *rem.episode(0).entries.p[3:]]
    assert episode.infos["value"].tolist() == [0, 1, 2, 0]
    assert set(episode.infos) == {"prob", "value"}


def test_last_action_without_a_final_state_is_left_out_and_counted(root: Path) -> None:
    rem = simple_memory()
    seen, done = add(rem, 4, final=False, terminated=True)
    add(rem, 1, final=False)
    add(rem, 2, truncated=True)
    (exported,) = datasets.to_minari(rem, "short-v0")
    assert (exported.episodes, exported.steps, exported.left_out) == (2, 5, 2)
    first, _ = minari.load_dataset("short-v0")
    assert equal(first.observations, seen[:4])
    assert equal(first.actions, done[:3])
    assert first.terminations.tolist() == [False] * 3
    assert first.truncations.tolist() == [False, False, True]


def test_open_episodes_are_not_exported(root: Path) -> None:
    rem = simple_memory()
    add(rem, 3, terminated=True)
    rem.new_episode()
    rem.add_entry(np.zeros(3, np.float32), 2, 0.0, 1.0, 0.0, np.zeros(0), 1.0)
    assert datasets.to_minari(rem, "closed-v0")[0].episodes == 1


def test_memory_of_templates_takes_spaces(root: Path) -> None:
    scalar, empty = np.float32(0), np.zeros(0, np.float32)
    templates = (np.zeros(3, np.float32), np.int32(0), scalar, scalar, scalar, scalar, empty)
    rem = cogrs.ReplayMemory(*templates, 50)
    add(rem, 3, terminated=True)
    with pytest.raises(TypeError, match=r"observation_space: expected a space, as the memory was"):
        datasets.to_minari(rem, "made-v0")
    with pytest.raises(TypeError, match=r"action_space: expected a space, as the memory was made"):
        datasets.to_minari(rem, "made-v0", observation_space=BOX)
    datasets.to_minari(rem, "made-v0", observation_space=BOX, action_space=ACTION)
    assert minari.load_dataset("made-v0").action_space == ACTION


def test_numbers_that_the_space_would_round_are_refused(root: Path) -> None:
    scalar, empty = np.float32(0), np.zeros(0, np.float32)
    rem = cogrs.ReplayMemory(np.zeros(3), np.int64(0), *[scalar] * 4, empty, 50)
    states = np.array([[0.5, np.nan, 1.0], [0.25, np.inf, 0.1]])
    row = ([2, 2], [0, 0], [1, 1], [0, 0], np.zeros((2, 0)), 1.0)
    rem.add_episode(states, *row, final_state=states[0], terminated=True)
    given = {"observation_space": BOX, "action_space": ACTION}
    with pytest.raises(
        ValueError, match=r"observations of episode 0: expected values that float32"
    ):
        datasets.to_minari(rem, "round-v0", **given)
    rem.clear()
    rem.add_episode(states[:1], *[each[:1] for each in row[:-1]], 1.0, final_state=states[0])
    assert datasets.to_minari(rem, "round-v0", **given)[0].steps == 1


def test_loaded_memory_takes_spaces(root: Path, tmp_path: Path) -> None:
    rem = simple_memory()
    add(rem, 3, terminated=True)
    rem.save(tmp_path / "memory")
    loaded = cogrs.ReplayMemory.load(tmp_path / "memory")
    with pytest.raises(TypeError, match="made from templates or loaded from a file, got None"):
        datasets.to_minari(loaded, "loaded-v0")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            {"observation_space": spaces.Box(-1, 1, (4,))},
            r"observation_space: expected float32 \(3,\), got .* \(4,\)",
        ),
        (
            {"observation_space": spaces.Dict(x=BOX)},
            r"observation_space: expected float32 \(3,\), got Dict",
        ),
        (
            {"action_space": spaces.Discrete(2)},
            r"actions of episode 0: expected values of Discrete",
        ),
        (
            {"action_space": spaces.MultiBinary(1)},
            r"action_space: expected int32 \(\), got int8 \(1,\)",
        ),
    ],
    ids=range(4),
)
def test_spaces_that_do_not_fit_leave_nothing(root: Path, given: Any, text: str) -> None:
    rem = simple_memory()
    add(rem, 20, terminated=True)
    with pytest.raises((TypeError, ValueError), match=text):
        datasets.to_minari(rem, "name/wrong-v0", **given)
    assert list(root.iterdir()) == []


@pytest.mark.parametrize(
    ("space", "text"),
    [
        (
            spaces.Discrete(3, dtype=np.int32),
            r"expected a space that Minari keeps as it is, got Dis",
        ),
        (spaces.Dict({"a/b": BOX}), r"expected keys that can be names in an HDF5 file.*'a/b'"),
    ],
    ids=range(2),
)
def test_spaces_that_minari_would_change_are_refused(root: Path, space: Any, text: str) -> None:
    rem = cogrs.ReplayMemory.from_spaces(space, ACTION, 20)
    seen = sampled(space, 2, 0)
    row = (stacked(space, seen[:1]), [2], [0.0], [1.0], [0.0], np.zeros((1, 0)), 1.0)
    rem.add_episode(*row, final_state=seen[1])
    with pytest.raises(ValueError, match=text):
        datasets.to_minari(rem, "wrong-v0")
    assert list(root.iterdir()) == []


IDS = ["x", "x-v", "x-v0/", "/x-v0", "a/x-v0", "a//b/x-v0", "../x-v0", "data/x-v0", "x y-v0"]
IDS += ["", "é-v0", "x-v0\n", "ns/x", "n" * 201 + "-v0", "ns/data/x-v0", ".x-v0"]


@pytest.mark.parametrize("dataset_id", IDS)
def test_ids_on_which_minari_would_choke_are_refused(root: Path, dataset_id: str) -> None:
    with pytest.raises(ValueError, match="dataset_id: expected "):
        datasets.to_minari(simple_memory(), dataset_id)
    assert list(root.iterdir()) == []


def test_ids_that_are_taken_are_refused(root: Path) -> None:
    rem = simple_memory()
    add(rem, 3, terminated=True)
    datasets.to_minari(rem, "ns/deep/x-v0")
    assert list(minari.list_local_datasets()) == ["ns/deep/x-v0"]
    assert sorted(minari.namespace.list_local_namespaces()) == ["ns", "ns/deep"]
    with pytest.raises(FileExistsError, match="dataset_id: expected a new id, got 'ns/deep/x-v0'"):
        datasets.to_minari(rem, "ns/deep/x-v0")
    with pytest.raises(
        FileExistsError, match="dataset_id: expected a name space, got ns/deep/x-v0"
    ):
        datasets.to_minari(rem, "ns/deep/x-v0/y-v0")
    assert minari.load_dataset("ns/deep/x-v0").total_episodes == 1


def test_empty_memory_is_refused(root: Path) -> None:
    with pytest.raises(ValueError, match="source: expected at least one episode with an action"):
        datasets.to_minari(simple_memory(), "ns/empty-v0")
    assert list(root.iterdir()) == []


def test_failure_while_names_are_given_leaves_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rem = simple_memory()
    add(rem, 3, terminated=True)

    def fail(*_: Any) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr("cogrs.datasets.minari_files.os.rename", fail)
    with pytest.raises(OSError, match="the disk is full"):
        datasets.to_minari(rem, "ns/deep/x-v0")
    assert list(root.iterdir()) == []


def test_interrupt_leaves_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rem = simple_memory()
    add(rem, 3, terminated=True)
    draft = datasets.minari_export.DatasetDraft  # type: ignore[attr-defined]

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(draft, "finish", interrupt)
    with pytest.raises(KeyboardInterrupt):
        datasets.to_minari(rem, "x-v0")
    assert list(root.iterdir()) == []


def test_writes_during_the_export_are_an_error(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rem = simple_memory()
    for seed in range(3):
        add(rem, 3, seed, terminated=True)
    draft = datasets.minari_export.DatasetDraft  # type: ignore[attr-defined]
    whole = draft.add

    def write_too(self: Any, *episode: Any) -> None:
        whole(self, *episode)
        thread = threading.Thread(target=add, args=(rem, 2), kwargs={"terminated": True})
        thread.start()
        thread.join()

    monkeypatch.setattr(draft, "add", write_too)
    with pytest.raises(RuntimeError, match="memory: expected no writes while its episodes are"):
        datasets.to_minari(rem, "x-v0")
    assert list(root.iterdir()) == []


def test_metadata_and_environment_come_back(root: Path) -> None:
    rem = cogrs.ReplayMemory.from_env(gymnasium.make("CartPole-v1"), 50)
    row = (np.zeros((1, 4)), [1], [1.0], [1.0], [0.0], np.zeros((1, 0)), 1.0)
    rem.add_episode(*row, final_state=np.zeros(4), terminated=True)
    about = {"author": "Ada", "description": "a step", "algorithm_name": "none"}
    datasets.to_minari(rem, "cartpole/one-v3", env="CartPole-v1", **about)
    dataset = minari.load_dataset("cartpole/one-v3")
    found = dataset.storage.metadata
    assert (found["author"], found["description"]) == ({"Ada"}, "a step")
    assert dataset.recover_environment().spec.id == "CartPole-v1"
    with pytest.raises(TypeError, match=r"autor: to_minari has no such option.*'author'\?"):
        datasets.to_minari(rem, "two-v0", autor="Ada")
    with pytest.raises(TypeError, match="author: expected a string, got int"):
        datasets.to_minari(rem, "two-v0", author=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="env: expected an id, an EnvSpec or an environment, got i"):
        datasets.to_minari(rem, "two-v0", env=3)


def test_wrong_source_is_named(root: Path) -> None:
    with pytest.raises(TypeError, match="source: expected a ReplayMemory or a Store, got str"):
        datasets.to_minari("runs/trials", "x-v0")  # type: ignore[arg-type]


@pytest.mark.parametrize("package", ["minari", "h5py", "PIL"])
def test_missing_package_names_the_extra(tmp_path: Path, package: str) -> None:
    program = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "import numpy, cogrs, cogrs.datasets\n"
        "z = numpy.float32(0)\n"
        "memory = cogrs.ReplayMemory(z, z, z, z, z, z, z, 5)\n"
        "for call in (lambda: cogrs.datasets.to_minari(memory, 'x-v0'),\n"
        "             lambda: cogrs.datasets.from_minari('x-v0', memory)):\n"
        "    try: call()\n"
        "    except ImportError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "MINARI_DATASETS_PATH": str(tmp_path)},
        check=True,
    )
    assert done.stdout.count("pip install 'cogrs[minari]'") == 2


def test_names_of_the_package_import_no_minari() -> None:
    program = (
        "import sys, cogrs.datasets as d; [getattr(d, n) for n in d.__all__];"
        "sys.exit(any(name in sys.modules for name in ('minari', 'h5py', 'PIL', 'pyarrow')))"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
