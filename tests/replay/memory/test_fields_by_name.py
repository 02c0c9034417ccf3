"""Fields of entries by their long names, and ends of episodes by Gymnasium's flags."""

from functools import partial
from typing import Any

import numpy as np
import pytest

from cogrs import ReplayMemory, ReplayWriter
from tests.replay import build
from tests.replay.build import NAMES, UNIFORM, memory, vector_memory

LONG = dict(NAMES)


def both(rem: ReplayMemory) -> list[ReplayWriter]:
    return [rem, rem.writer()]


def renamed(step: dict[str, Any], letters: str = "sarpvi") -> dict[str, Any]:
    return {LONG[name] if name in letters else name: value for name, value in step.items()}


@pytest.mark.parametrize("letters", ["sarpvi", "s", "ri", ""])
@pytest.mark.parametrize("which", [0, 1])
def test_entry_by_long_names_is_the_entry_by_letters(letters: str, which: int) -> None:
    rem = memory()
    writer = both(rem)[which]
    writer.new_episode()
    writer.add_entry(**renamed(build.step(3), letters))
    writer.add_entries(**renamed(build.steps(2, 4), letters))
    writer.close_episode(**UNIFORM)
    writer.add_episode(**renamed(build.steps(2, 6), letters), **UNIFORM)
    for k, first in ((0, 3), (1, 6)):
        entries = rem.episode(k).entries
        for name in "sarpvi":
            assert getattr(entries, name).tolist() == list(range(first, first + len(entries.s)))


def test_leading_fields_by_position_and_the_others_by_name() -> None:
    rem = memory()
    rem.new_episode()
    rem.add_entry(1, 2, reward=3, prob=4, value=5, info=6, weight=1.0)
    rem.close_episode(**UNIFORM)
    assert [column.tolist() for column in rem.episode(0).entries] == [
        [1],
        [2],
        [3],
        [4],
        [5],
        [0],
        [6],
    ]


@pytest.mark.parametrize("call", ["add_entry", "add_entries", "add_episode"])
@pytest.mark.parametrize(("letter", "name"), NAMES)
def test_field_under_both_or_neither_name_is_a_type_error(
    call: str, letter: str, name: str
) -> None:
    rem = memory()
    rem.new_episode()
    step = build.step() if call == "add_entry" else build.steps(2)
    with pytest.raises(
        TypeError, match=rf"^{name}: expected only one of {letter} and {name}, got both"
    ):
        getattr(rem, call)(**step, **{name: step[letter]})
    step.pop(letter)
    with pytest.raises(TypeError, match=rf"^{name}: expected a value, got None"):
        getattr(rem, call)(**step)
    assert (rem.num_entry, rem.num_episode()) == (0, 0)


@pytest.mark.parametrize("call", ["add_entries", "add_episode"])
def test_initial_weights_of_many_have_to_be_given(call: str) -> None:
    rem = memory()
    rem.new_episode()
    steps = build.steps(2)
    steps.pop("init_w")
    with pytest.raises(TypeError, match=r"^init_w: expected a number, got None"):
        getattr(rem, call)(**steps)


def ended(rem: ReplayMemory, way: str, which: int, **end: Any) -> Any:
    writer = both(rem)[which]
    if way == "close_episode":
        writer.new_episode()
        writer.add_entries(**build.steps(3))
        writer.close_episode(**end, final_state=9)
    else:
        writer.add_episode(**build.steps(3), **end, final_state=9)
    return rem.episode(0)


@pytest.mark.parametrize("way", ["close_episode", "add_episode"])
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize(
    ("end", "same"),
    [
        ({"terminated": True}, {}),
        ({"terminated": True, "truncated": False}, {}),
        ({"terminated": np.True_, "truncated": np.True_}, {}),
        ({"terminated": 1}, {}),
        ({"truncated": True}, {"bootstrap_value": 0.0}),
        ({"terminated": np.False_, "truncated": np.True_}, {"bootstrap_value": 0.0}),
    ],
)
def test_flags_end_an_episode_as_bootstrap_values_do(
    way: str, which: int, end: Any, same: Any
) -> None:
    by_flags = ended(memory(), way, which, **end)
    by_value = ended(memory(), way, which, **same)
    assert build.described(by_flags) == build.described(by_value)
    assert by_flags.truncated == bool(same)


def test_truncated_by_a_flag_has_a_value_of_each_dimension() -> None:
    rem = vector_memory(3)
    rem.new_episode()
    rem.add_entry(0, 0, np.ones(3), 1.0, np.zeros(3), 0, 1.0)
    rem.close_episode(truncated=True)
    assert rem.episode(0).truncated
    assert rem.episode(0).entries.q.tolist() == [[1, 1, 1]]


@pytest.mark.parametrize("way", ["close_episode", "add_episode"])
@pytest.mark.parametrize(
    ("end", "error", "match"),
    [
        (
            {"terminated": True, "bootstrap_value": 1.0},
            TypeError,
            "bootstrap_value: expected only one of",
        ),
        (
            {"truncated": True, "bootstrap_value": 1.0},
            TypeError,
            "bootstrap_value: expected only one of",
        ),
        ({"terminated": False}, ValueError, "terminated, truncated: .*neither"),
        ({"truncated": False}, ValueError, "terminated, truncated: .*neither"),
        ({"terminated": False, "truncated": 0}, ValueError, "terminated, truncated: .*neither"),
        ({"terminated": 2}, ValueError, "^terminated: expected True"),
        ({"truncated": "yes"}, TypeError, "^truncated: expected True"),
    ],
)
def test_wrong_ends_are_refused_and_change_nothing(
    way: str, end: Any, error: type[Exception], match: str
) -> None:
    rem = memory()
    rem.new_episode()
    rem.add_entries(**build.steps(3))
    close = (
        rem.close_episode if way == "close_episode" else partial(rem.add_episode, **build.steps(3))
    )
    with pytest.raises(error, match=match):
        close(**end)
    assert (rem.num_episode(), rem.num_entry) == (0, 3)
    rem.close_episode(terminated=True)
    assert rem.num_episode() == 1
