"""Figures of the batch collector on this machine: medians of runs taken one after the other."""

from __future__ import annotations

import asyncio
import statistics
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import record

import cogrs
from cogrs import _core
from cogrs.collector import BUILT_IN, RequestBatcher

if TYPE_CHECKING:
    from collections.abc import Callable

    from cogrs.collector.description import Description


def act(batch: Any, _gpu: Any, reply: Any) -> None:
    """Push the cart to where the pole leans: the least that a policy does."""
    reply[0]["a"][:] = batch[0]["s"][:, 2] > 0


def leave(_batch: Any, _gpu: Any, _reply: Any) -> None:
    """Answer zero, which is an action of every game."""


def drop(batch: Any, _gpu: Any, reply: Any) -> None:
    """Drop a disc into the first column that is not full."""
    reply[0]["a"] = batch[0]["action_mask"].argmax(axis=1)


def rate(count: Callable[[], int], repeats: int = 7) -> float:
    """The median of `count()` / seconds over some runs, after one that is not counted."""
    count()
    rates = []
    for _ in range(repeats):
        start = time.perf_counter()
        rates.append(count() / (time.perf_counter() - start))
    return statistics.median(rates)


def steps(
    num_games: int,
    batchsize: int,
    more: dict[str, Description],
    game: str = "cartpole",
    callback: Callable[[Any, Any, Any], None] = act,
) -> float:
    """Steps a second of all games together."""
    co = cogrs.ContextOptions(num_games=num_games, seed=1)
    context = cogrs.GameContext(game, co)
    keys = (*context.spec.keys, "last_r", "last_terminal")
    given: dict[str, Any] = {**dict.fromkeys(keys, ""), "_batchsize": batchsize}
    described: dict[str, Description] = {"actor": (given, {"a": "1"}), **more}
    with cogrs.GCWrapper(context, co, described) as games:
        games.reg_callback("actor", callback)
        games.reg_callback("optimizer", lambda *_: None)
        games.Start()

        def run() -> int:
            rows = 0
            for _ in range(2_000):
                games.Run()
                if games.infos and games.infos.name == "actor":
                    rows += games.infos.batchsize
            return rows

        return rate(run)


def carts() -> None:
    """CartPole, one step a game and batch, a callback of one comparison."""
    for num_games in (64, 256, 1024):
        figure = steps(num_games, num_games, {})
        report(f"{num_games} games, batches of all", figure, "steps/s")
    report("1024 games, batches of 256", steps(1024, 256, {}), "steps/s")
    keys = dict.fromkeys(("s", "a", "r", "terminal"), "")
    optimizer = ({**keys, "_batchsize": 256, "_T": 20}, None)
    figure = steps(256, 256, {"optimizer": optimizer})
    report("256 games, histories of 20 states beside", figure, "steps/s")


def others() -> None:
    """The other games, 256 of each, batches of all, the cheapest legal action."""
    for game in (name for name in BUILT_IN if name != "cartpole"):
        callback = drop if game == "connect_four" else leave
        report(game, steps(256, 256, {}, game, callback), "steps/s")


def environments() -> None:
    """Environments of Gymnasium, all in one batch, beside its SyncVectorEnv, in turn."""
    try:
        import gymnasium
    except ImportError:
        print("  left out: Gymnasium is not installed")
        return
    for count, rounds in ((1, 5_000), (16, 600), (64, 200)):
        beside(lambda: gymnasium.make("CartPole-v1"), "CartPole-v1", count, rounds)
    try:
        import ale_py
    except ImportError:
        print("  ALE/Pong-v5 is left out: ale-py is not installed")
        return
    gymnasium.register_envs(ale_py)
    beside(lambda: gymnasium.make("ALE/Pong-v5"), "ALE/Pong-v5", 16, 20)


def beside(make: Callable[[], Any], env: str, count: int, rounds: int) -> None:
    """One environment so many times: batches, `VectorEnv`, and Gymnasium's own vector."""
    import gymnasium

    from cogrs import VectorEnv

    sync = gymnasium.vector.SyncVectorEnv([make] * count)
    vector = VectorEnv(env, count)
    actions = np.ones(count, np.int64)
    sync.reset(seed=1)
    vector.reset(seed=1)
    co = cogrs.ContextOptions(num_games=count, seed=1)
    given = {"s": "", "last_r": "", "last_terminal": "", "_batchsize": count}
    context = cogrs.GameContext("gymnasium", co, env)
    with cogrs.GCWrapper(context, co, {"actor": (given, {"a": ""})}) as games:

        def act(_batch: Any, _gpu: Any, reply: Any) -> None:
            reply[0]["a"][:] = actions

        games.reg_callback("actor", act)
        games.Start()

        def repeated(step: Callable[[], object]) -> Callable[[], int]:
            def run() -> int:
                for _ in range(rounds):
                    step()
                return rounds * count

            return run

        names = ("batches", "VectorEnv", "SyncVectorEnv")
        calls = (games.Run, lambda: vector.step(actions), lambda: sync.step(actions))
        turns = [[rate(repeated(call), 1) for call in calls] for _ in range(7)]
    vector.close()
    sync.close()
    for name, figures in zip(names, zip(*turns, strict=True), strict=True):
        report(f"{count} {env}, {name}", statistics.median(figures), "steps/s")


def askers() -> None:
    """Rows of four floats, one policy for all callers."""
    for count in (16, 256):
        batcher = RequestBatcher(
            {"s": ("float32", (4,))}, {"a": ("int64", ())}, count, timeout=0.001
        )
        served = threading.Thread(target=serve, args=(batcher,))
        served.start()
        report(f"{count} tasks of one loop", rate(lambda g=batcher, n=count: tasks(g, n)), "rows/s")
        batcher.close()
        served.join()


def serve(batcher: RequestBatcher) -> None:
    """Answer until the batcher is closed."""

    def policy(inputs: Any, replies: Any) -> None:
        replies["a"][:] = inputs["s"][:, 2] > 0

    try:
        while True:
            batcher.run(policy)
    except RuntimeError:
        return


def tasks(batcher: RequestBatcher, count: int, rounds: int = 50) -> int:
    """Ask from many tasks; how many rows that was."""
    row = {"s": np.zeros(4, np.float32)}

    async def ask() -> None:
        for _ in range(rounds):
            await batcher.ask_async(row)

    async def main() -> None:
        await asyncio.gather(*(ask() for _ in range(count)))

    asyncio.run(main())
    return count * rounds


def report(name: str, figure: float, unit: str) -> None:
    """Print one figure."""
    print(f"  {name:<55} {figure:>14,.0f} {unit}", flush=True)
    record.keep([record.Figure(f"collector/{name}", unit, [figure])])


if __name__ == "__main__":
    if _core.__debug_build__:
        print("this is a debug build: its figures mean nothing")
    for workload in (carts, environments, others, askers):
        print(workload.__doc__)
        workload()
