"""Pictures of environments, compressed for pages."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

from cogrs.optional_dependency import import_optional
from cogrs.web.wire import JPEG, PNG, pack_frame

if TYPE_CHECKING:
    import numpy.typing as npt

_LARGE = 60_000
"""Bytes of a PNG above which the next pictures are JPEG: photographs, and noise."""
_QUALITY = 85
_SIGNATURES = {PNG: b"\x89PNG\r\n\x1a\n", JPEG: b"\xff\xd8\xff"}


class PictureEncoder:
    """Encodes arrays as PNG, or as JPEG once a PNG was large."""

    def __init__(self) -> None:
        """Create an encoder, which tries PNG first.

        Raises:
            ImportError: Pillow is not installed.
        """
        self._image: Any = import_optional("PIL.Image", "pictures need Pillow", "cogrs[web]")
        self._photographic = False

    def encode(self, tick: int, pixels: npt.NDArray[Any]) -> bytes:
        """Return the binary message of a picture.

        Args:
            tick: The tick that it shows.
            pixels: uint8, (height, width, 3), (height, width, 4), or (height, width) of greys; or
                what `compress` returned.

        Raises:
            ValueError: An array of another dtype or shape.
        """
        kind = _kind_of(pixels)
        if kind is None:
            pixels = self.compress(pixels)
            kind = _kind_of(pixels)
            assert kind is not None
        return pack_frame(kind, tick, pixels.tobytes())

    def compress(self, pixels: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
        """Return a picture as the bytes of a PNG or JPEG file, uint8, of one dimension.

        Args:
            pixels: uint8, (height, width, 3), (height, width, 4), or (height, width) of greys.

        Raises:
            ValueError: An array of another dtype or shape.
        """
        if not _is_pixels(pixels):
            got = f"{pixels.dtype} {pixels.shape}"
            raise ValueError(f"render: expected uint8 (height, width, 3), got {got}")
        image = self._image.fromarray(np.ascontiguousarray(pixels))
        out = io.BytesIO()
        if self._photographic:
            image.convert("RGB").save(out, "JPEG", quality=_QUALITY)
        else:
            image.save(out, "PNG", compress_level=1)
            self._photographic = out.tell() > _LARGE
        return np.frombuffer(out.getvalue(), np.uint8)


def is_picture(array: npt.NDArray[Any]) -> bool:
    """Return whether `PictureEncoder.encode` takes an array."""
    return _kind_of(array) is not None or _is_pixels(array)


def _is_pixels(array: npt.NDArray[Any]) -> bool:
    colours = array.ndim == 3 and array.shape[2] in (3, 4)
    return array.dtype == np.uint8 and array.size > 0 and (array.ndim == 2 or colours)


def _kind_of(pixels: npt.NDArray[Any]) -> int | None:
    """Return the kind of a picture that is compressed; None for other arrays."""
    if pixels.ndim != 1 or pixels.dtype != np.uint8:
        return None
    start = pixels[:8].tobytes()
    return next((kind for kind, each in _SIGNATURES.items() if start.startswith(each)), None)


def compress_frame(pixels: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Return a frame as the bytes of a PNG file, or of a JPEG file if the PNG would be large.

    For `encode_frame` of environments, so that logs of trials do not grow by a frame per tick.

    Args:
        pixels: uint8, (height, width, 3), (height, width, 4), or (height, width) of greys.

    Returns:
        uint8, of one dimension; pages show it as they show the frame.

    Raises:
        ImportError: Pillow is not installed.
        ValueError: An array of another dtype or shape.
    """
    encoder = PictureEncoder()
    picture = encoder.compress(pixels)
    return encoder.compress(pixels) if picture.nbytes > _LARGE else picture


def summarize(value: Any) -> dict[str, Any]:
    """Return an observation as names and rounded numbers, the first few of each part."""
    if isinstance(value, dict):
        found: dict[str, Any] = {}
        for name, part in list(value.items())[:_MOST_PARTS]:
            for below, numbers in summarize(part).items():
                found[f"{name}.{below}" if below else str(name)] = numbers
        return found
    if isinstance(value, bytes):
        return {"": [f"{len(value)} bytes"]}
    array = np.asarray(value).ravel()
    numbers = [_rounded(each) for each in array[:_MOST_NUMBERS].tolist()]
    return {"": numbers if array.size <= _MOST_NUMBERS else [*numbers, "..."]}


_MOST_PARTS = 32
_MOST_NUMBERS = 16
_LONGEST_TEXT = 60


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}") if np.isfinite(value) else str(value)
    return value if isinstance(value, int | bool) else str(value)[:_LONGEST_TEXT]
