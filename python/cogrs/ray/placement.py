"""Where parts are placed: by groups, and an error that says which part has no room.

Learner and shards are packed on as few nodes as hold them; actors are spread over all.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, Final

import ray
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cogrs.cluster.plan import Plan

    Bundles = Sequence[tuple[str, Mapping[str, float]]]

_STRATEGIES: Final = {"learner": "PACK", "shard": "PACK", "actor": "SPREAD"}


def place(plan: Plan, name: str, cpus: Mapping[str, float], timeout: float) -> None:
    """Reserve the room of all parts of a run, in two placement groups that outlive this program.

    Args:
        plan: The run's plan.
        name: The run's name.
        cpus: CPUs of a part, by its role.
        timeout: Seconds to wait for room.

    Raises:
        TimeoutError: There is not enough room; the text says for which parts.
    """
    parts = {
        "PACK": [("learner", 0), *(("shard", index) for index in range(plan.shards))],
        "SPREAD": [("actor", index) for index in range(plan.actors)],
    }
    bundles = {
        strategy: [(f"{role} {index}", {"CPU": cpus[role]}) for role, index in each]
        for strategy, each in parts.items()
    }
    end = time.monotonic() + timeout
    try:
        for strategy, each in bundles.items():
            group = ray.util.placement_group(
                [dict(needs) for _, needs in each],
                strategy,
                name=_group_name(name, strategy),
                lifetime="detached",
            )
            if not group.wait(max(0.0, end - time.monotonic())):
                rooms = {node["NodeManagerAddress"]: node["Resources"] for node in ray.nodes()}
                every = [bundle for each in bundles.values() for bundle in each]
                raise TimeoutError(no_room(every, rooms, timeout))
    except BaseException:
        free(name)
        raise


def free(name: str) -> None:
    """Give the room of a run back."""
    for strategy in ("PACK", "SPREAD"):
        with contextlib.suppress(ValueError):  # there is no such group
            ray.util.remove_placement_group(
                ray.util.get_placement_group(_group_name(name, strategy))
            )


def strategy_of(plan: Plan, name: str, role: str, index: int) -> Any:
    """Return Ray's scheduling strategy of a part; actors beyond the plan's go where room is."""
    if role == "actor" and index >= plan.actors:
        return "SPREAD"
    group = ray.util.get_placement_group(_group_name(name, _STRATEGIES[role]))
    bundle = index + 1 if role == "shard" else index
    return PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=bundle)


def _group_name(name: str, strategy: str) -> str:
    return f"{name}/{strategy}"


def no_room(bundles: Bundles, rooms: Mapping[str, Mapping[str, float]], timeout: float) -> str:
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
