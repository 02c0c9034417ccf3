"""dtypes as text, with those of ml_dtypes (bfloat16, float8, int4), which NumPy does not know.

ml_dtypes comes with JAX; it is only imported when one of its dtypes is named.
"""

from __future__ import annotations

import ast
import functools
import importlib
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from cogrs.limits import DTYPE_TEXT

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

_FLOATS = (
    "bfloat16",
    "float4_e2m1fn",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
)
EXTENDED = {
    **dict.fromkeys(_FLOATS, "f"),
    **dict.fromkeys(("int2", "int4"), "i"),
    **dict.fromkeys(("uint2", "uint4"), "u"),
}
"""The supported dtypes of ml_dtypes, with their kind in NumPy's terms: all that JAX has."""

_SHOWN = 200
"""Maximum characters of a text in a message."""

_NUMBERS = re.compile(r"[<>|=][biufc]\d{1,2}")

_ORDER = "buif"
"""Kinds in the order of 'same_kind' conversions."""


def kind_of(dtype: np.dtype[Any]) -> str:
    """Return `dtype.kind`; for dtypes of ml_dtypes "f", "i" or "u"."""
    return EXTENDED.get(dtype.name, dtype.kind) if dtype.isbuiltin == 2 else dtype.kind


def converts(given: np.dtype[Any], dtype: np.dtype[Any]) -> bool:
    """Return whether NumPy's 'same_kind' rule converts `given` to `dtype`.

    NumPy's answer is not used for ml_dtypes: it allows float to int4, but not bfloat16 to float8.
    """
    if given.isbuiltin != 2 and dtype.isbuiltin != 2:
        return np.can_cast(given, dtype, "same_kind")
    kinds = kind_of(given), kind_of(dtype)
    if kinds[1] == "c":
        return kinds[0] in _ORDER
    return all(kind in _ORDER for kind in kinds) and _ORDER.index(kinds[0]) <= _ORDER.index(
        kinds[1]
    )


def carrier_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a NumPy dtype of the same size: int8 for int4, uint8 for uint4, with the same values.

    bfloat16 becomes int16, float8 uint8.
    """
    if dtype.isbuiltin != 2:
        return dtype
    kind = "u" if dtype.itemsize == 1 and kind_of(dtype) != "i" else "i"
    return np.dtype(f"{kind}{dtype.itemsize}")


def stands_for(given: np.dtype[Any], dtype: np.dtype[Any]) -> bool:
    """Return whether an array of `given` can be filled in place of `dtype`: int8 for int4."""
    return given == carrier_of(dtype) and kind_of(dtype) != "f"


def largest_of(dtype: np.dtype[Any]) -> float:
    """Return the largest finite number of a float dtype of ml_dtypes."""
    return float(importlib.import_module("ml_dtypes").finfo(dtype).max)


def portable(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array in native byte order if the text of its dtype would not tell the order."""
    swapped = array.dtype.isbuiltin == 2 and not array.dtype.isnative
    return array.astype(array.dtype.newbyteorder("=")) if swapped else array


def holds_numbers(text: str) -> bool:
    """Return whether a text is a dtype of booleans, integers, floats or complex numbers."""
    return text in EXTENDED or _NUMBERS.fullmatch(text) is not None


def dtype_text(dtype: np.dtype[Any], name: str = "dtype") -> str:
    """Return a dtype of fixed size as text that `dtype_of` reads; errors call it `name`.

    A number is `dtype.str`, such as "<f4"; a dtype of ml_dtypes is its name, such as "bfloat16"; a
    record is the list of its fields.

    Raises:
        TypeError: The dtype has objects; it is neither NumPy's nor in `EXTENDED`; fields of a
            record overlap, or are out of order; or the text is too long.
    """
    if dtype.hasobject:
        raise TypeError(f"{name}: expected a dtype of fixed size without objects, got {dtype}")
    text = repr(_fields(dtype, name)) if dtype.names is not None else _scalar(dtype, name)
    if len(text) > DTYPE_TEXT:
        expected = f"a dtype of at most {DTYPE_TEXT} characters"
        raise TypeError(f"{name}: expected {expected}, got one of {len(text)}")
    return text


@functools.lru_cache(256)
def dtype_of(text: str, name: str = "dtype") -> np.dtype[Any]:
    """Return the dtype of a text of `dtype_text`, or of a name that NumPy knows.

    Raises:
        ValueError: The text, which errors call `name`, is not a dtype of fixed size without
            objects; or it needs ml_dtypes, which is not installed.
    """
    if len(text) > DTYPE_TEXT:
        expected = f"a dtype of at most {DTYPE_TEXT} characters"
        raise ValueError(f"{name}: expected {expected}, got one of {len(text)}")
    try:
        descr: Any = ast.literal_eval(text) if text.startswith("[") else text
        for each in _scalars(descr):
            if each in EXTENDED:
                importlib.import_module("ml_dtypes")
        dtype = np.lib.format.descr_to_dtype(descr)
        dtype_text(dtype, name)
    except ModuleNotFoundError as error:
        if error.name != "ml_dtypes":
            raise
        got = f"{text} of ml_dtypes, which is not installed: pip install ml_dtypes"
        raise ValueError(f"{name}: expected a known dtype, got {got}") from error
    except (
        # Python's parser and NumPy raise these for other texts.
        *(AttributeError, IndexError, KeyError, MemoryError, OverflowError, RecursionError),
        *(SyntaxError, TypeError, ValueError),
    ) as error:
        raise ValueError(
            f"{name}: expected a dtype that NumPy knows, got {text[:_SHOWN]}"
        ) from error
    return dtype


def _scalar(dtype: np.dtype[Any], name: str) -> str:
    if dtype.isbuiltin != 2:
        return dtype.str
    if dtype.type.__module__.partition(".")[0] != "ml_dtypes" or dtype.name not in EXTENDED:
        known = "NumPy, or one of ml_dtypes that JAX can hold"
        raise TypeError(f"{name}: expected a dtype of {known}, got {dtype}")
    if not dtype.isnative:
        raise TypeError(f"{name}: expected {dtype} in native byte order, got {dtype.str}")
    return dtype.name


def _fields(dtype: np.dtype[Any], name: str) -> list[Any]:
    """Return `dtype.descr`, with the names of dtypes of ml_dtypes."""
    try:
        described = dtype.descr
    except ValueError:
        expected = "fields that lie one after the other"
        raise TypeError(f"{name}: expected {expected}, got {dtype}") from None
    made: list[Any] = []
    for field, text, *shape in described:
        if field == "":  # bytes between fields
            made.append((field, text))
            continue
        assert dtype.fields is not None
        own = dtype.fields[field[1] if isinstance(field, tuple) else field][0].base
        where = f"{name}, field {field!r}"
        made.append((field, _fields(own, where) if own.names else _scalar(own, where), *shape))
    return made


def _scalars(descr: Any) -> Iterator[str]:
    """Yield the texts of scalar dtypes in a description."""
    if isinstance(descr, str):
        yield descr
        return
    for field in descr:
        yield from _scalars(field[1])
