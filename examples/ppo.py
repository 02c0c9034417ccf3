"""Learn by proximal policy optimization from a vector of environments: `python ppo.py --seed 1`.

The environments are a `VectorEnv`: built-in games, which run in Rust, or any id of Gymnasium with
numbered actions and states that are vectors. The objective is clipped (Schulman et al. 2017).
Exit codes: 0 the goal was reached, 1 it was not, 130 Ctrl-C.
"""

from contextlib import closing

from program import Course, add_plot, make_parser, parse, refuse_without, run

try:
    import numpy as np
    import torch
    from clipped_policy import advantages, make_net, update

    from cogrs import VectorEnv
except ImportError as missing:
    refuse_without(missing, "torch gymnasium, and cogrs")

NUM_ENVS, STEPS = 16, 128  # environments side by side; steps of each between two updates
RATE = 1e-3
WINDOW = 100  # episodes in the mean return that is compared with the goal


class Player:
    """Plays with a policy, and keeps its steps."""

    def __init__(self, envs, seed):
        """Create the nets, and reset the environments."""
        size, count = envs.single_observation_space.shape[0], int(envs.single_action_space.n)
        self.envs = envs
        self.policy = make_net((size, 64, 64, count), 0.01)
        self.critic = make_net((size, 64, 64, 1), 1)
        self.state = torch.as_tensor(envs.reset(seed=seed)[0], dtype=torch.float32)
        self.over = torch.zeros(envs.num_envs)
        self.paid = np.zeros(envs.num_envs)
        self.returns, self.steps = [], 0

    @torch.no_grad()
    def play(self):
        """Take `STEPS` steps; return them as tensors by key, and the value of the next state."""
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
        """Add rewards to the returns of the episodes."""
        self.paid += reward
        self.returns.extend(self.paid[over])
        self.paid[over] = 0
        self.steps += int((1 - self.over).sum())


def main():
    """Learn until the goal is reached; return the exit code."""
    parser = make_parser(__doc__.splitlines()[0])
    parser.add_argument("--env", default="cartpole", help="a built-in game, or an id of Gymnasium")
    add_plot(parser)
    args = parse(parser)
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)  # nets this small gain nothing from more
    course = Course(args, WINDOW)
    with closing(VectorEnv(args.env, NUM_ENVS)) as envs:
        player = Player(envs, args.seed)
        parameters = [*player.policy.parameters(), *player.critic.parameters()]
        optimizer = torch.optim.Adam(parameters, RATE, eps=1e-5)
        while course.goes_on(player.returns, player.steps):
            kept, last_value = player.play()
            update(player, optimizer, kept, advantages(kept, last_value))
    return course.end(player.returns, f"PPO, {args.env}, seed {args.seed}")


if __name__ == "__main__":
    run(main)
