"""A server's state in a file: the caches that it holds, and what clients have told.

The file is a magic line, the size of a header in 8 bytes, the header in JSON, the frames of all
caches in their order, and a CRC-32 of all that. It is written beside the old one and then takes its
place, so a crash or a full disk leaves the old one as it was. All of a file is checked before
anything of it is restored.
"""

from __future__ import annotations

import json
import os
import zlib
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

from cogrs.files import replacing
from cogrs.validation import check_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cogrs._core import CacheFrames
    from cogrs.replay.serving.server_state import ServerState

_MAGIC = b"cogrs server 1\n"
_SIZE, _SUM = 8, 4
"""Bytes of the header's size, and of the checksum."""

_Caches: TypeAlias = "Iterator[tuple[int, float, int, int, list[bytes]]]"
_Held: TypeAlias = "list[tuple[int, float, int, int, CacheFrames]]"


def save_server(state: ServerState, path: str | os.PathLike[str]) -> None:
    """See `ReplayMemoryServer.save`."""
    where = check_path("path", path)
    told = state.told()
    # Last, so that no limiter counts rows that the file has not.
    caches, stats = state.caches.held()
    _, _, _, given, discarded, _, _, received, others, clients = stats
    told["store"] = [given, discarded, received, others, list(clients.items())]
    told["caches"] = [
        [rows, weight_sum, sender, following, frames.sizes()]
        for rows, weight_sum, sender, following, frames in caches
    ]
    header = json.dumps(told).encode()
    with replacing(where) as file:
        _write(file, (_MAGIC, len(header).to_bytes(_SIZE, "little"), header), _let_go(caches))


def restore_server(state: ServerState, path: str | os.PathLike[str]) -> None:
    """See `ReplayMemoryServer.restore`."""
    where = check_path("path", path)
    with open(where, "rb") as file:
        try:
            told, caches = _read(file, os.fstat(file.fileno()).st_size)
            state.resume(told, caches)
        except (TypeError, ValueError, KeyError, IndexError, RecursionError) as error:
            raise ValueError(f"{where}: {error}") from None


def _let_go(caches: _Held) -> Iterator[bytes]:
    """Yield the frames of caches, one at a time: all may be more than memory has room for.

    A cache is let go when it is written. Those that come meanwhile take the place of others, which
    would all stay otherwise.
    """
    caches.reverse()
    while caches:
        *_, frames = caches.pop()
        yield from map(frames.__getitem__, range(len(frames)))


def _write(file: BinaryIO, *parts: Iterable[bytes]) -> None:
    checksum = 0
    for each in parts:
        for piece in each:
            file.write(piece)
            checksum = zlib.crc32(piece, checksum)
    file.write(checksum.to_bytes(_SUM, "little"))


def _read(file: BinaryIO, size: int) -> tuple[dict[str, Any], _Caches]:
    if file.read(len(_MAGIC)) != _MAGIC:
        raise ValueError("expected a checkpoint of a server")
    # The checksum first: sizes are only then those that were written.
    checksum = zlib.crc32(_MAGIC)
    left = size - len(_MAGIC) - _SUM
    while left > 0 and (piece := file.read(min(left, 1 << 20))):
        checksum, left = zlib.crc32(piece, checksum), left - len(piece)
    if left != 0 or file.read(_SUM) != checksum.to_bytes(_SUM, "little"):
        raise ValueError("expected a whole checkpoint, got one that is damaged or cut short")
    file.seek(len(_MAGIC))
    header = file.read(int.from_bytes(file.read(_SIZE), "little"))
    told = json.loads(header)
    # All may be more than memory has room for, so they are read as they are taken.
    caches = (
        (rows, weight_sum, sender, following, [file.read(length) for length in lengths])
        for rows, weight_sum, sender, following, lengths in told.pop("caches")
    )
    return told, caches
