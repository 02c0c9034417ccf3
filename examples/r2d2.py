"""Learn to remember a cue in a T-maze from stored sequences, by R2D2: `python r2d2.py --seed 1`.

Kapturowski et al. (2019), "Recurrent Experience Replay in Distributed Reinforcement Learning". The
games are a `VectorEnv`, and each has a writer of its own, which stores the net's recurrent state
beside each step: see `Actors` and `learn`. The net is tested without exploration now and then, and
trained until it reaches the goal. With `--variants` it is compared with nets that lack something:
"zero-state" learns from sequences that begin with zeros instead of the stored state, without
burn-in; "feedforward" also plays without a recurrent state. They stay at chance, 0 in the mean; as
all episodes with one cue are alike, a single test of theirs may show 1 or -1 by luck.
Exit codes: 0 R2D2, or the first variant, reached the goal, 1 it did not, 130 Ctrl-C.
"""

from contextlib import closing

from program import Course, add_plot, make_parser, parse, refuse_without, run

try:
    import jax.numpy as jnp
    import numpy as np
    from curve import save_curves
    from recurrent_q import HIDDEN, OPTIMIZER, act, make_net, update

    from cogrs import ReplayMemory, VectorEnv
except ImportError as missing:
    refuse_without(missing)

NUM_GAMES, PATIENCE = 32, 5  # games side by side; steps of an episode at most, times the length
GAMMA, MULTI_STEP = 0.97, 5  # rewards that are summed before the target net is asked
# Sequences are shorter than the way to the junction, so that most do not show the cue.
LENGTH, BURN_IN, PERIOD, BATCH_SIZE = 10, 5, 5, 64
CAPACITY, WARM_UP, ALPHA, BETA = 40_000, 5_000, 0.6, 0.6
SPAN = 50  # steps that the net's units remember at most, before it has learned
# Each game explores by its own epsilon, from 0.6 to 0.13 (Horgan et al. 2018, section 4).
EPSILON = 0.6 ** (1 + 3 * np.arange(NUM_GAMES) / (NUM_GAMES - 1))
TEST_PERIOD, TEST_GAMES = 250, 64  # updates between tests; episodes of a test
WINDOW = 4 * TEST_GAMES  # episodes in the mean return that is compared with the goal
# Whether a variant plays with a recurrent state, and whether it stores it.
VARIANTS = {"r2d2": (True, True), "zero-state": (True, False), "feedforward": (False, False)}


class Actors:
    """The games that fill the memory."""

    def __init__(self, envs, memory, seed, remembers, stores):
        """Reset all environments."""
        self.envs, self.remembers, self.stores = envs, remembers, stores
        self.writers = [memory.writer() for _ in range(NUM_GAMES)]
        for writer in self.writers:
            writer.new_episode()
        self.state, self.recurrent = envs.reset(seed=seed)[0], np.zeros((NUM_GAMES, HIDDEN), "f4")
        self.over, self.steps = np.zeros(NUM_GAMES, bool), 0

    def play(self, net, epsilon, rng):
        """Take a step in each game, and store it."""
        best, following = act(net, self.state, self.recurrent, self.remembers)
        explore = rng.random(NUM_GAMES) < epsilon
        action = np.where(
            explore, rng.integers(self.envs.single_action_space.n, size=NUM_GAMES), best
        )
        after, reward, terminated, truncated, _ = self.envs.step(action)
        for game in np.flatnonzero(~self.over):
            writer = self.writers[game]
            kept = {"recurrent": self.recurrent[game]} if self.stores else {}
            row = self.state[game], action[game], reward[game]
            writer.add_entry(*row, p=1, v=0, i=(), init_w=1, **kept)
            if terminated[game] or truncated[game]:
                ends = {"terminated": terminated[game], "truncated": truncated[game]}
                writer.close_episode(final_state=after[game], **ends)
                writer.new_episode()
        # The step after the last of an episode only begins the next.
        self.recurrent = np.where(self.over[:, None], np.float32(0), following)
        self.steps += int(np.sum(~self.over))
        self.state, self.over = after, terminated | truncated


