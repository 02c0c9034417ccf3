"""Members of batches, one after the other: what handing them to other libraries has in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cogrs.replay.batch import Entry

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

_LONG = dict(
    zip(Entry._fields, ("state", "action", "reward", "prob", "value", "qvest", "info"), strict=True)
)
ADVICE = (
    "set it to None before, as in batch._replace(prev=batch.prev._replace(i=None)), "
    "or leave it out of samples with cache_flags"
)
"""What to do with a field that a library cannot take."""


def replace_arrays(
    batch: Any,
    take: Callable[[str, Any], Any],
    name: str = "",
    kind: type | tuple[type, ...] = np.ndarray,
) -> Any:
    """Make a named tuple of the same type with `take(name, array)` for each array, or other `kind`.

    Named tuples in it are gone through too. Members that are None, a bool or an int stay. Names are
    those of errors: `prev.state`.

    Raises:
        TypeError: A member is something else.
    """
    if isinstance(batch, kind):
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


def by_field(name: str, array: npt.NDArray[Any], take: Callable[[str, Any], Any]) -> Any:
    """Return `take(name, array)`, or for an array of records a dict of that for each field.

    Fields of records in records are dicts in turn; names are those of errors: `prev.state.image`.
    """
    if array.dtype.names is None:
        return take(name, array)
    return {field: by_field(f"{name}.{field}", array[field], take) for field in array.dtype.names}
