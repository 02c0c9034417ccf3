"""Which shard each actor tells its totals to, and waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def homes(actors: Iterable[int], shards: int) -> dict[int, int]:
    """Return the home of each actor, by their indices.

    Actor i is at home at shard i modulo the number of shards. A shard at which nobody is at home
    would never let its samples go, by its rate limiter: it gets the last actor of the shard with
    most.
    """
    at_home: dict[int, list[int]] = {shard: [] for shard in range(shards)}
    for actor in sorted(actors):
        at_home[actor % shards].append(actor)
    for shard in range(shards):
        fullest = max(at_home, key=lambda each: (len(at_home[each]), -each))
        if not at_home[shard] and len(at_home[fullest]) > 1:
            at_home[shard].append(at_home[fullest].pop())
    return {actor: shard for shard, those in at_home.items() for actor in those}
