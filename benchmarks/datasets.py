"""Data sets: export to Minari beside its own write of ready arrays, and import.

`python benchmarks/datasets.py` writes below a folder of its own, which it removes.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

import cogrs
from cogrs import datasets, sdk
from cogrs.api.common_pb2 import RewardSource, TrialParams
from cogrs.space_json import ActorSpaces, actor_spaces_to_json
from cogrs.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable

EPISODES, STEPS = 500, 200
IMPORTED = 1_000_000
REPEATS = 3
SPACES = ActorSpaces(spaces.Box(-10, 10, (4,)), spaces.Discrete(2))


def timed(*calls: Callable[[int], Any]) -> list[float]:
    """Return the fewest seconds of each call, made in turn a few times with the round's number."""
    taken: list[list[float]] = [[] for _ in calls]
    for number in range(REPEATS):
        for call, seconds in zip(calls, taken, strict=True):
            begin = time.perf_counter()
            call(number)
            seconds.append(time.perf_counter() - begin)
    return [min(seconds) for seconds in taken]


def ready_arrays() -> list[Any]:
    """Return the episodes as Minari takes them, with infos like those of trials."""
    from minari.data_collector import EpisodeBuffer

    rng, rows = np.random.default_rng(0), STEPS + 1
    ends = np.zeros(STEPS, bool)
    infos = {
        "tick": np.arange(rows),
        "acted": np.ones(rows, bool),
        "reward_environment": np.ones(rows),
        "reward_people": np.zeros(rows),
        "confidence": np.ones(rows),
        "timestamp": np.arange(rows),
    }
    return [
        EpisodeBuffer(
            observations=rng.random((rows, 4), np.float32),
            actions=rng.integers(0, 2, STEPS),
            rewards=np.ones(STEPS),
            terminations=ends,
            truncations=ends,
            infos=infos,
        )
        for _ in range(EPISODES)
    ]


def write_by_minari(buffers: list[Any], number: int) -> None:
    """Write ready arrays as Minari does by itself, and its metadata of episodes."""
    import minari

    dataset = minari.create_dataset_from_buffers(
        f"theirs-{number}-v0",
        buffers,
        observation_space=SPACES.observation,
        action_space=SPACES.action,
        jpeg_encoding=False,
        algorithm_name="none",
        author="none",
        author_email="none",
        code_permalink="none",
        description="none",
        requirements=[],
    )
    about = {"trial_id": "t", "actor": "player", "actor_class": "p", "user": "u"}
    dataset.storage.update_episode_metadata([about] * len(buffers))


def filled_memory(buffers: list[Any]) -> cogrs.ReplayMemory:
    """Return a memory of the episodes."""
    memory = cogrs.ReplayMemory.from_spaces(*SPACES, EPISODES * (STEPS + 1))
    ones, zeros, empty = np.ones(STEPS), np.zeros(STEPS), np.zeros((STEPS, 0))
    for each in buffers:
        seen = each.observations
        row = (seen[:-1], each.actions, each.rewards, ones, zeros, empty, 1.0)
        memory.add_episode(*row, final_state=seen[-1], truncated=True)
    return memory


def write_trials(store: Any, folder: Path, buffers: list[Any]) -> None:
    """Store the episodes as trials."""
    params = TrialParams()
    params.actors.add(name="player", actor_class="p", endpoint="grpc://agents:9000")
    actors = (sdk.Actor("player", "p"),)
    told = actor_spaces_to_json({"player": SPACES})
    source = RewardSource(sender_name="env", value=1.0, confidence=1.0)
    for number, each in enumerate(buffers):
        trial = f"trial-{number}"
        sink = sdk.ParquetSink(folder)
        sink.start(sdk.LoggedTrial(trial, actors, params, told))
        for tick, seen in enumerate(each.observations):
            last = tick == STEPS
            given = (sdk.ReceivedReward(tick, 1.0, (source,)),) if tick else ()
            sink.sample(
                sdk.Sample(
                    tick,
                    {"player": sdk.Observation(tick, seen, timestamp=tick + 1)},
                    {} if last else {"player": each.actions[tick]},
                    {"player": given},
                    end_reason="done" if last else "",
                )
            )
        sink.end()
        store.add(folder / f"{trial}.parquet")


def import_arrays() -> float:
    """Return the seconds of an import of flat arrays, of HalfCheetah's sizes."""
    rng = np.random.default_rng(0)
    k = np.arange(IMPORTED)
    arrays = {
        "observations": rng.random((IMPORTED, 17), np.float32),
        "actions": rng.random((IMPORTED, 6), np.float32),
        "rewards": rng.random(IMPORTED, np.float32),
        "terminals": np.zeros(IMPORTED, bool),
        "timeouts": k % 1000 == 999,
    }
    memory = cheetah_memory()
    return timed(lambda _: datasets.from_arrays(arrays, memory, bootstrap=0.0))[0]


def cheetah_memory() -> cogrs.ReplayMemory:
    """Return a memory with room for the import."""
    seen, done = spaces.Box(-9, 9, (17,)), spaces.Box(-1, 1, (6,))
    return cogrs.ReplayMemory.from_spaces(seen, done, IMPORTED + IMPORTED // 1000)


def import_minari() -> float:
    """Return the seconds of an import of a data set of Minari of the same sizes."""
    rng = np.random.default_rng(0)
    memory = cheetah_memory()
    for _ in range(IMPORTED // 1000):
        memory.add_episode(
            *(rng.random((1000, 17), np.float32), rng.random((1000, 6), np.float32)),
            *(np.ones(1000), np.ones(1000), np.zeros(1000), np.zeros((1000, 0)), 1.0),
            final_state=np.zeros(17),
            truncated=True,
        )
    datasets.to_minari(memory, "cheetah-v0")
    return timed(lambda _: datasets.from_minari("cheetah-v0", memory, bootstrap=0.0))[0]


def main() -> None:
    """Run all and print a table."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MINARI_DATASETS_PATH"] = folder
        buffers = ready_arrays()
        memory = filled_memory(buffers)
        logs = Path(folder, ".logs")
        logs.mkdir()
        with open_store(Path(folder, ".store"), create=True) as store:
            write_trials(store, logs, buffers)
            theirs, *ours = timed(
                lambda number: write_by_minari(buffers, number),
                lambda number: datasets.to_minari(memory, f"memory-{number}-v0"),
                lambda number: datasets.to_minari(store, f"store-{number}-v0"),
            )
        print(f"{EPISODES} episodes of {STEPS} steps, written to Minari")
        print(f"  ready arrays, by Minari itself   {theirs:6.2f} s")
        for name, seconds in zip(("memory", "store"), ours, strict=True):
            times = seconds / theirs
            print(f"  to_minari of a {name:17} {seconds:6.2f} s  {times:.2f} times that")
        print(f"{IMPORTED} steps, into a memory")
        print(f"  from_arrays                      {import_arrays():6.2f} s")
        print(f"  from_minari                      {import_minari():6.2f} s")


if __name__ == "__main__":
    main()
