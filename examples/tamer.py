"""A person's thumbs train a policy, on the page: `python tamer.py`, and open the link.

A walker on a grid is to go to the corner, and no reward of the environment says so. It learns what
the person would say of each step, and takes the step that would please most (TAMER; Knox and Stone
2009). `--simulate` lets a program judge over the page's own wire: it sees the pictures, and gives a
good for each step that leads closer, a bad for each that does not. It errs now and then.
"""

import argparse
import asyncio
import contextlib
import io
import json

import gymnasium as gym
import numpy as np
from PIL import Image
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from cogrs import orchestrator, sdk, web

SIZE, CELL = 5, 24  # cells per side, pixels per cell
MOVES = np.array([(0, 1), (1, 0), (0, -1), (-1, 0)])
GOAL = np.array([SIZE - 1, SIZE - 1])
RATE, ERRORS = 0.5, 0.1  # of learning; share of the simulated person's judgements that are wrong


class Grid(gym.Env):
    """A walk from one corner to the opposite one, again and again; it notes the arrivals."""

    render_mode = "rgb_array"
    observation_space = gym.spaces.Box(0, SIZE - 1, (2,), np.int64)
    action_space = gym.spaces.Discrete(len(MOVES))

    def __init__(self, steps, arrivals):
        """Append the steps of arrivals to a list, and end after so many steps."""
        self.most, self.arrivals = steps, arrivals

    def reset(self, *, seed=None, options=None):
        """Start in a corner."""
        self.at, self.steps = np.zeros(2, np.int64), 0
        return self.at, {}

    def step(self, action):
        """Move, unless there is a wall; from the goal, go back to the start."""
        there = (self.at == GOAL).all()
        self.at = np.zeros(2, np.int64) if there else np.clip(self.at + MOVES[action], 0, SIZE - 1)
        self.steps += 1
        if (self.at == GOAL).all():
            self.arrivals.append(self.steps)
        return self.at, 0.0, False, self.steps == self.most, {}

    def render(self):
        """Draw the goal in green and the walker in blue."""
        cells = np.full((SIZE, SIZE, 3), 235, np.uint8)
        cells[tuple(GOAL)], cells[tuple(self.at)] = (120, 200, 140), (20, 90, 210)
        return cells.repeat(CELL, axis=0).repeat(CELL, axis=1)


class Tamer(sdk.Agent):
    """Takes the step that the person would like most, as far as that is known."""

    def __init__(self, pleases, rng, seconds):
        """Learn into `pleases`, an array of (rows, columns, actions), which all trials share."""
        self.pleases, self.rng, self.seconds, self.steps = pleases, rng, seconds, []

    async def act(self, observation):
        """Act after a while, so that people can follow."""
        await asyncio.sleep(self.seconds)
        here = self.pleases[tuple(observation.value)]
        action = self.rng.choice(np.flatnonzero(here == here.max()))
        self.steps.append((*observation.value, action))
        return action

    def late_reward(self, reward):
        """Learn what was said of a step, during the trial or after its end."""
        step, said = sdk.step_of_reward(reward.tick), reward.sources
        if step is None or step >= len(self.steps) or all(s.sender_name == "env" for s in said):
            return False
        place = self.steps[step]
        self.pleases[place] += RATE * (reward.value - self.pleases[place])
        return True

    def reward(self, reward):
        """Learn during the trial."""
        self.late_reward(reward)

    def end(self, final):
        """Learn from what came with the last tick."""
        for reward in final.rewards:
            self.late_reward(reward)


async def judge(url, rng, silent):
    """Watch over the page's wire until it closes, and judge each picture that follows another."""
    where, _, token = url.replace("http", "ws", 1).partition("/#")
    last, before = -1, 0
    with contextlib.suppress(ConnectionClosed):
        async with connect(f"{where}/ws") as socket:
            await socket.send(json.dumps({"type": "join", "token": token}))
            async for message in socket:
                if isinstance(message, str):
                    continue
                tick = int.from_bytes(message[1:9], "big")
                cells = np.asarray(Image.open(io.BytesIO(message[9:])))[::CELL, ::CELL]
                left = int(abs(GOAL - np.argwhere(cells[:, :, 2] == 210)[0]).sum())
                if tick == last + 1 and before and not silent:
                    good = (left < before) != (rng.random() < ERRORS)
                    said = {"tick": tick, "value": 1 if good else -1}
                    await socket.send(json.dumps({"type": "feedback", **said}))
                last, before = tick, left


async def learn(steps, seed, fps, *, simulate, silent=False):
    """Walk so many steps; return in which of them the walker arrived."""
    rng, arrivals = np.random.default_rng(seed), []
    pleases = np.zeros((SIZE, SIZE, len(MOVES)))
    grid = sdk.GymnasiumEnvironment.factory(
        lambda: Grid(steps, arrivals), player="walker", frames_to=["ada"]
    )
    tamer = sdk.local_agents({"": lambda: Tamer(pleases, rng, 1 / fps)})
    local = {"grid": sdk.local_environments({"": grid}), "tamer": tamer}
    walker = {"name": "walker", "actor_class": "walker", "endpoint": "local://tamer"}
    ada = {"name": "ada", "actor_class": "person", "endpoint": "client"}
    params = {"environment": {"endpoint": "local://grid"}, "actors": [walker, ada]}
    config = {"trial_params": params, "actor_options": [{"name": "ada", "observer": True}]}
    game = web.Game(title="To the green corner", controls=None, credit=(0.9, 0.2))
    patient = orchestrator.Settings(join_timeout=0)  # however long it takes to open the link
    async with await orchestrator.serve(config, port=0, local=local, settings=patient) as server:
        where = f"127.0.0.1:{server.port}"
        app = web.app(where, game, actor_name="ada")
        page, (place,) = app.state.page, app.state.places
        async with web.serve_page(page) as pages, sdk.TrialController(where) as controller:
            url = pages.url(page.invite(place, "judge"))
            if simulate:
                person = asyncio.ensure_future(judge(url, np.random.default_rng(seed + 1), silent))
            else:
                print(f"judge    {url}", flush=True)
            trial = await controller.start_trial()  # which begins once the person is there
            await controller.wait_ended(trial.id)
        if simulate:
            await person
    return arrivals


def main():
    """Read the options, learn, and print the curve."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=600, help="steps of the walker")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fps", type=float, help="steps per second (3; 100 if simulated)")
    parser.add_argument("--simulate", action="store_true", help="let a program judge")
    parser.add_argument("--silent", action="store_true", help="it judges nothing, for comparison")
    given = parser.parse_args()
    fps = given.fps or (100.0 if given.simulate else 3.0)
    arrivals = asyncio.run(
        learn(given.steps, given.seed, fps, simulate=given.simulate, silent=given.silent)
    )
    part = given.steps // 6
    counts = [sum(k * part < at <= (k + 1) * part for at in arrivals) for k in range(6)]
    print(f"arrivals in each {part} steps:", *counts)


if __name__ == "__main__":
    main()
