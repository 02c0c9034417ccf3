"""Batches, which are named tuples of arrays, converted array by array for other libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cogrs.nested import is_container
from cogrs.replay.entry import Entry

if TYPE_CHECKING:
    from collections.abc import Callable

_LONG = dict(
    zip(Entry._fields, ("state", "action", "reward", "prob", "value", "qvest", "info"), strict=True)
)
ADVICE = (
    "set it to None before, as in batch._replace(prev=batch.prev._replace(i=None)), "
    "or leave it out of samples with cache_flags"
)
"""The hint for a field that a library cannot take."""


def replace_arrays(
    batch: Any,
    take: Callable[[str, Any], Any],
    name: str = "",
    kind: type | tuple[type, ...] = np.ndarray,
) -> Any:
    """Return a named tuple of the same type with `take(name, array)` for each array, or `kind`.

    Nested named tuples are converted likewise; a dict or plain tuple of arrays is passed to `take`
    as a whole. Members of type None, bool or int stay. Names are as in `prev.state`.

    Raises:
        TypeError: A member has another type.
    """
    if isinstance(batch, kind) or (name and is_container(batch, kind)):
        return take(name, batch)
    if batch is None or isinstance(batch, (bool, int)):
        return batch
    if not (isinstance(batch, tuple) and hasattr(batch, "_fields")):
        expected = "a named tuple of arrays" if not name else "an array, a named tuple or None"
        raise TypeError(f"{name or 'batch'}: expected {expected}, got {type(batch).__name__}")
    long = _LONG if isinstance(batch, Entry) else {}
    made = (
        replace_arrays(member, take, f"{name}.{long.get(field, field)}".lstrip("."), kind)
        for field, member in zip(batch._fields, batch, strict=True)
    )
    return type(batch)(*made)


def by_field(name: str, value: Any, take: Callable[[str, Any], Any]) -> Any:
    """Return `take(name, array)` of an array, or a dict or tuple of the results for many arrays.

    Args:
        name: Its name in errors; fields are named as `prev.state.image`.
        value: An array; an array of records, which becomes a dict by field, nested as the records
            are; or a dict or tuple of arrays.
        take: Converts an array.
    """
    if isinstance(value, dict):
        return {key: by_field(f"{name}.{key}", part, take) for key, part in value.items()}
    if isinstance(value, tuple):
        return tuple(by_field(f"{name}[{at}]", part, take) for at, part in enumerate(value))
    if not isinstance(value, np.ndarray) or value.dtype.names is None:
        return take(name, value)
    return {field: by_field(f"{name}.{field}", value[field], take) for field in value.dtype.names}
