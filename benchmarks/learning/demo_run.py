"""The demo's learner, fed in this process: what the proofs about trials share.

A memory with the settings of the demo, its epsilon-greedy policy, and its double DQN, which updates
as often as the demo's rate limiter lets it: 8 samples for each step stored.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cogrs import ReplayMemoryClient, orchestrator, sdk
from cogrs.demo.actor import Policy
from cogrs.demo.learner import SAMPLES_PER_INSERT, make_server
from cogrs.demo.options import ProcessConfig
from cogrs.demo.q_learning import QLearner, draw_parameters
from cogrs.workers import ActorWorker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.learning.run import Run

AT_ONCE, STEPS = 8, 40_000  # trials or environments at once; steps of the environment in all
BATCH_SIZE, BETA, MIN_SIZE = 64, 0.6, 256


class Student:
    """A memory, the policy that fills it, and the learner that draws from it."""

    def __init__(self, client: ReplayMemoryClient, run: Run) -> None:
        """Create a net with random weights."""
        parameters = draw_parameters(4, 2, run.seed)
        self.client, self.memory, self.policy = client, client.rem, Policy(parameters, 2, run.seed)
        self.steps, self.total = 0, run.budget(STEPS)
        self._learner, self._run, self._owed = QLearner(parameters), run, 0.0

    def end_episode(self, steps: int) -> None:
        """Note a closed episode, and learn as much as its steps allow; its return is its length."""
        self.steps += steps
        self._run.episode(self.steps, steps)
        self._owed += steps * SAMPLES_PER_INSERT / BATCH_SIZE
        if self.steps < MIN_SIZE:
            return
        while self._owed >= 1:
            self._owed -= 1
            batch = self.memory.sample(BATCH_SIZE, nstep_return=True, beta=BETA)
            self._learner.update(batch, batch.importance_weight)
            self.policy.parameters = self._learner.parameters
            self.policy.updates += 1


@contextmanager
def student(run: Run) -> Iterator[Student]:
    """Create a student whose memory has the demo's settings."""
    config = ProcessConfig(
        env="CartPole-v1", seed=run.seed, state_size=4, num_action=2, trials=AT_ONCE
    )
    with make_server(config).start() as server:
        endpoints = server.pub_endpoint, server.rep_endpoint, server.pull_endpoint
        with ReplayMemoryClient(*endpoints, max_step=50_000, seed=run.seed) as client:
            yield Student(client, run)


async def play_trials(learner: Student, environment: Callable[[], sdk.Environment]) -> None:
    """Play CartPole in trials until the student has seen its steps.

    Raises:
        RuntimeError: The policy failed.
    """
    # Nothing is drawn from the server, so nothing is pushed to it.
    options: dict[str, Any] = {"batch_size": AT_ONCE, "samples_per_step": 0.0}
    with ActorWorker(
        learner.client,
        learner.policy,
        on_episode=lambda steps, _: learner.end_episode(steps),
        **options,
    ) as worker:
        parts = {
            "cartpole": sdk.local_environments({"": environment}),
            "student": sdk.local_agents({"": worker.agent}),
        }
        actor = {"name": "player", "actor_class": "player", "endpoint": "local://student"}
        params = {"environment": {"endpoint": "local://cartpole"}, "actors": [actor]}
        async with (
            await orchestrator.serve({"trial_params": params}, port=0, local=parts) as server,
            sdk.TrialController(f"127.0.0.1:{server.port}") as controller,
        ):
            running = {(await controller.start_trial()).id for _ in range(AT_ONCE)}
            async for trial_id, _ in controller.watch_trials([sdk.TrialState.ENDED]):
                worker.check()
                if learner.steps >= learner.total:
                    break
                if trial_id in running:
                    running.remove(trial_id)
                    running.add((await controller.start_trial()).id)
