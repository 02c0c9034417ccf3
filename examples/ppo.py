"""Learn by proximal policy optimization from a vector of environments: `python ppo.py --seed 1`.

The environments are a `VectorEnv`: built-in games, which run in Rust, or any id of Gymnasium with
numbered actions and states that are vectors. The objective is clipped (Schulman et al. 2017).
Exit codes: 0 the goal was reached, 1 it was not, 130 Ctrl-C.
"""

import argparse
import sys
import time
from collections import deque
from contextlib import closing
from itertools import pairwise

try:
    import numpy as np
    import torch
    from torch import nn

    from cogrs.collector import VectorEnv
except ImportError as missing:
    print(
        f"{missing.name} is not installed: pip install torch gymnasium, and cogrs", file=sys.stderr
    )
    sys.exit(2)

NUM_ENVS, STEPS = 16, 128  # environments side by side; steps of each between two updates
GAMMA, LAMBDA = 0.99, 0.95  # generalized advantages (Schulman et al. 2016)
EPOCHS, MINIBATCHES = 4, 4  # passes over the steps of an update, and parts of each pass
CLIP, ENTROPY, VALUE_LOSS, MAX_NORM = 0.2, 0.01, 0.5, 0.5
RATE = 1e-3
WINDOW = 100  # episodes in the mean return that is held against the goal


def make_net(sizes, scale):
    """A net with tanh between its layers, orthogonal weights, the last ones times `scale`."""
    layers = []
    for at, (inputs, outputs) in enumerate(pairwise(sizes)):
        layer = nn.Linear(inputs, outputs)
        nn.init.orthogonal_(layer.weight, scale if at == len(sizes) - 2 else 2**0.5)
        nn.init.zeros_(layer.bias)
        layers += [layer, nn.Tanh()]
    return nn.Sequential(*layers[:-1])


class Player:
    """Plays with a policy, and keeps what happened."""

    def __init__(self, envs, seed):
        """Begin to play."""
        size, count = envs.single_observation_space.shape[0], int(envs.single_action_space.n)
        self.envs = envs
        self.policy = make_net((size, 64, 64, count), 0.01)
        self.critic = make_net((size, 64, 64, 1), 1)
        self.state = torch.as_tensor(envs.reset(seed=seed)[0], dtype=torch.float32)
        self.over = torch.zeros(envs.num_envs)
        self.paid = np.zeros(envs.num_envs)
        self.returns, self.steps = deque(maxlen=WINDOW), 0

    @torch.no_grad()
    def play(self):
        """Take `STEPS` steps: arrays of them by key, and what follows the last of them."""
        kept = {key: [] for key in ("state", "action", "log", "value", "reward", "end", "acted")}
        for _ in range(STEPS):
            chances = torch.distributions.Categorical(logits=self.policy(self.state))
            action = chances.sample()
            shown, reward, ended, cut, _ = self.envs.step(action.numpy())
            value = self.critic(self.state)[:, 0]
            row = (self.state, action, chances.log_prob(action), value)
            self.count(reward, ended | cut)
            row += tuple(torch.as_tensor(each, dtype=torch.float32) for each in (reward, ended))
            # The step after the last of an episode only begins the next.
            for key, each in zip(kept, (*row, 1 - self.over), strict=True):
                kept[key].append(each)
            self.over = torch.as_tensor(ended | cut, dtype=torch.float32)
            self.state = torch.as_tensor(shown, dtype=torch.float32)
        return {key: torch.stack(each) for key, each in kept.items()}, self.critic(self.state)[:, 0]

    def count(self, reward, over):
        """Count what episodes paid."""
        self.paid += reward
        self.returns.extend(self.paid[over])
        self.paid[over] = 0
        self.steps += int((1 - self.over).sum())


def advantages(kept, last_value):
    """Generalized advantages: a terminal state is worth nothing, any other what the critic says."""
    later, following = torch.zeros_like(last_value), last_value
    found = torch.zeros_like(kept["value"])
    for at in reversed(range(STEPS)):
        error = kept["reward"][at] + GAMMA * following * (1 - kept["end"][at]) - kept["value"][at]
        # Nothing is learned from a step that only begins an episode, and nothing passes it.
        later = kept["acted"][at] * (error + GAMMA * LAMBDA * (1 - kept["end"][at]) * later)
        found[at], following = later, kept["value"][at]
    return found


def update(player, optimizer, kept, advantage):
    """Take the steps of one update."""
    acted = kept["acted"].flatten() > 0
    rows = {key: each.flatten(0, 1)[acted] for key, each in kept.items()}
    advantage = advantage.flatten()[acted]
    goal = advantage + rows["value"]
    for _ in range(EPOCHS):
        for part in torch.randperm(len(goal)).chunk(MINIBATCHES):
            chances = torch.distributions.Categorical(logits=player.policy(rows["state"][part]))
            ratio = (chances.log_prob(rows["action"][part]) - rows["log"][part]).exp()
            scaled = (advantage[part] - advantage[part].mean()) / (advantage[part].std() + 1e-8)
            gain = torch.min(ratio * scaled, ratio.clamp(1 - CLIP, 1 + CLIP) * scaled).mean()
            errors = (player.critic(rows["state"][part])[:, 0] - goal[part]) ** 2
            loss = VALUE_LOSS * errors.mean() - gain - ENTROPY * chances.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], MAX_NORM)
            optimizer.step()


def main():
    """Learn until the goal is reached; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default="cartpole", help="a built-in game, or an id of Gymnasium")
    parser.add_argument("--goal", type=float, default=195.0, help="mean return to reach")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max-seconds", type=float, default=120.0)
    args = parser.parse_args()
    if args.seed < 0:
        parser.error(f"--seed must be >= 0, got {args.seed}")
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)  # nets this small gain nothing from more
    start, reached = time.monotonic(), False
    with closing(VectorEnv(args.env, NUM_ENVS)) as envs:
        player = Player(envs, args.seed)
        parameters = [*player.policy.parameters(), *player.critic.parameters()]
        optimizer = torch.optim.Adam(parameters, RATE, eps=1e-5)
        while not reached and time.monotonic() - start < args.max_seconds:
            kept, last_value = player.play()
            update(player, optimizer, kept, advantages(kept, last_value))
            mean = float(np.mean(player.returns or [0]))
            reached = len(player.returns) == WINDOW and mean >= args.goal
            print(f"{player.steps} steps  mean return {mean:.1f}", flush=True)
    seconds = time.monotonic() - start
    print(f"Goal {'reached' if reached else 'not reached'} after {seconds:.1f} s")
    return 0 if reached else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
