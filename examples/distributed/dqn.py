"""A double DQN for CartPole: its parameters, and one step of learning them."""

import os
from itertools import pairwise

from shared import q_values

os.environ.setdefault("JAX_PLATFORMS", "cpu")  # nets this small gain nothing from a GPU
import jax
import jax.numpy as jnp
import numpy as np
import optax

DIMS, OPTIMIZER, BATCH_SIZE, GAMMA = (4, 64, 64, 2), optax.adam(1e-3), 64, 0.99
TARGET_RATE, MONTE_CARLO = 0.01, 0.1  # as in ../replay_local.py, which says where they are from


def draw_params(seed):
    """Draw parameters, scaled for ReLU (He et al. 2015, section 2.2)."""
    draw, params = np.random.default_rng(seed).normal, {}
    for layer, (m, n) in enumerate(pairwise(DIMS)):
        params[f"w{layer}"] = draw(0, (2 / m) ** 0.5, (m, n)).astype(np.float32)
        params[f"b{layer}"] = np.zeros(n, np.float32)
    return params


@jax.jit
def update(nets, batch, weights):
    """Take one step of double Q-learning; return the new nets and the loss."""
    params, target, optimizer = nets
    prev, following = batch.prev, batch.next
    # A sampled state is a stack of frames, oldest first; here always of one frame.
    state, next_state, rows = prev.state[:, 0], following.state[:, 0], jnp.arange(BATCH_SIZE)
    best = q_values(params, next_state).argmax(axis=1)
    future = q_values(target, next_state)[rows, best]
    # The discount is 0 where the episode terminated, so ends need no case of their own.
    goal = batch.nstep_return + batch.nstep_discount * future
    goal = (1 - MONTE_CARLO) * goal + MONTE_CARLO * prev.qvest

    def loss_of(params):
        errors = goal - q_values(params, state)[rows, prev.action]
        return jnp.mean(weights * optax.losses.huber_loss(errors))

    loss, slope = jax.value_and_grad(loss_of)(params)
    change, optimizer = OPTIMIZER.update(slope, optimizer)
    params = optax.apply_updates(params, change)
    return (params, optax.incremental_update(params, target, TARGET_RATE), optimizer), loss
