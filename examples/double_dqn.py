"""A double DQN (van Hasselt et al. 2016): its nets, and one step of learning them."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import optax

# Sizes for a small environment.
BATCH_SIZE, GAMMA, HIDDEN, OPTIMIZER = 64, 0.99, (64, 64), optax.adam(1e-3)
TARGET_RATE = 0.01  # the target net follows smoothly (Lillicrap et al. 2016, section 3)
# Mixed Monte Carlo update (Bellemare et al. 2016; Ostrovski et al. 2017): a little of the return
# that was really seen keeps bootstrapped values from drifting.
MONTE_CARLO = 0.1


def make_nets(env, seed):
    """Draw parameters; return them, those of the target net and the optimizer's state."""
    dims = (*env.observation_space.shape, *HIDDEN, int(env.action_space.n))
    draw = np.random.default_rng(seed).normal  # scaled for ReLU (He et al. 2015, section 2.2)
    params = [(jnp.array(draw(0, (2 / m) ** 0.5, (m, n))), jnp.zeros(n)) for m, n in pairwise(dims)]
    return params, params, OPTIMIZER.init(params)


@jax.jit
def update(nets, prev, ahead, weights):
    """Take one step of double Q-learning; return new nets, the loss and the errors."""
    params, target, optimizer = nets
    # A sampled state is a stack of frames, oldest first; here always of one frame.
    following, rewards, discount = ahead
    state, next_state, rows = prev.state[:, 0], following.state[:, 0], jnp.arange(BATCH_SIZE)
    best = q_values(params, next_state).argmax(axis=1)
    future = q_values(target, next_state)[rows, best]
    # The discount is 0 where the episode terminated, so ends need no case of their own.
    goal = (1 - MONTE_CARLO) * (rewards + discount * future) + MONTE_CARLO * prev.qvest

    def loss_of(params):
        errors = goal - q_values(params, state)[rows, prev.action]
        return jnp.mean(weights * optax.losses.huber_loss(errors)), errors

    (loss, errors), slope = jax.value_and_grad(loss_of, has_aux=True)(params)
    change, optimizer = OPTIMIZER.update(slope, optimizer)
    params = optax.apply_updates(params, change)
    target = optax.incremental_update(params, target, TARGET_RATE)
    return (params, target, optimizer), loss, errors


@jax.jit
def q_values(params, states):
    """Return the value of each action, for one state or a batch."""
    for weight, bias in params[:-1]:
        states = jax.nn.relu(states @ weight + bias)
    return states @ params[-1][0] + params[-1][1]
