"""A client's memory, made like the server's."""

from __future__ import annotations

import contextlib
import secrets
from typing import TYPE_CHECKING, Any

from cogrs._core import cache_layout, compress_cache, draw_cache, start_ids
from cogrs.api import replay_pb2 as pb
from cogrs.replay.wire import SMALL_CACHE, digest_of, memory_like

if TYPE_CHECKING:
    from collections.abc import Sequence


class SyncedMemory:
    """A memory like the server's, and the layout that the server expects of its caches."""

    def __init__(
        self,
        sizes: pb.Sizes,
        max_step: int,
        uuid: int,
        seed: int | None,
        before: SyncedMemory | None,
    ) -> None:
        """Create the memory that follows `before`, with its counts; errors as of `memory_like`."""
        self._round: int = before._round + 1 if before else 0
        if seed is not None:
            # Each memory has other draws, and two clients with other seeds never have the same.
            seed = (seed + (self._round << 32)) % (1 << 64)
        self.rem = memory_like(sizes, max_step, uuid, seed)
        self.ids = sizes.ids
        self.nstep = sizes.nstep
        # A server of an earlier version takes plain columns only.
        self._compresses = sizes.compressed_caches
        if self.ids:
            start_ids(self.rem, secrets.randbits(64))
        self.digest = digest_of(self.rem)  # of the templates
        self._layout = cache_layout(self.rem)[:2]
        self._max_frame = sizes.max_frame
        self._before = before.totals() if before else (0, 0)
        self._kept: list[tuple[pb.Cache, Sequence[Any]]] = []
        """Caches that were not sent: at most one per thread that pushes."""

    def totals(self) -> tuple[int, int]:
        """Return the episodes and steps closed in this memory and those before it."""
        episodes, steps = self._before
        return episodes + self.rem.total_episodes, steps + self.rem.total_steps

    def take_cache(self) -> tuple[pb.Cache, Sequence[Any]] | None:
        """Draw a cache, as its header and frames; None where too few entries can be drawn.

        One that was kept comes first.
        """
        # Entries that are drawn count as given: a cache is refused before, or after settings that
        # another thread has changed meanwhile.
        self.check_settings()
        with contextlib.suppress(IndexError):
            return self._kept.pop()
        pack = 0 if self._compresses else SMALL_CACHE
        drawn = draw_cache(self.rem, ids=self.ids, nstep=self.nstep, pack=pack)
        if drawn is None:
            return None
        rows, weight_sum, flags, frame_stack, frames = drawn
        self.check(flags, frame_stack, max(map(len, frames)))
        sent, compressed = compress_cache(self.rem, frames) if self._compresses else (frames, 0)
        cache = pb.Cache(
            rows=rows,
            weight_sum=weight_sum,
            template=self.digest,
            flags=flags,
            frame_stack=frame_stack,
            ids=self.ids,
            nstep=self.nstep,
            compressed=compressed,
        )
        return cache, sent

    def keep_cache(self, cache: tuple[pb.Cache, Sequence[Any]]) -> None:
        """Keep a cache that was not sent for the next call, where its entries count as given."""
        if self.rem.max_times_sampled:
            self._kept.append(cache)

    def check_settings(self) -> None:
        """Refuse caches as the present settings make them, as `check` does."""
        flags, frame_stack, row = cache_layout(self.rem, ids=self.ids, nstep=self.nstep)
        self.check(flags, frame_stack, row * self.rem.cache_size)

    def check(self, flags: int, frame_stack: int, largest: int) -> None:
        """Refuse caches of another layout than the server's, or too large: a ValueError."""
        if (flags, frame_stack) != self._layout:
            raise ValueError(
                "rem: expected the server's cache_flags and frame_stack, got others: set them at "
                "the server and call sync_sizes"
            )
        if largest > self._max_frame:
            raise ValueError(
                f"cache_size: expected frames of at most {self._max_frame} bytes, got {largest}: "
                "set cache_size at the server, before its workers start, and call sync_sizes"
            )
