"""Replay matters: DQN with a replay memory and without one, on two games of MinAtar.

Settings are those of Young and Tian 2019, who show about 9 against 4 for Breakout and 35 against 8
for Freeway. MinAtar is under GPL-3: `make learn MINATAR=1` installs it for the run, and nothing of
it is part of cogrs. Without replay each step is learned from once, when it was made.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from benchmarks.learning.proof import Check, Outcome, Proof, at_least, at_most
from torch import nn

import cogrs

if TYPE_CHECKING:
    from benchmarks.learning.rows import Rows
    from benchmarks.learning.run import Run

FRAMES = {"breakout": 300_000, "freeway": 500_000}
MOST = 2_500
"""Frames after which an episode that has no end of its own is cut short."""
GAMMA, BATCH_SIZE, BUFFER, START, TARGET_PERIOD = 0.99, 32, 100_000, 5_000, 1_000
LAST_EPSILON, EXPLORATION = 0.1, 100_000
GOALS = {"breakout": (7, 5), "freeway": (30, 12)}
"""Least mean return with replay, and most without, by game."""


class Net(nn.Sequential):
    """One convolution and one hidden layer; it takes states (B, 10, 10, channels) of bool."""

    def __init__(self, channels: int, actions: int) -> None:
        super().__init__(
            nn.Conv2d(channels, 16, 3),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(16 * 8 * 8, 128),
            nn.ReLU(),
            nn.Linear(128, actions),
        )

    def forward(self, state: torch.Tensor) -> torch.Tensor:
        """Return the value of each action, (B, actions)."""
        return super().forward(state.permute(0, 3, 1, 2).float())


def learn(run: Run, *, game: str, replay: bool) -> Outcome:
    """Learn; the score is the mean of the last 100 episodes."""
    torch.set_num_threads(1)  # nets this small gain nothing from more
    torch.manual_seed(run.seed)
    rng, steps = np.random.default_rng(run.seed), run.budget(FRAMES[game])
    env: Any = import_module("minatar").Environment(game)
    env.seed(run.seed)
    actions = env.num_actions()
    env.reset()
    state = np.array(env.state(), bool)
    net, target = (Net(state.shape[-1], actions) for _ in range(2))
    target.load_state_dict(net.state_dict())
    optimizer = torch.optim.RMSprop(net.parameters(), 2.5e-4, alpha=0.95, eps=0.01, centered=True)
    zero = np.float32(0)
    fields = state, np.int64(0), zero, zero, zero, zero, np.zeros(0, np.float32)
    # Steps that pay nothing are drawn as often as others.
    settings: dict[str, Any] = {"sampler": "uniform", "new_priority": "max", "seed": run.seed}
    memory = cogrs.ReplayMemory(*fields, BUFFER, discount_factor=GAMMA, **settings)
    recorder, paid, length = memory.recorder(1, "same_step"), 0.0, 0
    for step in range(1, steps + 1):
        if rng.random() < max(LAST_EPSILON, 1 - step / EXPLORATION * (1 - LAST_EPSILON)):
            action = int(rng.integers(actions))
        else:
            with torch.no_grad():
                action = int(net(torch.from_numpy(state[None])).argmax())
        reward, terminated = env.act(action)
        following = np.array(env.state(), bool)
        paid, length = paid + float(reward), length + 1
        truncated = length >= MOST and not terminated
        if replay:
            ends = [terminated], [truncated]
            recorder.add(state[None], [action], [reward], *ends, following[None])
        if replay and step > START and memory.num_drawable:
            batch = cogrs.torch.as_tensors(memory.sample(BATCH_SIZE, nstep_return=True))
            shown = batch.prev.state[:, 0], batch.prev.action, batch.nstep_return
            update(net, target, optimizer, *shown, batch.nstep_discount, batch.next.state[:, 0])
        elif not replay:
            shown = torch.from_numpy(state[None]), torch.tensor([action]), torch.tensor([reward])
            discount = torch.tensor([GAMMA * (not terminated)])
            update(net, target, optimizer, *shown, discount, torch.from_numpy(following[None]))
        if step % TARGET_PERIOD == 0:
            target.load_state_dict(net.state_dict())
        state = following
        if terminated or truncated:
            run.episode(step, paid)
            env.reset()
            state, paid, length = np.array(env.state(), bool), 0.0, 0
    return Outcome(steps, run.score())


def update(
    net: nn.Module,
    target: nn.Module,
    optimizer: torch.optim.Optimizer,
    state: torch.Tensor,
    action: torch.Tensor,
    reward: torch.Tensor,
    discount: torch.Tensor,
    following: torch.Tensor,
) -> None:
    """Take one step of Q-learning."""
    with torch.no_grad():
        goal = reward.float() + discount.float() * target(following).amax(1)
    value = net(state).gather(1, action[:, None])[:, 0]
    loss = nn.functional.smooth_l1_loss(value, goal)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def judge(rows: Rows) -> list[Check]:
    """Compare the means of both games with the goals."""
    checks = []
    for game, (least, most) in GOALS.items():
        checks.append(at_least(f"{game} with replay", fmean(rows.scores(f"{game}, replay")), least))
        without = fmean(rows.scores(f"{game}, no replay"))
        checks.append(at_most(f"{game} without replay", without, most))
    return checks


PROOF = Proof(
    title="With a replay memory DQN learns games of MinAtar, without one it hardly does",
    source="Young and Tian 2019",
    settings={
        f"{game}, {name}": partial(learn, game=game, replay=name == "replay")
        for game in FRAMES
        for name in ("replay", "no replay")
    },
    seeds=(1, 2, 3),
    judge=judge,
    long=True,
    needs=("minatar",),
)
