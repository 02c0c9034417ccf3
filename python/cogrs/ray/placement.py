"""Where parts are placed: one group, and an error that says which part has no room."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ray

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def placed(name: str, bundles: Sequence[tuple[str, Mapping[str, float]]], timeout: float) -> Any:
    """Return a placement group with these bundles; learner and shards near each other.

    Args:
        name: The name of the group, which outlives this program.
        bundles: The name of each part, and the resources that it needs.
        timeout: Seconds to wait for room.

    Raises:
        TimeoutError: There is not enough room; the text says for which parts.
    """
    group = ray.util.placement_group(
        [dict(needs) for _, needs in bundles], "PACK", name=name, lifetime="detached"
    )
    if group.wait(timeout):
        return group
    ray.util.remove_placement_group(group)
    rooms = {each["NodeManagerAddress"]: dict(each["Resources"]) for each in ray.nodes()}
    raise TimeoutError(no_room(bundles, rooms, timeout))


def no_room(
    bundles: Sequence[tuple[str, Mapping[str, float]]],
    rooms: Mapping[str, Mapping[str, float]],
    timeout: float,
) -> str:
    """Return which bundles do not fit the nodes, each taken where there is room first."""
    left = {node: dict(room) for node, room in rooms.items()}
    missing = []
    for name, needs in bundles:
        for room in left.values():
            if all(room.get(kind, 0.0) >= amount for kind, amount in needs.items()):
                for kind, amount in needs.items():
                    room[kind] -= amount
                break
        else:
            missing.append(f"{name} needs {_text(needs)}")
    nodes = "; ".join(f"{node} has {_text(room, 'CPU', 'GPU')}" for node, room in rooms.items())
    if not missing:
        return f"no room within {timeout:g} s, for others use the nodes: {nodes}"
    return f"no room within {timeout:g} s: {', '.join(missing)}; {nodes}"


def _text(amounts: Mapping[str, float], *kinds: str) -> str:
    shown = {kind: amounts.get(kind, 0.0) for kind in kinds} if kinds else amounts
    return " and ".join(f"{amount:g} {kind}" for kind, amount in shown.items())
