"""Dicts and tuples of arrays as arrays of records, and back.

Each field of such records has a title that says what it was. Titles are part of a dtype, so files
and messages keep them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

_KEY = "cogrs.dict:"
_ITEM = "cogrs.tuple:"


def record_dtype(
    parts: Mapping[str, tuple[np.dtype[Any], tuple[int, ...]]], *, of_tuple: bool = False
) -> np.dtype[Any]:
    """Return the dtype of records that represent a dict or a tuple.

    Args:
        parts: dtype and shape of each part; those of a tuple by their positions as text, in order.
        of_tuple: Whether `apart` returns a tuple.
    """
    mark = _ITEM if of_tuple else _KEY
    fields = [((mark + name, name), dtype, shape) for name, (dtype, shape) in parts.items()]
    # Aligned, so that tensors of PyTorch can share the memory of each field.
    return np.dtype(fields, align=True)


def _represents(dtype: np.dtype[Any], mark: str) -> bool:
    fields: Mapping[str, Any] = dtype.fields or {}
    # dtype, offset, and a title where there is one.
    return bool(fields) and all(fields[name][2:] == (mark + name,) for name in dtype.names or ())


def apart(array: npt.NDArray[Any]) -> Any:
    """Return the dict or tuple of views that an array of records represents, nested as it was.

    Any other array is returned as it is.
    """
    names = array.dtype.names or ()
    if _represents(array.dtype, _KEY):
        return {name: apart(array[name]) for name in names}
    if _represents(array.dtype, _ITEM):
        return tuple(apart(array[name]) for name in names)
    return array


def is_container(value: Any, kind: type | tuple[type, ...] = np.ndarray) -> bool:
    """Return whether `value` is a dict or tuple as `apart` returns them, of arrays or another kind.

    Subclasses, such as named tuples, are not.
    """
    if type(value) not in (dict, tuple) or not value:
        return False
    parts = value.values() if isinstance(value, dict) else value
    return all(isinstance(part, kind) or is_container(part, kind) for part in parts)


def record_of(value: Any) -> npt.NDArray[Any] | None:
    """Return the array of records of which `apart` made `value`, or None."""
    base = next(_leaves(value)).base
    return base if isinstance(base, np.ndarray) and _same_parts(value, apart(base)) else None


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (dict, tuple)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _leaves(part)
    else:
        yield value


def _same_parts(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and list(one) == list(other)
            and all(_same_parts(one[name], other[name]) for name in one)
        )
    if type(one) is tuple:
        same = type(other) is tuple and len(one) == len(other)
        return same and all(map(_same_parts, one, other))
    if not (isinstance(one, np.ndarray) and isinstance(other, np.ndarray)):
        return False
    where = [
        (each.__array_interface__["data"][0], each.shape, each.strides, each.dtype)
        for each in (one, other)
    ]
    return where[0] == where[1]


def length(dtype: np.dtype[Any], value: Any) -> int:
    """Return the length of a value from which `fill` fills an array of records."""
    names = dtype.names or ()
    if isinstance(value, Mapping) and names:
        if names[0] not in value:
            # `fill` reports which names are wrong.
            return len(next(iter(value.values()), ()))
        return length(dtype[names[0]].base, value[names[0]])
    if isinstance(value, (tuple, list)) and value and _represents(dtype, _ITEM):
        return length(dtype[names[0]].base, value[0])
    return len(value)


def fill(
    name: str,
    target: npt.NDArray[Any],
    value: Any,
    convert: Callable[[str, Any, np.dtype[Any], tuple[int, ...]], npt.NDArray[Any]],
) -> bool:
    """Fill an array of records from a mapping by names, or from a tuple by positions.

    Args:
        name: The value's name in errors.
        target: The array, of one record or many.
        value: Mappings and tuples, nested as the records are, of arrays with the target's shape.
        convert: Converts each part to a dtype and a shape, or refuses it.

    Returns:
        Whether `value` is a mapping or tuple as the records need it; if not, nothing was filled.

    Raises:
        ValueError: The names, or their number, differ.
        Exception: What `convert` raises.
    """
    names = target.dtype.names or ()
    of_tuple = _represents(target.dtype, _ITEM)
    if isinstance(value, Mapping) and not of_tuple:
        if set(value) != set(names):
            got = ", ".join(map(str, value))
            raise ValueError(f"{name}: expected {', '.join(names) or 'an array'}, got {got}")
        parts = [(f"{name}[{field!r}]", field, value[field]) for field in names]
    elif isinstance(value, (tuple, list)) and of_tuple:
        if len(value) != len(names):
            raise ValueError(f"{name}: expected {len(names)} parts, got {len(value)}")
        given = enumerate(zip(names, value, strict=True))
        parts = [(f"{name}[{at}]", field, part) for at, (field, part) in given]
    else:
        return False
    for where, field, part in parts:
        room = target[field]
        # Of a single record, a field without dimensions is a scalar instead of an array.
        target[field] = convert(where, part, target.dtype[field].base, np.shape(room))
    return True
