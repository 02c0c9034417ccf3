"""Learn CartPole by actor-critic from batches of games: `python elf_a2c.py --seed 1`.

An "actor" answers states with actions and their values, an "optimizer" learns from histories of
what was answered (advantage actor-critic; Mnih et al. 2016). The games run in Rust. A mean return
of 195 takes some 200,000 to 400,000 steps.
Exit codes: 0 the goal was reached, 1 it was not, 130 Ctrl-C.
"""

import argparse
import os
import sys
import time
from collections import deque
from functools import partial
from itertools import pairwise

os.environ.setdefault("JAX_PLATFORMS", "cpu")  # nets this small gain nothing from a GPU
try:
    import jax
    import jax.numpy as jnp
    import numpy as np
    import optax

    import cogrs
except ModuleNotFoundError as missing:
    print(
        f'{missing.name} is not installed: pip install ".[demo]" in the checkout', file=sys.stderr
    )
    sys.exit(2)

NUM_GAMES, HISTORY = 32, 34  # games side by side; states of a history
GAMMA, LAMBDA = 0.99, 0.95  # generalized advantages (Schulman et al. 2016)
ENTROPY, VALUE_LOSS = 0.01, 0.5  # weights in the loss
HIDDEN, OPTIMIZER = (64, 64), optax.chain(optax.clip_by_global_norm(0.5), optax.adam(1e-2))
WINDOW = 100  # episodes in the mean return that is held against the goal


def make_net(seed, sizes):
    """Draw the layers of a net (Glorot and Bengio 2010); the last gives logits and a value."""
    draw = np.random.default_rng(seed).normal
    return [(jnp.array(draw(0, m**-0.5, (m, n))), jnp.zeros(n)) for m, n in pairwise(sizes)]


def forward(net, states):
    """Return logits and values of states."""
    for weight, bias in net[:-1]:
        states = jnp.tanh(states @ weight + bias)
    out = states @ net[-1][0] + net[-1][1]
    return out[..., :-1], out[..., -1]


@jax.jit
def decide(net, states, key):
    """Draw actions; return them, the probabilities of all actions and the values."""
    key, drawn = jax.random.split(key)
    logits, values = forward(net, states)
    return key, jax.random.categorical(drawn, logits), jax.nn.softmax(logits), values


def advantages(values, rewards, ends, acted):
    """Return generalized advantages of all states but the last, by rows (T, games).

    What follows a state is the next one of the batch: the end of an episode is worth nothing, a
    state where one was cut short what the critic says. Neither was acted in.
    """

    def back(later, row):
        value, reward, following, acted = row
        later = acted * (reward + GAMMA * (following + LAMBDA * later) - value)
        return later, later

    rows = values[:-1], rewards[:-1], (values * (1 - ends))[1:], acted[:-1]
    return jax.lax.scan(back, jnp.zeros_like(values[0]), rows, reverse=True)[1]


@partial(jax.jit, donate_argnums=(0, 1))
def learn(net, optimizer, batch):
    """Take one step; return the new net and the optimizer's state."""
    # Whether the newest state is an end will only be known in the next history. So the one before
    # is the last that values are taken from.
    batch = {key: value[:-1] for key, value in batch.items()}
    ends, acted = batch["terminal"], 1 - (batch["terminal"] | batch["truncated"])
    advantage = advantages(batch["V"], batch["r"], ends, acted)
    goals, acted = advantage + batch["V"][:-1], acted[:-1]

    def mean(values):
        return (values * acted).sum() / acted.sum()

    center = mean(advantage)
    scaled = (advantage - center) / (jnp.sqrt(mean((advantage - center) ** 2)) + 1e-6)

    def loss_of(net):
        logits, values = forward(net, batch["s"][:-1])
        logs = jax.nn.log_softmax(logits)
        chosen = jnp.take_along_axis(logs, batch["a"][:-1, :, None], axis=2)[..., 0]
        entropy = -(jnp.exp(logs) * logs).sum(axis=2)
        errors = (goals - values) ** 2
        return mean(-scaled * chosen - ENTROPY * entropy + VALUE_LOSS * errors)

    change, optimizer = OPTIMIZER.update(jax.grad(loss_of)(net), optimizer)
    return optax.apply_updates(net, change), optimizer


class Learner:
    """The callbacks of both collectors, and what they share."""

    def __init__(self, games, seed):
        """Draw a net for the games."""
        sizes = (*games.params["state_shape"], *HIDDEN, games.params["num_action"] + 1)
        self.net = make_net(seed, sizes)
        self.optimizer, self.key = OPTIMIZER.init(self.net), jax.random.key(seed)
        self.paid = np.zeros(NUM_GAMES)
        self.returns, self.steps, self.version = deque(maxlen=WINDOW), 0, 0

    def act(self, batch, _batch_gpu, reply):
        """Answer states; count what episodes paid."""
        now = batch[0]
        self.paid[now["id"]] += now["last_r"]
        over = now["id"][(now["last_terminal"] | now["last_truncated"]) == 1]
        self.returns.extend(self.paid[over])
        self.paid[over] = 0
        self.steps += int((now["seq"] > 0).sum())
        self.key, a, pi, values = decide(self.net, now["s"], self.key)
        reply[0].update(a=a, pi=pi, V=values, rv=self.version)

    def optimize(self, batch, _batch_gpu, _reply):
        """Learn from histories; arrays of a batch are used again, so they are copied."""
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
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--goal", type=float, default=195.0, help="mean return to reach")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max-seconds", type=float, default=120.0)
    args = parser.parse_args()
    if args.seed < 0:
        parser.error(f"--seed must be >= 0, got {args.seed}")
    co = cogrs.ContextOptions(num_games=NUM_GAMES, seed=args.seed, num_threads=1)
    context = cogrs.GameContext("cartpole", co)
    described = describe(context.GetParams()["num_action"])
    start = told = time.monotonic()
    reached = False
    with cogrs.GCWrapper(context, co, described) as games:
        learner = Learner(games, args.seed)
        games.reg_callback("actor", learner.act)
        games.reg_callback("optimizer", learner.optimize)
        games.Start()
        while not reached and (now := time.monotonic()) - start < args.max_seconds:
            games.Run()
            mean = float(np.mean(learner.returns or [0]))
            reached = len(learner.returns) == WINDOW and mean >= args.goal
            if reached or now - told >= 1:
                told = now
                print(f"{learner.steps} steps  mean return {mean:.1f}", flush=True)
    seconds = time.monotonic() - start
    print(f"Goal {'reached' if reached else 'not reached'} after {seconds:.1f} s")
    return 0 if reached else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
