"""A run of the demo: its processes, its trials, its end."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from cogrs import sdk
from cogrs.api.common_pb2 import ActorParams, EnvironmentParams, TrialParams
from cogrs.demo.options import Options, Role
from cogrs.demo.process import Process
from cogrs.demo.progress import Display, Progress, draw_curve
from cogrs.orchestrator import Config, serve_orchestrator

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class RefusedError(Exception):
    """The demo cannot run so; the text says why, in one line."""


def run(options: Options) -> tuple[Progress, Path]:
    """Run until the goal, or the time, is reached.

    Returns:
        What came of it, and the folder with curve and metrics.

    Raises:
        RefusedError: The environment does not suit.
        ProcessFailedError: A process ended by itself.
    """
    role = describe(options)
    folder = options.out / time.strftime("%Y%m%d-%H%M%S")
    folder.mkdir(parents=True, exist_ok=True)
    figures: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    with ExitStack() as stack:
        processes, params = stack.enter_context(processes_of(role, figures))
        config = Config(params=params)
        orchestrator = stack.enter_context(serve_orchestrator(config, port=0))
        progress = Progress(options)
        display = stack.enter_context(Display(progress, folder))
        stack.enter_context(playing(f"127.0.0.1:{orchestrator.port}", options.trials))
        follow(progress, display, figures, processes)
    draw_curve(progress, folder / "curve.png")
    return progress, folder


def describe(options: Options) -> Role:
    """Look at the environment.

    Raises:
        RefusedError: There is none of that id, or it does not suit.
    """
    import gymnasium

    try:
        env = gymnasium.make(options.env)
    except gymnasium.error.Error as error:
        raise RefusedError(f"--env: {str(error).splitlines()[0]}") from None
    states, actions = env.observation_space, env.action_space
    env.close()
    if not isinstance(states, gymnasium.spaces.Box) or len(states.shape) != 1:
        raise RefusedError(
            f"--env: expected observations in a flat Box, {options.env} has {states}"
        )
    if not isinstance(actions, gymnasium.spaces.Discrete) or actions.start != 0:
        raise RefusedError(f"--env: expected actions 0, 1, ..., {options.env} has {actions}")
    return Role(
        env=options.env,
        seed=options.seed,
        state_size=states.shape[0],
        num_action=int(actions.n),
        trials=options.trials,
    )


@contextmanager
def processes_of(
    role: Role, figures: queue.SimpleQueue[dict[str, Any]]
) -> Iterator[tuple[list[Process], TrialParams]]:
    """Start learner, environments and actors, and end them."""
    processes: list[Process] = []

    def start(name: str, role: Role) -> Process:
        processes.append(Process(name, role, figures))
        return processes[-1]

    try:
        learner, environment = start("learner", role), start("environment", role)
        endpoints = tuple(learner.wait_ready())
        actor = start("actor", Role(**{**vars(role), "endpoints": endpoints}))
        params = TrialParams(
            environment=EnvironmentParams(endpoint=environment.wait_ready()),
            actors=[ActorParams(name="player", actor_class="player", endpoint=actor.wait_ready())],
        )
        yield processes, params
    finally:
        for process in processes:
            process.tell_end()
        for process in processes:
            process.end()


@contextmanager
def playing(endpoint: str, trials: int) -> Iterator[None]:
    """Keep so many trials running, on a thread."""
    loop = asyncio.new_event_loop()
    done = threading.Event()

    def main() -> None:
        asyncio.set_event_loop(loop)
        task = loop.create_task(keep_playing(endpoint, trials))
        tasks.append(task)
        started.set()
        try:
            loop.run_until_complete(task)
        except asyncio.CancelledError:
            done.set()
        finally:
            loop.close()

    tasks: list[asyncio.Task[None]] = []
    started = threading.Event()
    thread = threading.Thread(target=main, name="cogrs-playing", daemon=True)
    thread.start()
    started.wait()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(tasks[0].cancel)
        thread.join()


async def keep_playing(endpoint: str, trials: int) -> None:
    """Start a trial whenever one has ended."""
    running: set[str] = set()
    async with sdk.TrialController(endpoint, user_id="demo") as controller:
        for _ in range(trials):
            running.add((await controller.start_trial()).id)
        async for trial_id, _ in controller.watch_trials([sdk.TrialState.ENDED]):
            if trial_id in running:
                running.remove(trial_id)
                running.add((await controller.start_trial()).id)


def follow(
    progress: Progress,
    display: Display,
    figures: queue.SimpleQueue[dict[str, Any]],
    processes: list[Process],
) -> None:
    """Take in figures until the goal, or the time, is reached."""
    progress.started = time.monotonic()
    while not progress.reached and progress.seconds < progress.options.max_seconds:
        try:
            progress.take(figures.get(timeout=0.2))
        except queue.Empty:
            for process in processes:
                process.check()
        display.show()
