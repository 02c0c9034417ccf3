"""A run of the demo: the parent process starts processes and trials, follows and ends them."""

from __future__ import annotations

import asyncio
import queue
import time
from contextlib import AsyncExitStack
from dataclasses import replace
from itertools import count, cycle
from typing import TYPE_CHECKING, Any

from cogrs import sdk
from cogrs.api.common_pb2 import ActorParams, EnvironmentParams, TrialParams
from cogrs.demo.checkpoint import read_run, write_run
from cogrs.demo.child_process import ChildProcess, FailedError, RefusedError, ended
from cogrs.demo.options import Options, ProcessConfig
from cogrs.demo.progress import Display, Progress, draw_curve
from cogrs.orchestrator import Config, serve

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cogrs.stop_signal import StopSignal

_GRACE = 1.0
"""Seconds for running trials to end."""

_FAILURES = 20
"""Minimum of trials in a row without a step that end the run."""


def run(options: Options, stop: StopSignal) -> tuple[Progress, list[Path]]:
    """Run until the goal is reached, the time is over, or a signal comes.

    Returns:
        The progress, and the files that were written.

    Raises:
        RefusedError: The demo cannot start with these options.
        FailedError: A process ended by itself.
    """
    progress = Progress(options)
    if stop.is_set():
        return progress, []
    config = describe(options)
    if stop.is_set():
        return progress, []
    if options.resume is not None:
        before = read_run(options.resume, config)
        config = replace(config, trials_before=before["trials"], resume=str(options.resume))
        progress.steps = progress.steps_before = before["steps"]
    folder = make_folder(options.out)
    config = replace(config, folder=str(folder))
    print(
        f"starting {options.env}: orchestrator here; environment, actor and learner as processes",
        flush=True,
    )
    with Display(progress, folder, stop) as display:
        try:
            asyncio.run(learn(config, display, progress, stop))
        finally:
            write_run(folder, config, progress.trials, progress.steps)
    files = [folder / "metrics.jsonl"]
    if progress.curve:
        print("drawing the learning curve", flush=True)
        files.append(folder / "curve.png")
        draw_curve(progress, files[-1])
    return progress, files


def describe(options: Options) -> ProcessConfig:
    """Return the options of processes for an environment; RefusedError if it does not fit."""
    import gymnasium

    from cogrs.demo.environment import make_flat

    try:
        env = make_flat(options.env)
    except Exception as error:  # the environment's own code may raise anything
        reason = str(error) or type(error).__name__
        raise RefusedError(f"--env: cannot make {options.env!r}: {_one_line(reason)}") from None
    states, actions = env.observation_space, env.action_space
    env.close()
    if not isinstance(states, gymnasium.spaces.Box) or len(states.shape) != 1:
        raise RefusedError(
            f"--env: expected observations that make a vector, {options.env} has "
            f"{_one_line(states)}"
        )
    if not isinstance(actions, gymnasium.spaces.Discrete):
        raise RefusedError(
            f"--env: expected discrete actions, {options.env} has {_one_line(actions)}"
        )
    return ProcessConfig(
        env=options.env,
        seed=options.seed,
        state_size=states.shape[0],
        num_action=int(actions.n),
        trials=options.trials,
    )


def make_folder(out: Path) -> Path:
    """Create a new folder for a run, named by the time; RefusedError if that fails."""
    name = time.strftime("%Y%m%d-%H%M%S")
    for number in count(1):
        folder = out / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir(parents=True)
            return folder
        except FileExistsError as error:
            if not folder.is_dir():
                raise RefusedError(f"--out: cannot write to {out}: {error.strerror}") from None
        except OSError as error:
            raise RefusedError(f"--out: cannot write to {out}: {error.strerror}") from None
    raise AssertionError("there is always another number")


async def learn(
    config: ProcessConfig, display: Display, progress: Progress, stop: StopSignal
) -> None:
    """Start processes and trials, follow their progress, and end them."""
    options = progress.options
    processes: list[ChildProcess] = []
    figures: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def start(name: str, config: ProcessConfig) -> ChildProcess:
        processes.append(ChildProcess(name, config, figures))
        return processes[-1]

    async with AsyncExitStack() as stack:
        await stack.enter_async_context(ended(processes))
        learner, environment = start("learner", config), start("environment", config)
        endpoints = await learner.ready(stop)
        if stop.is_set():
            return
        config = replace(config, endpoints=tuple(endpoints))
        actors = [
            start("actor", replace(config, worker=worker)) for worker in range(options.workers)
        ]
        acts = [await actor.ready(stop) for actor in actors]
        plays = await environment.ready(stop)
        if stop.is_set():
            return
        params = TrialParams(
            environment=EnvironmentParams(endpoint=plays),
            actors=[ActorParams(name="player", actor_class="player", endpoint=acts[0])],
        )
        trials = Config(params=params, hooks=("local://spread",))
        spread = sdk.local_hooks({"": spread_over(acts)})
        orchestrator = await serve(trials, port=0, local={"spread": spread})
        stack.push_async_callback(orchestrator.stop, _GRACE)
        failures = Failures(progress)
        where = f"127.0.0.1:{orchestrator.port}"
        playing = asyncio.create_task(keep_playing(where, options.trials, failures))
        stack.push_async_callback(cancelled, playing)
        progress.started = time.monotonic()
        while not (progress.reached or stop.is_set() or progress.late):
            follow(progress, figures)
            failures.check()
            display.show()
            for process in processes:
                process.check()
            if playing.done():
                playing.result()
            await asyncio.sleep(0.05)
        progress.ended = time.monotonic()
        display.stop()


def spread_over(endpoints: Sequence[str]) -> sdk.PreTrialHook:
    """Return a hook that assigns trials to actor processes in turn."""
    turns = cycle(endpoints)

    def spread(new: sdk.NewTrial) -> None:
        new.params.actors[0].endpoint = next(turns)

    return spread


def follow(progress: Progress, figures: queue.SimpleQueue[dict[str, Any]]) -> None:
    """Take in the reports that have come, up to the goal."""
    while not (progress.reached or figures.empty()):
        progress.take(figures.get())


class Failures:
    """Counts trials in a row without a step, since a broken environment would fail for ever."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        # Reports of trials come a little later than their ends.
        self._most = max(_FAILURES, 2 * progress.options.trials)
        self._count = self._played = 0

    def ended(self) -> None:
        """Count a trial that has ended."""
        self._count += 1

    def check(self) -> None:
        """Raise FailedError if too many trials in a row had no steps."""
        if self._progress.trials > self._played:
            self._played, self._count = self._progress.trials, 0
        if self._count >= self._most:
            raise FailedError(
                f"{self._count} trials in a row ended without a step: "
                f"{self._progress.options.env} fails, as the errors above say"
            )


async def keep_playing(endpoint: str, trials: int, failures: Failures) -> None:
    """Keep a number of trials running: start one whenever one has ended."""
    running: set[str] = set()
    async with sdk.TrialController(endpoint, user_id="demo") as controller:
        for _ in range(trials):
            running.add((await controller.start_trial()).id)
        async for trial_id, _ in controller.watch_trials([sdk.TrialState.ENDED]):
            if trial_id in running:
                running.remove(trial_id)
                failures.ended()
                running.add((await controller.start_trial()).id)


async def cancelled(task: asyncio.Task[None]) -> None:
    """Cancel a task, and wait until it has ended."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _one_line(what: object) -> str:
    return " ".join(str(what).split())
