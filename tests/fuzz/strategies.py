"""Strategies for input of any kind: values, changed values and changed bytes."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable

LARGEST = [0, 1, -1, 2**31, 2**32 - 1, 2**62, 2**63, 2**64, 10**400]
DTYPES = [
    "<f4",
    "|u1",
    "|b1",
    "<i8",
    "<f99",
    "|S2000000000",
    "<U9",
    "|O",
    "bfloat16",
    "",
    "[(",
    "x.Y",
]


def values() -> st.SearchStrategy[Any]:
    """What JSON and YAML have."""
    leaves = st.one_of(
        st.none(),
        st.booleans(),
        st.sampled_from(LARGEST),
        st.floats(),
        st.text(max_size=8),
        st.sampled_from([*DTYPES, "a", "client", "local://x", "cogrs.payload.Array", "grpc"]),
    )
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
        max_leaves=8,
    )


def places(sound: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return where the parts of a value are, its own place first."""
    items: Any = ()
    if isinstance(sound, dict):
        items = sound.items()
    elif isinstance(sound, list):
        items = enumerate(sound)
    return [above, *(each for key, part in items for each in places(part, (*above, key)))]


def changed(sound: Any) -> st.SearchStrategy[Any]:
    """A value like a sound one, some parts of which are something else, or missing."""
    found = places(sound)
    change = st.tuples(st.sampled_from(found), st.integers(0, 3), values())

    def apply(changes: list[tuple[tuple[Any, ...], int, Any]]) -> Any:
        made = copy.deepcopy(sound)
        for place, kind, value in changes:
            if not place:
                if kind == 0:
                    return value
                continue
            owner = made
            try:
                for key in place[:-1]:
                    owner = owner[key]
                if kind == 0:
                    del owner[place[-1]]
                else:
                    owner[place[-1]] = value
            except (IndexError, KeyError, TypeError):
                continue  # what was there has been replaced
        return made

    return st.lists(change, max_size=3).map(apply)


def bytes_like(sound: bytes) -> st.SearchStrategy[bytes]:
    """Bytes like sound ones, some of which are others, missing or there twice."""
    spot = st.tuples(
        st.integers(0, max(len(sound) - 1, 0)), st.integers(0, 3), st.binary(max_size=9)
    )

    def change(spots: list[tuple[int, int, bytes]]) -> bytes:
        made = sound
        for at, kind, more in spots:
            cut = (0, 1, len(more), 40)[kind]
            made = made[:at] + more + made[at + cut :]
        return made

    return st.lists(spot, max_size=6).map(change)


def bounded(call: Callable[[], Any], *allowed: type[Exception]) -> Any:
    """Return what a call makes; it may be refused, by a short error of a documented type."""
    try:
        return call()
    except allowed as error:
        text = str(error)
    assert len(text) < 5000
    return None
