"""Draws from the naive memory: which entries each sampler may give, and how often."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.replay.model import NaiveMemory
    from tests.replay.model_entry import NaiveEntry

WEIGHTED = ("prioritized", "stratified")
ORDERED = ("fifo", "lifo", "highest", "lowest")


def drawables(model: NaiveMemory) -> list[NaiveEntry]:
    """Entries that can be drawn whatever their weights are, oldest first."""
    entries = (episode.entries[t] for episode, t in model.drawable())
    return [entry for entry in entries if entry.base > 0]


def can_draw(model: NaiveMemory, sampler: str, size: int, weights: dict[int, float]) -> bool:
    """Whether there is a batch of this size; by the weights of the memory, which are rounded."""
    found = drawables(model)
    if sampler in WEIGHTED:
        found = [entry for entry in found if weights[entry.id] > 0]
    if sampler in ORDERED:
        return 0 < size <= len(found)
    limit = model.max_times_sampled
    return bool(found) and (not limit or sum(limit - entry.times for entry in found) >= size)


def check_order(
    model: NaiveMemory, sampler: str, drawn: list[int], weights: dict[int, float]
) -> None:
    """Compare ids that were drawn by a sampler that leaves nothing to chance."""
    ids = [entry.id for entry in drawables(model)]
    if sampler == "lifo":
        ids.reverse()
    if sampler in ("highest", "lowest"):
        # A stable sort: ties stay the oldest first.
        ids.sort(key=lambda id_: weights[id_] * (-1 if sampler == "highest" else 1))
    if sampler in ORDERED:
        assert drawn == ids[: len(drawn)]
    if sampler == "stratified" and not model.max_times_sampled:
        positions = [ids.index(id_) for id_ in drawn]
        assert positions == sorted(positions)


def count(model: NaiveMemory, drawn: list[int]) -> list[int]:
    """Count draws, and return how often each entry had been drawn with that one."""
    counts = []
    for id_ in drawn:
        found = model.find(id_)
        assert found is not None
        entry = found[0].entries[found[1]]
        entry.times += 1
        counts.append(entry.times)
    return counts
