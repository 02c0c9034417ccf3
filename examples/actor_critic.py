"""Advantage actor-critic (Mnih et al. 2016) from histories of many games."""

from functools import partial
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import optax

GAMMA, LAMBDA = 0.99, 0.95  # generalized advantages (Schulman et al. 2016)
ENTROPY, VALUE_LOSS = 0.01, 0.5  # weights in the loss
HIDDEN, OPTIMIZER = (64, 64), optax.chain(optax.clip_by_global_norm(0.5), optax.adam(1e-2))


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
