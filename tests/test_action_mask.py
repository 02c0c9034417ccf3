"""Masks in the form of `Space.sample` are flattened in one order, and judge actions as it does."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cogrs.action_mask import MaskLayout, refuse_illegal

gymnasium = pytest.importorskip("gymnasium")
from gymnasium import spaces  # noqa: E402


def flat(space: Any, mask: Any) -> list[int]:
    found = MaskLayout.of(space).flatten(mask)
    assert found.dtype == np.int8
    assert found.shape == (MaskLayout.of(space).size,)
    return found.tolist()  # type: ignore[no-any-return]


def eight(*entries: int) -> Any:
    return np.array(entries, np.int8)


NESTED = spaces.Dict(
    {
        "b": spaces.Tuple((spaces.Discrete(2, start=5), spaces.Box(0, 1))),
        "a": spaces.MultiBinary(2),
        "c": spaces.MultiDiscrete([2, 3]),
    }
)

FLAT = {
    "Discrete with start": (spaces.Discrete(3, start=1), eight(1, 0, 0), [1, 0, 0]),
    "Discrete below zero": (spaces.Discrete(2, start=-4), eight(0, 1), [0, 1]),
    "MultiDiscrete": (spaces.MultiDiscrete([2, 3]), (eight(1, 0), eight(0, 1, 1)), [1, 0, 0, 1, 1]),
    "MultiDiscrete of two dimensions": (
        spaces.MultiDiscrete([[1, 2], [3, 1]]),
        ((eight(1), eight(0, 1)), (eight(1, 0, 1), eight(1))),
        [1, 0, 1, 1, 0, 1, 1],
    ),
    "MultiDiscrete in an array": (
        spaces.MultiDiscrete([[2, 2]]),
        np.array([[[1, 0], [0, 1]]]),
        [1, 0, 0, 1],
    ),
    "MultiDiscrete, flat": (spaces.MultiDiscrete([2, 3]), [1, 0, 0, 1, 1], [1, 0, 0, 1, 1]),
    "MultiDiscrete of components of one value": (spaces.MultiDiscrete([1, 1]), [0, 1], [0, 1]),
    "MultiDiscrete, a component free": (
        spaces.MultiDiscrete([2, 2]),
        (None, eight(0, 1)),
        [1, 1, 0, 1],
    ),
    "MultiBinary": (spaces.MultiBinary(4), eight(0, 1, 2, 0), [0, 1, 2, 0]),
    "MultiBinary of two dimensions": (spaces.MultiBinary((2, 2)), [[0, 1], [2, 0]], [0, 1, 2, 0]),
    "Dict": (
        NESTED,
        {"b": (eight(0, 1), None), "a": eight(2, 0), "c": (eight(1, 1), eight(0, 0, 1))},
        [2, 0, 0, 1, 1, 1, 0, 0, 1],
    ),
    "Dict, flat": (NESTED, [2, 0, 0, 7, 1, 1, 0, 0, 1], [2, 0, 0, 1, 1, 1, 0, 0, 1]),
    "Tuple with a part free": (
        spaces.Tuple((spaces.Discrete(2), spaces.MultiBinary(2))),
        (eight(0, 1), None),
        [0, 1, 2, 2],
    ),
    "nothing said": (NESTED, None, [2, 2, 1, 1, 1, 1, 1, 1, 1]),
}


@pytest.mark.parametrize("case", FLAT)
def test_masks_are_flattened_in_the_documented_order(case: str) -> None:
    space, mask, expected = FLAT[case]
    assert flat(space, mask) == expected
    layout = MaskLayout.of(space)
    assert MaskLayout.from_json(json.loads(json.dumps(asdict(layout)))) == layout


@pytest.mark.parametrize(
    "mask",
    [
        np.array([0.2, 0, 0.8]),
        np.array([0.2, -0.0, -0.8], np.float16),
        np.array([1, 0, -1], np.int8),
        np.array([256, 0, 65280], np.uint16),
        np.array([2**40, 0, 2**63], np.uint64),
        np.array([True, False, True]),
        [1, 0, 1],
        (0.5, 0, True),
        np.array([[1, 0, 1]]),
    ],
)
def test_entry_other_than_zero_is_legal(mask: Any) -> None:
    assert flat(spaces.Discrete(3), mask) == [1, 0, 1]
    assert flat(spaces.Tuple([spaces.Discrete(3)]), (mask,)) == [1, 0, 1]


@pytest.mark.parametrize(
    ("space", "mask", "kind", "said"),
    [
        (spaces.Discrete(3), [1, 0], ValueError, r"m: expected 3 entries for Discrete\(3\), got 2"),
        (spaces.Discrete(3), 1, ValueError, "expected 3 entries for .*, got a number"),
        (spaces.Discrete(1), np.int8(1), ValueError, "expected 1 entries for .*, got a number"),
        (spaces.Discrete(2), [1, np.nan], ValueError, "m: expected finite entries, got nan"),
        (spaces.Discrete(2), [0.0, -np.inf], ValueError, "m: expected finite entries, got -inf"),
        (spaces.Discrete(2), ["a", "b"], TypeError, "m: expected numbers or booleans, got <U1"),
        (spaces.Discrete(2), [1, 1j], TypeError, "expected numbers or booleans, got complex128"),
        (spaces.Discrete(2), {"a": 1}, TypeError, "expected numbers or booleans, got dict"),
        (
            spaces.Discrete(2),
            np.ma.masked_array([1, 1], [0, 1]),
            TypeError,
            "m: expected values without a mask",
        ),
        (spaces.Discrete(2), [[1], [1, 0]], ValueError, "m: expected an array of entries"),
        (spaces.MultiDiscrete([2, 3]), [1] * 6, ValueError, r"expected 5 entries for Mul.*, got 6"),
        (
            spaces.MultiDiscrete([2, 3]),
            ([1, 1], [1, 1]),
            ValueError,
            r"m\[1\]: expected 3 entries for MultiDiscrete\(\[2 3\]\), got 2",
        ),
        (
            spaces.MultiDiscrete([2, 3]),
            ([1, 1],),
            ValueError,
            r"m: expected a mask for each of 2 parts of MultiDiscrete\(\[2 3\]\), got 1",
        ),
        (
            spaces.MultiDiscrete([[2, 3]]),
            (([1, 1], [1, 0, np.nan]),),
            ValueError,
            r"m\[0\]\[1\]: expected finite entries, got nan",
        ),
        (spaces.MultiBinary(2), [0, 3], ValueError, "m: expected entries 0, 1 or 2 for .*, got 3"),
        (spaces.MultiBinary(2), [0, 0.5], ValueError, "expected entries 0, 1 or 2 for .*, got 0.5"),
        (spaces.Box(0, 1, (2,)), [1, 1], ValueError, "m: expected no mask for Box.*got one"),
        (
            spaces.Tuple([spaces.Discrete(2), spaces.Box(0, 1)]),
            ([1, 0], [1]),
            ValueError,
            r"m\[1\]: expected no mask for Box",
        ),
        (
            NESTED,
            {"a": None},
            ValueError,
            r"m: expected masks of \['a', 'b', 'c'\] for Dict.*, got \['a'\]",
        ),
        (NESTED, ([1], [1], [1]), ValueError, "m: expected a mask for each of 3 parts"),
    ],
)
def test_wrong_masks_are_refused_with_the_space(
    space: Any, mask: Any, kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said):
        MaskLayout.of(space).flatten(mask, "m")


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "int4", "uint2"])
def test_masks_of_extended_dtypes_are_taken(dtype: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    mask = np.array([1, 0, 1]).astype(getattr(ml_dtypes, dtype))
    assert flat(spaces.Discrete(3), mask) == [1, 0, 1]


def test_masks_of_tensors_are_taken_or_refused_by_name() -> None:
    torch = pytest.importorskip("torch")
    for dtype in (torch.bool, torch.int64, torch.bfloat16, torch.float32):
        assert flat(spaces.Discrete(3), torch.tensor([1, 0, 1]).to(dtype)) == [1, 0, 1]
    with pytest.raises(TypeError, match=r"m: expected an array .*requires grad: call detach\(\)"):
        MaskLayout.of(spaces.Discrete(2)).flatten(torch.ones(2, requires_grad=True), "m")


def test_flattened_mask_is_a_copy() -> None:
    given = eight(1, 0)
    found = MaskLayout.of(spaces.Discrete(2)).flatten(given)
    found[:] = 0
    assert given.tolist() == [1, 0]


def masks(space: Any) -> Any:
    """Masks as `Space.sample` takes them."""
    if isinstance(space, spaces.Discrete):
        n = int(space.n)
        return st.lists(st.integers(0, 1), min_size=n, max_size=n).map(lambda m: eight(*m))
    if isinstance(space, spaces.MultiBinary):
        size = int(np.prod(space.shape))
        drawn = st.lists(st.integers(0, 2), min_size=size, max_size=size)
        return drawn.map(lambda m: eight(*m).reshape(space.shape))
    if isinstance(space, spaces.MultiDiscrete):

        def of(nvec: Any) -> Any:
            if np.ndim(nvec) == 0:
                return masks(spaces.Discrete(int(nvec)))
            return st.tuples(*map(of, nvec))

        return of(space.nvec)
    if isinstance(space, spaces.Tuple):
        return st.tuples(*map(masks, space))
    if isinstance(space, spaces.Dict):
        return st.fixed_dictionaries({key: masks(space[key]) for key in space})
    return st.none()


LEAVES = st.one_of(
    st.builds(lambda n, start: spaces.Discrete(n, start=start), st.integers(1, 4), st.just(-2)),
    st.builds(spaces.MultiBinary, st.sampled_from([1, 3, (2, 2)])),
    st.builds(
        lambda nvec: spaces.MultiDiscrete(nvec, start=np.full(np.shape(nvec), 3)),
        st.sampled_from([[2], [1, 3], [[2, 1], [3, 2]], [[[2], [1]]]]),
    ),
    st.builds(lambda: spaces.Box(-1, 1, (2,))),
)
SPACES = st.recursive(
    LEAVES,
    lambda parts: st.one_of(
        st.lists(parts, min_size=1, max_size=3).map(spaces.Tuple),
        st.dictionaries(st.sampled_from("xyz"), parts, min_size=1).map(spaces.Dict),
    ),
    max_leaves=5,
)


@given(st.data())
def test_every_sample_of_a_mask_is_legal_in_its_own_form_and_flat(data: st.DataObject) -> None:
    space = data.draw(SPACES)
    mask = data.draw(masks(space))
    space.seed(data.draw(st.integers(0, 1000)))
    action = space.sample(mask=mask)
    refuse_illegal(space, mask, action, "a")
    layout = MaskLayout.of(space)
    if layout.size:
        refuse_illegal(space, layout.flatten(mask), action, "a")
    refuse_illegal(space, None, space.sample(), "a")


@given(st.data())
def test_action_unlike_every_sample_of_the_mask_is_refused(data: st.DataObject) -> None:
    space = data.draw(
        st.sampled_from(
            [
                spaces.Discrete(3, start=1),
                spaces.MultiDiscrete([2, 2]),
                spaces.MultiDiscrete([[2], [2]], start=[[7], [-1]]),
                spaces.MultiBinary(2),
                spaces.Tuple([spaces.Discrete(2), spaces.MultiBinary(1)]),
            ]
        )
    )
    mask, action = data.draw(masks(space)), space.sample()
    samples = {str(space.sample(mask=mask)) for _ in range(60)}
    if str(action) in samples:
        refuse_illegal(space, mask, action, "a")
    else:
        with pytest.raises(ValueError, match="a: expected a legal one of"):
            refuse_illegal(space, mask, action, "a")


@pytest.mark.parametrize(
    ("space", "mask", "action", "said"),
    [
        (spaces.Discrete(3, start=1), [1, 0, 1], 2, r"a: expected a legal one of \[1, 3\], got 2$"),
        (
            spaces.MultiDiscrete([[2, 3]], start=[[1, 1]]),
            [0, 1, 0, 1, 1],
            np.array([[2, 1]]),
            r"a: expected a legal one of \[2, 3\] at \[0, 1\], got 1$",
        ),
        (
            spaces.MultiBinary((2, 2)),
            [2, 2, 0, 2],
            np.ones((2, 2), np.int8),
            r"expected a legal one of \[0\] at \[1, 0\], got 1$",
        ),
        (
            spaces.Dict({"x": spaces.Tuple([spaces.Discrete(2)])}),
            [0, 1],
            {"x": (0,)},
            r"expected a legal one of \[1\] in 'x' in 0, got 0$",
        ),
    ],
)
def test_error_about_an_illegal_action_lists_the_legal_ones(
    space: Any, mask: Any, action: Any, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        refuse_illegal(space, mask, action, "a")
