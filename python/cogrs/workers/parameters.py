"""Parameters of a model as bytes, for publication."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from cogrs.sdk.codecs import ArrayCodec, decoded, encoded

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy.typing as npt

_SIZE = struct.Struct("<Q")
_CODEC = ArrayCodec()


def pack_arrays(arrays: Mapping[str, npt.ArrayLike]) -> bytes:
    """Return named arrays as bytes.

    Their number, then for each its name in UTF-8 and its array message (`cogrs.payload.Array`),
    each after its size; numbers and sizes have 8 bytes, the lowest first.

    Raises:
        TypeError: An array, which the text names, is not of numbers or booleans (those of
            ml_dtypes, such as bfloat16, are taken too). Nothing is pickled, ever.
    """
    pieces = [_SIZE.pack(len(arrays))]
    for name, array in arrays.items():
        for piece in (name.encode(), encoded(_CODEC, array, f"arrays[{name!r}]")):
            pieces += _SIZE.pack(len(piece)), piece
    return b"".join(pieces)


def unpack_arrays(data: bytes) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of `pack_arrays`, in the same order; they are read-only.

    Raises:
        ValueError: Other bytes; or an array is of bfloat16 or the like, and ml_dtypes is not
            installed.
    """
    count, *pieces = _pieces(data)
    names, contents = [name.decode() for name in pieces[::2]], pieces[1::2]
    if not len(names) == len(contents) == _SIZE.unpack(count)[0]:
        raise ValueError(
            f"data: expected packed arrays, got {len(pieces)} pieces that do not match"
        )
    return {
        name: decoded(_CODEC, content, f"arrays[{name!r}]").value
        for name, content in zip(names, contents, strict=True)
    }


def _pieces(data: bytes) -> Iterator[bytes]:
    yield data[: _SIZE.size].ljust(_SIZE.size, b"\xff")
    at = _SIZE.size
    while at < len(data):
        start = at + _SIZE.size
        size = _SIZE.unpack(data[at:start])[0] if start <= len(data) else 0
        at = start + size
        if at > len(data):
            raise ValueError(f"data: expected packed arrays, got bytes cut short at {len(data)}")
        yield data[start:at]
