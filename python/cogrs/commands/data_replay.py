"""`cogrs data replay`: stored trials in a replay memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cogrs.commands.data_options import add_verb, print_json
from cogrs.commands.parser import DONE, integer
from cogrs.escape import escaped

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from cogrs.commands.parser import Parser
    from cogrs.replay import ReplayMemory
    from cogrs.stop_signal import StopSignal
    from cogrs.store import Store, TrialRecord


def add_replay(verbs: argparse._SubParsersAction[Parser]) -> None:
    """Add the verb."""
    replay = add_verb(
        verbs, "replay", "write trials into a replay memory, and print what it holds", _replay
    )
    replay.add_argument("trial", nargs="+", metavar="ID", help="id of a trial")
    replay.add_argument(
        "--capacity",
        type=lambda text: integer(text, 1, 2**31 - 1),
        metavar="N",
        help="steps that the memory holds at most (default: all of these trials)",
    )
    replay.add_argument("--json", action="store_true", help="print JSON, one object per line")


def _replay(given: argparse.Namespace, store: Store, stop: StopSignal) -> int:
    import asyncio

    from cogrs.workers import feed_log

    records = [store.trial(each) for each in given.trial]
    memory = _memory_for(store, records, given.capacity)
    for record in records:
        if stop.is_set():
            break
        store.read(record.trial_id)  # refuses a file that was changed
        closed = asyncio.run(feed_log(memory, [store.path(record)]))
        if given.json:
            print_json({"trial_id": record.trial_id, "episodes": closed})
        else:
            print(escaped(f"{record.trial_id}  {closed} episodes"))
    episodes = [memory.episode(k) for k in range(memory.num_episode())]
    totals = [float(each.entries.r.sum()) for each in episodes]
    steps = sum(len(each.id) - each.has_final_state for each in episodes)
    if given.json:
        held = {"episodes": len(episodes), "steps": steps, "rewards": totals}
        print_json({"memory": held})
        return DONE
    print(f"the memory holds {len(episodes)} episodes, {steps} steps")
    for number, total in enumerate(totals):
        print(f"episode {number}: sum of rewards {total:.6g}")
    return DONE


def _memory_for(store: Store, records: Sequence[TrialRecord], capacity: int | None) -> ReplayMemory:
    """Return a memory for the values of the first trial.

    Raises:
        ValueError: No actor of it acted, or its values are not arrays.
    """
    import numpy as np

    from cogrs.replay import ReplayMemory
    from cogrs.workers import STEP_INFO

    first = records[0].trial_id
    for sample in store.read(first)[1]:
        for actor, action in sample.actions.items():
            if actor in sample.observations:
                state = _template(sample.observations[actor].value, first)
                number, info = np.float32(0), np.zeros((), STEP_INFO)
                steps = sum((record.ticks + 1) * len(record.classes) for record in records)
                entry = (state, _template(action, first), number, number, number, number, info)
                return ReplayMemory(*entry, capacity or steps)
    raise ValueError(f"trial {first}: expected an actor that acted, got no actions")


def _template(value: Any, trial_id: str) -> Any:
    import numpy as np

    from cogrs.nested import record_dtype

    if isinstance(value, bytes):
        raise ValueError(f"trial {trial_id}: expected arrays, got bytes of a codec of its own")
    if isinstance(value, Mapping):
        parts = {name: _template(each, trial_id) for name, each in value.items()}
        kept = {name: (each.dtype, each.shape) for name, each in parts.items()}
        return np.zeros((), record_dtype(kept))
    return np.zeros(value.shape, value.dtype)