def learn(nets, memory, remembers, stores):
    """Learn from sequences, and give their errors back as priorities; return the new nets."""
    burn_in = BURN_IN if stores else 0
    drawn = memory.sample_sequences(
        BATCH_SIZE, LENGTH, burn_in, MULTI_STEP, PERIOD, beta=BETA, nstep_return=True
    )
    rows = {
        key: getattr(drawn, key) for key in ("valid", "learn", "nstep_return", "nstep_discount")
    }
    rows |= {"state": drawn.steps.state[:, :, 0], "action": drawn.steps.action}
    recurrent = drawn.recurrent if stores else jnp.zeros((BATCH_SIZE, HIDDEN))
    nets, errors = update(
        nets, rows, recurrent, drawn.importance_weight, burn_in, MULTI_STEP, remembers
    )
    learned = drawn.learn[:, burn_in : burn_in + LENGTH]
    memory.update_priority(drawn.anchor_id, np.abs(errors), mask=learned)
    return nets


def test(net, envs, remembers):
    """Play an episode in each game without exploration; return their returns."""
    state, recurrent = envs.reset()[0], np.zeros((TEST_GAMES, HIDDEN), np.float32)
    returns, over = np.zeros(TEST_GAMES), np.zeros(TEST_GAMES, bool)
    while not over.all():
        action, recurrent = act(net, state, recurrent, remembers)
        state, reward, terminated, truncated, _ = envs.step(np.asarray(action))
        returns += reward * ~over
        over |= terminated | truncated
    return returns


def train(variant, args):
    """Train until the goal is reached; return (steps, mean return) of each test, and the code."""
    (remembers, stores), rng = VARIANTS[variant], np.random.default_rng(args.seed)
    options = {"length": args.length, "max_episode_steps": PATIENCE * args.length}
    with (
        closing(VectorEnv("tmaze", NUM_GAMES, num_threads=1, **options)) as envs,
        closing(VectorEnv("tmaze", TEST_GAMES, seed=args.seed, num_threads=1, **options)) as tested,
    ):
        spaces = envs.single_observation_space, envs.single_action_space
        kept = {"recurrent": np.zeros(HIDDEN, np.float32)} if stores else {}
        memory = ReplayMemory.from_spaces(
            *spaces, CAPACITY, gamma=GAMMA, n_step=MULTI_STEP, alpha=ALPHA, seed=args.seed, **kept
        )
        net = make_net(args.seed, spaces[0].shape[0], int(spaces[1].n), SPAN)
        nets, updates = (net, net, OPTIMIZER.init(net)), 0
        actors = Actors(envs, memory, args.seed, remembers, stores)
        returns, tests, course = [], [], Course(args, WINDOW)
        while course.goes_on(returns, actors.steps) and actors.steps < args.max_steps:
            learns = actors.steps >= WARM_UP
            actors.play(nets[0], EPSILON if learns else 1.0, rng)
            if not learns:
                continue
            nets, updates = learn(nets, memory, remembers, stores), updates + 1
            if updates % TEST_PERIOD == 0:
                # The target net, a mean of the latest ones, is the steadier player.
                returns.extend(test(nets[1], tested, remembers))
                tests.append((actors.steps, np.mean(returns[-TEST_GAMES:])))
    return tests, course.tell_end()


def main():
    """Train each variant; return the exit code of the first."""
    parser = make_parser(__doc__.splitlines()[0])
    parser.set_defaults(goal=0.95, max_seconds=600.0)
    parser.add_argument("--length", type=int, default=20, help="moves from the cue to the junction")
    parser.add_argument("--max-steps", type=int, default=300_000, help="steps of a variant at most")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=["r2d2"], metavar="NAME")
    args = parse(add_plot(parser))
    if args.length < 1:
        parser.error(f"--length must be >= 1, got {args.length}")
    curves, codes = {}, []
    for variant in args.variants:
        print(f"{variant}, a corridor of {args.length} cells, seed {args.seed}", flush=True)
        curves[variant], code = train(variant, args)
        codes.append(code)
    if args.plot:
        save_curves(
            curves, args.goal, f"T-maze of length {args.length}, seed {args.seed}", args.plot
        )
    return codes[0]


if __name__ == "__main__":
    run(main)
