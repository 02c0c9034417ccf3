"""Writes arrays and attributes to HDF5 by the low level of h5py, which takes half the time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cogrs.optional_dependency import import_optional

if TYPE_CHECKING:
    import numpy.typing as npt

_CHUNK = 1 << 20
"""Bytes of a chunk of an array at most, but at least one row."""
_KNOWN = 1_000


class _Layout(NamedTuple):
    """What HDF5 is told of arrays of one dtype and shape."""

    kind: Any
    space: Any
    options: Any


class Hdf5Writer:
    """Writes groups of arrays; those of one dtype and shape share what describes them."""

    def __init__(self) -> None:
        """Raise an ImportError if h5py is not installed."""
        self._h5py = import_optional("h5py", "data sets of Minari need h5py", "'cogrs[minari]'")
        self._layouts: dict[tuple[np.dtype[Any], tuple[int, ...]], _Layout] = {}
        self._text = self._h5py.string_dtype()
        self._text_kind = self._h5py.h5t.py_create(self._text, logical=True)
        self._one = self._h5py.h5s.create(self._h5py.h5s.SCALAR)

    def group(self, parent: Any, name: str) -> Any:
        """Create a group in another, or in a file's `id`, and return its identifier."""
        return self._h5py.h5g.create(parent, name.encode())

    def write(self, group: Any, parts: Mapping[str, Any]) -> None:
        """Write arrays, dicts and tuples of them as Minari lays them out."""
        for name, value in parts.items():
            each = value
            if isinstance(each, tuple):
                each = {f"_index_{at}": part for at, part in enumerate(each)}
            if isinstance(each, Mapping):
                self.write(self.group(group, name), each)
                continue
            array = np.ascontiguousarray(each).reshape(np.shape(each))
            layout = self._layout(array)
            made = self._h5py.h5d.create(group, name.encode(), *layout)
            if array.size:
                made.write(self._h5py.h5s.ALL, self._h5py.h5s.ALL, array, layout.kind)

    def describe(self, group: Any, attributes: Mapping[str, Any]) -> None:
        """Write texts and integers as attributes of a group.

        HDF5's texts end with a zero byte: others are written as spaces, as in the index.
        """
        for name, value in attributes.items():
            if isinstance(value, str):
                kind, kept = (
                    self._text_kind,
                    np.array(value.replace("\0", " ").encode(), self._text),
                )
            else:
                kind, kept = self._h5py.h5t.NATIVE_INT64, np.array(value, np.int64)
            self._h5py.h5a.create(group, name.encode(), kind, self._one).write(kept)

    def _layout(self, array: npt.NDArray[Any]) -> _Layout:
        key = array.dtype, array.shape
        layout = self._layouts.get(key)
        if layout is None:
            if len(self._layouts) >= _KNOWN:
                self._layouts.clear()
            layout = self._layouts[key] = self._made(array)
        return layout

    def _made(self, array: npt.NDArray[Any]) -> _Layout:
        h5py = self._h5py
        options, most = h5py.h5p.create(h5py.h5p.DATASET_CREATE), array.shape
        if array.size:
            # Minari's own data sets can grow by steps, and so can these.
            rows = max(1, min(len(array), _CHUNK // max(array[0].nbytes, 1)))
            options.set_chunk((rows, *array.shape[1:]))
            most = (h5py.h5s.UNLIMITED, *array.shape[1:])
        kind = h5py.h5t.py_create(array.dtype, logical=True)
        return _Layout(kind, h5py.h5s.create_simple(array.shape, most), options)
