"""Learn CartPole by actor-critic from batches of games: `python elf_a2c.py --seed 1`.

An "actor" answers states with actions and their values, an "optimizer" learns from histories of
what was answered (advantage actor-critic; Mnih et al. 2016). The games run in Rust. A mean return
of 195 takes some 200,000 to 400,000 steps.
Exit codes: 0 the goal was reached, 1 it was not, 130 Ctrl-C.
"""

from program import Course, add_plot, make_parser, parse, refuse_without, run

try:
    import jax
    import numpy as np
    from actor_critic import HIDDEN, OPTIMIZER, decide, learn, make_net

    import cogrs
except ModuleNotFoundError as missing:
    refuse_without(missing)

NUM_GAMES, HISTORY = 32, 34  # games side by side; states of a history
WINDOW = 100  # episodes in the mean return that is compared with the goal


class Learner:
    """The callbacks of both collectors, and what they share."""

    def __init__(self, games, seed):
        """Draw a net for the games."""
        sizes = (*games.params["state_shape"], *HIDDEN, games.params["num_action"] + 1)
        self.net = make_net(seed, sizes)
        self.optimizer, self.key = OPTIMIZER.init(self.net), jax.random.key(seed)
        self.paid = np.zeros(NUM_GAMES)
        self.returns, self.steps, self.version = [], 0, 0

    def act(self, batch, _batch_gpu, reply):
        """Answer states with actions, and add up the returns of episodes."""
        now = batch[0]
        self.paid[now["id"]] += now["last_r"]
        over = now["id"][(now["last_terminal"] | now["last_truncated"]) == 1]
        self.returns.extend(self.paid[over])
        self.paid[over] = 0
        self.steps += int((now["seq"] > 0).sum())
        self.key, a, pi, values = decide(self.net, now["s"], self.key)
        reply[0].update(a=a, pi=pi, V=values, rv=self.version)

    def optimize(self, batch, _batch_gpu, _reply):
        """Learn from histories, which are copied: arrays of a batch are used again."""
        arrays = {key: np.stack([each[key] for each in batch]) for key in batch[0]}
        self.net, self.optimizer = learn(self.net, self.optimizer, arrays)
        self.version += 1


def describe(num_action):
    """Describe the batches."""
    actor = dict.fromkeys(("id", "seq", "s", "last_r", "last_terminal", "last_truncated"), "")
    reply = {"rv": "", "pi": num_action, "V": "1", "a": "1"}
    optimizer = dict.fromkeys(("s", "a", "r", "V", "terminal", "truncated"), "")
    return {
        "actor": ({**actor, "_batchsize": NUM_GAMES}, reply),
        "optimizer": ({**optimizer, "_batchsize": NUM_GAMES, "_T": HISTORY}, None),
    }


def main():
    """Learn until the goal is reached; return the exit code."""
    parser = make_parser(__doc__.splitlines()[0])
    add_plot(parser)
    args = parse(parser)
    co = cogrs.ContextOptions(num_games=NUM_GAMES, seed=args.seed, num_threads=1)
    context = cogrs.GameContext("cartpole", co)
    described = describe(context.GetParams()["num_action"])
    course = Course(args, WINDOW)
    with cogrs.GCWrapper(context, co, described) as games:
        learner = Learner(games, args.seed)
        games.reg_callback("actor", learner.act)
        games.reg_callback("optimizer", learner.optimize)
        games.Start()
        while course.goes_on(learner.returns, learner.steps):
            games.Run()
    return course.end(learner.returns, f"Actor-critic, CartPole, seed {args.seed}")


if __name__ == "__main__":
    run(main)
