"""A person's thumbs up or down, after a trial, changes what the learner draws next.

    python examples/human_feedback.py

Agents walk a corridor at random. After each trial its path is shown; a person names a step that was
good (`3`) or bad (`-3`), or presses Enter. The reward reaches the stored step, and with it what is
drawn from replay: what was praised, or blamed, is drawn more often.
"""

import asyncio
from collections.abc import Callable

import numpy as np

from cogrs import ReplayMemoryClient, ReplayMemoryServer, orchestrator, sdk
from cogrs.workers import STEP_INFO, ActorWorker, Decision, trial_number

LENGTH, SCALAR = 8, np.float32(0)
Judge = Callable[[list[int]], int]


class Corridor(sdk.Environment):
    """Steps left or right, for eight ticks; only people give rewards."""

    def start(self, trial: sdk.Trial) -> sdk.Update:
        """Start at position 0."""
        self.place, self.tick = 0, 0
        return sdk.Update(np.float32([0]))

    def step(self, actions: dict[str, np.ndarray]) -> sdk.Update:
        """Move."""
        self.place += 2 * int(actions["walker"]) - 1
        self.tick += 1
        over = self.tick == LENGTH
        return sdk.Update(np.float32([self.place]), final=over, terminated=over)


def person(path: list[int]) -> int:
    """Ask at the keyboard."""
    print("places:", *path)
    return int(input(f"good step 1 to {LENGTH}, bad step -1 to -{LENGTH}, Enter for none: ") or 0)


async def play(worker: ActorWorker, trials: int, judge: Judge) -> list[tuple[float, float]]:
    """Play, and return how often the judged trial was drawn before and after each judgement."""
    walker = {"name": "walker", "actor_class": "w", "endpoint": "local://walkers"}
    params = {"environment": {"endpoint": "local://corridor"}, "actors": [walker]}
    walkers = sdk.local_agents({"": worker.agent})
    local = {"corridor": sdk.local_environments({"": Corridor}), "walkers": walkers}
    shares = []
    async with (
        await orchestrator.serve({"trial_params": params}, port=0, local=local) as server,
        sdk.TrialController(f"127.0.0.1:{server.port}") as controller,
    ):
        for _ in range(trials):
            trial = await controller.start_trial()
            await controller.wait_ended(trial.id)
            episode = worker.memory.episode(worker.memory.num_episode() - 1)
            places = episode.entries.state[:, 0].astype(int).tolist()
            step = await asyncio.to_thread(judge, places)
            if step:
                before = share(worker, trial.id)
                worker.add_reward(trial.id, "walker", tick=abs(step), value=float(np.sign(step)))
                shares.append((before, share(worker, trial.id)))
                print("drawn from this trial: {:.0%} before, {:.0%} after".format(*shares[-1]))
    return shares


def share(worker: ActorWorker, trial_id: str) -> float:
    """Return the share of a trial in a draw; 0 while no step can be drawn."""
    if worker.memory.weight_sum == 0:
        return 0.0
    drawn = worker.memory.get_batch(2000).prev.info["trial"]
    return float(np.mean(drawn == trial_number(trial_id)))


def main(trials: int = 5, judge: Judge = person) -> list[tuple[float, float]]:
    """Run the example; return the shares of each judged trial before and after."""
    rng = np.random.default_rng(0)
    info = np.zeros((), STEP_INFO)
    templates = (np.zeros(1, np.float32), np.int64(0), SCALAR, SCALAR, SCALAR, SCALAR, info)

    def policy(states: np.ndarray) -> Decision:
        chance = np.full(len(states), 0.5)
        return Decision(rng.integers(2, size=len(states)), chance, np.zeros(len(states)))

    with ReplayMemoryServer(*templates, 0, "tcp://127.0.0.1:*", 4).start() as server:
        server.rem.discount_factor, server.rem.cache_size = 0.9, LENGTH
        endpoints = server.pub_endpoint, server.rep_endpoint, server.pull_endpoint
        with (
            ReplayMemoryClient(*endpoints, max_step=10_000) as client,
            ActorWorker(client, policy) as worker,
        ):
            return asyncio.run(play(worker, trials, judge))


if __name__ == "__main__":
    main()
