"""Parameters of a model as bytes, to be published."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt


def pack_arrays(arrays: Mapping[str, npt.ArrayLike]) -> bytes:
    """Return named arrays as bytes, in NumPy's .npz format.

    Raises:
        ValueError: An array holds objects, which would have to be pickled.
    """
    buffer = io.BytesIO()
    np.savez(
        buffer, allow_pickle=False, **{name: np.asarray(each) for name, each in arrays.items()}
    )
    return buffer.getvalue()


def unpack_arrays(data: bytes) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of `pack_arrays`, in the same order.

    Raises:
        ValueError: Other bytes.
    """
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            return dict(file)
    except (OSError, EOFError, AttributeError) as error:
        raise ValueError(f"data: expected packed arrays, got {error}") from None
