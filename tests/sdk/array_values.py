"""Values that `ArrayCodec` carries: arrays, and mappings of arrays."""

from __future__ import annotations

from typing import Any

import hypothesis.extra.numpy as st_numpy
import hypothesis.strategies as st
import numpy as np

DTYPES = st.one_of(
    st_numpy.boolean_dtypes(),
    st_numpy.integer_dtypes(endianness="?"),
    st_numpy.unsigned_integer_dtypes(endianness="?"),
    st_numpy.floating_dtypes(endianness="?", sizes=(16, 32, 64)),
    st_numpy.complex_number_dtypes(endianness="?", sizes=(64, 128)),
)
ARRAYS = st_numpy.arrays(
    DTYPES, st_numpy.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=4)
)
NAMED = st.recursive(
    ARRAYS,
    lambda inner: st.dictionaries(st.text(max_size=5), inner, min_size=1, max_size=3),
    max_leaves=6,
)


def assert_same(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, dict):
        assert list(ours) == list(theirs)
        for name, value in theirs.items():
            assert_same(ours[name], value)
    else:
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
