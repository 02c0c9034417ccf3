"""Settings that are given when a memory is created."""

from typing import Any

import numpy as np
import pytest

from cogrs import ReplayMemory
from tests.replay import build
from tests.replay.build import TEMPLATES, memory
from tests.replay.model import FIELDS

SETTINGS = {
    "priority_exponent": 0.25,
    "mix_lambda": 0.5,
    "frame_stack": 2,
    "multi_step": 3,
    "cache_size": 7,
    "max_episode": 5,
    "reuse_cache": True,
    "discount_factor": [0.75],
    "reward_coeff": [0.125],
    "cache_flags": [False] * 4 + [True] * 10,
    "fields": {"prev": "sar", "next": "s"},
    "new_priority": "max",
    "priority_epsilon": 0.5,
    "frame_padding": "zero",
    "sampler": "uniform",
    "max_times_sampled": 2,
    "remover": "lifo",
}


def made(max_step: int = 16, **settings: Any) -> ReplayMemory:
    return ReplayMemory(*(TEMPLATES[name] for name in FIELDS), max_step, **settings)


@pytest.mark.parametrize("name", SETTINGS)
def test_setting_given_by_keyword_is_the_property(name: str) -> None:
    assert getattr(made(**{name: SETTINGS[name]}), name) == SETTINGS[name]


def test_all_settings_can_be_given_by_keyword() -> None:
    given = {name: value for name, value in SETTINGS.items() if name != "fields"}
    rem = made(seed=1, uuid=5, allow_overcommit=True, **given)
    assert {name: getattr(rem, name) for name in given} == given
    assert rem.uuid == 5


def test_omitted_settings_keep_their_defaults() -> None:
    rem, plain = made(frame_stack=3), made()
    assert rem.frame_stack == 3
    for name in set(SETTINGS) - {"frame_stack"}:
        assert getattr(rem, name) == getattr(plain, name)


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("priority_exponent", -1.0, ValueError),
        ("priority_exponent", "1", TypeError),
        ("mix_lambda", 1.5, ValueError),
        ("frame_stack", 0, ValueError),
        ("frame_stack", 1.5, TypeError),
        ("multi_step", 0, ValueError),
        ("cache_size", None, TypeError),
        ("max_episode", -1, ValueError),
        ("reuse_cache", 2, ValueError),
        ("discount_factor", [0.5, 0.5], ValueError),
        ("reward_coeff", np.nan, ValueError),
        ("cache_flags", [2], ValueError),
        ("fields", {"prev": "x", "next": "s"}, ValueError),
        ("new_priority", "least", ValueError),
        ("priority_epsilon", np.inf, ValueError),
        ("frame_padding", "some", ValueError),
        ("sampler", "best", ValueError),
        ("max_times_sampled", -1, ValueError),
        ("remover", "best", ValueError),
        ("max_steps", 3, TypeError),
    ],
)
def test_wrong_setting_is_refused_by_name_as_its_property_is(
    name: str, value: Any, error: type[Exception]
) -> None:
    # Even beside a size that exceeds all memory: nothing is reserved before.
    with pytest.raises(error, match=rf"^{name}(\[.*\])?: expected") as caught:
        made(1 << 40, **{"multi_step": 2, "cache_size": 4} | {name: value})
    if hasattr(ReplayMemory, name):
        with pytest.raises(error) as property_error:
            setattr(made(), name, value)
        assert str(property_error.value).split(", got")[0] in str(caught.value)


def test_both_forms_of_the_flags_are_a_type_error() -> None:
    with pytest.raises(
        TypeError, match=r"^fields: expected only one of fields and cache_flags, got both"
    ):
        made(cache_flags=[True], fields={"prev": "s", "next": "s"})


def test_settings_at_construction_draw_like_settings_set_afterwards() -> None:
    settings = {
        name: SETTINGS[name] for name in ("frame_stack", "multi_step", "new_priority", "fields")
    }
    memories = [made(seed=3, **settings), memory(seed=3, **settings)]
    for rem in memories:
        build.add_uniform(rem, 9)
    one, other = (rem.sample(32) for rem in memories)
    assert one.id.tolist() == other.id.tolist()
    assert one.prev.s.tolist() == other.prev.s.tolist()


ALL = "sarpvqi"
LONG = ["state", "action", "reward", "prob", "value", "qvest", "info"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"prev": "sarp", "next": "s"}, {"prev": "sarp", "next": "s"}),
        ({"prev": "pras", "next": ""}, {"prev": "sarp", "next": ""}),
        ({"next": ALL, "prev": LONG}, {"prev": ALL, "next": ALL}),
        ({"prev": ("s", "reward"), "next": ["info"]}, {"prev": "sr", "next": "i"}),
    ],
)
def test_fields_by_names_are_the_flags(given: Any, expected: dict[str, str]) -> None:
    rem = memory(fields=given)
    assert rem.fields == expected
    assert rem.cache_flags == [name in expected[end] for end in ("prev", "next") for name in ALL]
    build.add_uniform(rem, 5)
    sample = rem.sample(4)
    for end in ("prev", "next"):
        held = [name for name in ALL if len(getattr(getattr(sample, end), name))]
        assert held == list(expected[end])


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        ({"prev": "s"}, ValueError, 'fields: .*no "next"'),
        ({"prev": "s", "next": "s", "last": "s"}, ValueError, "fields: expected a dict"),
        ({"prev": "ss", "next": "s"}, ValueError, r"fields\[.prev.\]: expected each field once"),
        ({"prev": "s", "next": ["states"]}, ValueError, r"fields\[.next.\]: .*states"),
        ({"prev": [1], "next": "s"}, TypeError, r"fields\[.prev.\]: expected letters"),
        ({"prev": None, "next": "s"}, TypeError, r"fields\[.prev.\]: expected letters"),
        ("sarp", TypeError, "fields: expected a dict .*got str"),
    ],
)
def test_fields_that_are_wrong_are_refused_and_change_nothing(
    given: Any, error: type[Exception], match: str
) -> None:
    rem = memory(fields={"prev": "sa", "next": "s"})
    with pytest.raises(error, match=match):
        rem.fields = given
    assert rem.fields == {"prev": "sa", "next": "s"}
