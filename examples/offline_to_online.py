"""Learn online with the help of a data set: `python offline_to_online.py --seeds 0 1 2`.

A double DQN plays CartPole and learns from batches of a `cogrs.MixedSampler`: half of each is from
episodes that a noisy script played before, half from the net's own. Beside it, the same without
the script's episodes. The online steps that each takes to the goal are compared.
Exit codes: 0 the data set saved steps with every seed, 1 it did not, 2 nothing could start.
"""

from program import hear_ctrl_c, make_parser, refuse_without, run

hear_ctrl_c()
try:
    import gymnasium as gym
    import numpy as np
    from curve import save_curves
    from double_dqn import BATCH_SIZE, GAMMA, make_nets, q_values, update

    import cogrs
except ModuleNotFoundError as missing:
    refuse_without(missing)

ENVS, TESTS = 8, 20  # environments that are played at once, and episodes of a test
TESTED, WARM_UP = 1_000, 500  # steps from one test to the next, and before learning
EPSILON, NOISE = 0.1, 0.3  # how often the net, and the script, act at random
CAPACITY = 50_000


class Player:
    """Plays CartPole in several environments, and records the steps."""

    def __init__(self, seed, act):
        """Play by a function of observations."""
        self.env = cogrs.VectorEnv("cartpole", num_envs=ENVS, seed=seed)
        space, actions = self.env.single_observation_space, self.env.single_action_space
        settings = {"gamma": GAMMA, "n_step": 3, "sampler": "uniform", "seed": seed}
        self.memory = cogrs.ReplayMemory.from_spaces(space, actions, CAPACITY, **settings)
        self._recorder = self.memory.recorder(self.env)
        self._act, self._seen = act, self.env.reset(seed=seed)[0]

    def step(self):
        """Take a step of every environment."""
        before = np.array(self._seen)
        action = self._act(before)
        self._seen, reward, terminated, truncated, _ = self.env.step(action)
        self._recorder.add(before, action, reward, terminated, truncated, self._seen)


def script(rng):
    """Return a policy that knows how to keep the pole upright, and is often distracted."""

    def act(seen):
        right = seen @ np.array([0.02, 0.06, 1.0, 0.4]) > 0
        noise = rng.random(len(seen)) < NOISE
        return np.where(noise, rng.integers(0, 2, len(seen)), right).astype(np.int64)

    return act


def test(nets, seed):
    """Return the mean return of episodes without exploration."""
    env = cogrs.VectorEnv("cartpole", num_envs=TESTS, seed=1_000 + seed)
    seen, going, paid = env.reset(seed=1_000 + seed)[0], np.ones(TESTS, bool), np.zeros(TESTS)
    while going.any():
        action = np.asarray(q_values(nets[0], np.array(seen))).argmax(axis=1)
        seen, reward, terminated, truncated, _ = env.step(action)
        paid += reward * going
        going &= ~(terminated | truncated)
    env.close()
    return float(paid.mean())


def learn(seed, offline, goal, most):
    """Learn until the goal; return pairs of online steps and the mean return of a test."""
    rng = np.random.default_rng(seed)

    def act(seen):
        noise = rng.random(len(seen)) < EPSILON
        best = np.asarray(q_values(nets[0], seen)).argmax(axis=1)
        return np.where(noise, rng.integers(0, 2, len(seen)), best)

    player = Player(seed, act)
    nets = make_nets(gym.make("CartPole-v1"), seed)
    sources = {"online": (player.memory, 0.5 if offline else 1.0)}
    if offline:
        sources["offline"] = (offline, 0.5)
    batches, steps, curve = cogrs.MixedSampler(sources), 0, []
    ones = np.ones(BATCH_SIZE, np.float32)
    while steps < most and not (curve and curve[-1][1] >= goal):
        player.step()
        steps += ENVS
        if steps >= WARM_UP and player.memory.num_drawable:
            for _ in range(ENVS):
                batch = batches.sample(BATCH_SIZE, nstep_return=True)
                ahead = batch.next, batch.nstep_return, batch.nstep_discount
                nets, _, _ = update(nets, batch.prev, ahead, ones)
            if steps % TESTED < ENVS:
                curve.append((steps, test(nets, seed)))
    player.env.close()
    return curve


def collect(seed, episodes):
    """Return a memory of episodes of the script: the data set, which could be Minari's as well."""
    player = Player(seed, script(np.random.default_rng(seed)))
    while player.memory.num_episode() < episodes:
        player.step()
    player.env.close()
    return player.memory


def main():
    """Compare both for each seed; return the exit code."""
    parser = make_parser(__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--episodes", type=int, default=100, help="episodes of the script")
    parser.add_argument("--max-steps", type=int, default=60_000, help="online steps at most")
    parser.add_argument("--plot", metavar="FILE", help="draw the mean returns there")
    parser.set_defaults(goal=475.0)
    args = parser.parse_args()
    curves, saved = {}, []
    for seed in args.seeds:
        dataset, needed = collect(seed + 100, args.episodes), {}
        for name, offline in (("online alone", None), ("offline and online", dataset)):
            curve = learn(seed, offline, args.goal, args.max_steps)
            curves[f"{name}, seed {seed}"] = curve
            reached = curve and curve[-1][1] >= args.goal
            needed[name] = curve[-1][0] if reached else float("inf")
            told = f"{needed[name]} steps" if reached else "not reached"
            print(f"seed {seed}  {name:18}  goal {args.goal:g}: {told}", flush=True)
        saved.append(needed["offline and online"] < needed["online alone"])
    if args.plot:
        save_curves(curves, args.goal, "CartPole, greedy", args.plot)
    print(f"The data set saved steps with {sum(saved)} of {len(saved)} seeds")
    return 0 if all(saved) else 1


if __name__ == "__main__":
    run(main)
