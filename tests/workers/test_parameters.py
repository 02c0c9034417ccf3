"""Arrays as bytes and back."""

import pickle
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cogrs.workers import pack_arrays, unpack_arrays

DTYPES = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(endianness="?"),
    hnp.unsigned_integer_dtypes(endianness="?"),
    hnp.floating_dtypes(sizes=(16, 32, 64), endianness="?"),
    hnp.complex_number_dtypes(sizes=(64, 128), endianness="?"),
)
ARRAYS = hnp.arrays(DTYPES, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
NAMED = st.dictionaries(st.text(), ARRAYS, max_size=4)


@given(NAMED)
def test_packed_arrays_unpack_unchanged(arrays):
    back = unpack_arrays(pack_arrays(arrays))
    assert list(back) == list(arrays)
    for name, array in arrays.items():
        assert (back[name].dtype, back[name].shape) == (array.dtype, array.shape)
        assert back[name].tobytes() == array.tobytes()


@pytest.mark.parametrize("name", ["", "file", "allow_pickle", "a/b", "a.npy", "nul\0", "gewicht ß"])
def test_arrays_of_any_name_unpack_unchanged(name):
    back = unpack_arrays(pack_arrays({name: np.arange(3)}))
    np.testing.assert_array_equal(back[name], np.arange(3))


def test_columns_and_pieces_of_arrays():
    array = np.arange(24.0).reshape(4, 6)
    back = unpack_arrays(pack_arrays({"t": array.T, "piece": array[::2, 1::3], "list": [1, 2]}))
    np.testing.assert_array_equal(back["t"], array.T)
    np.testing.assert_array_equal(back["piece"], array[::2, 1::3])
    np.testing.assert_array_equal(back["list"], [1, 2])


@given(NAMED, st.data())
def test_truncated_bytes_are_a_value_error(arrays, data):
    packed = pack_arrays(arrays)
    cut = data.draw(st.integers(0, len(packed) - 1))
    with pytest.raises(ValueError):  # noqa: PT011
        unpack_arrays(packed[:cut])


@given(st.binary())
def test_unpacking_bytes_of_another_format_is_a_value_error(data):
    with pytest.raises(ValueError):  # noqa: PT011
        unpack_arrays(data or b"\1")


@given(NAMED, st.data())
def test_changed_byte_is_unpacked_or_a_value_error(arrays, data):
    packed = bytearray(pack_arrays(arrays))
    packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    with suppress(ValueError):
        unpack_arrays(bytes(packed))


class Trap:
    """Tells when it is unpickled."""

    sprung = 0

    def __reduce__(self):
        return Trap.spring, ()

    @staticmethod
    def spring():
        Trap.sprung += 1


def test_arrays_of_objects_are_refused_not_pickled():
    with pytest.raises(TypeError, match="numbers"):
        pack_arrays({"a": np.array([Trap()], object)})
    with pytest.raises(ValueError, match="packed arrays"):
        unpack_arrays(pickle.dumps(Trap()))
    assert Trap.sprung == 0
