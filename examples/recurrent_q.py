"""R2D2's net, a GRU with values of actions, and one step of learning it from sequences.

Kapturowski et al. (2019), "Recurrent Experience Replay in Distributed Reinforcement Learning". It
is smaller than theirs: a GRU instead of an LSTM, which does not see actions and rewards.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

HIDDEN = 32
OPTIMIZER = optax.chain(optax.clip_by_global_norm(10.0), optax.adam(1e-3))
TARGET_RATE = 0.01  # the target net follows smoothly (Lillicrap et al. 2016, section 3)
RESCALING = 1e-3  # epsilon of h


def make_net(seed, num_inputs, num_actions, span):
    """Draw parameters; units keep what they hold for 1 to `span` steps, each its own time.

    After Tallec and Ollivier (2018), "Can recurrent neural networks warp time?", section 2.
    """
    rng = np.random.default_rng(seed)

    def draw(rows, columns):
        return jnp.array(rng.normal(0, rows**-0.5, (rows, columns)), jnp.float32)

    def draw_both(columns):  # of the observed and of the recurrent state
        return jnp.concatenate([draw(num_inputs, columns), draw(HIDDEN, columns)])

    keep = jnp.log(jnp.array(rng.uniform(1, span, HIDDEN), jnp.float32))
    return {
        "gates": (draw_both(2 * HIDDEN), jnp.append(keep, jnp.zeros(HIDDEN))),
        "candidate": (draw_both(HIDDEN), jnp.zeros(HIDDEN)),
        "hidden": (draw(HIDDEN, HIDDEN), jnp.zeros(HIDDEN)),
        "values": (draw(HIDDEN, num_actions), jnp.zeros(num_actions)),
    }


def look(net, state, recurrent):
    """Take in a state; return the value of each action, and the next recurrent state."""
    gates = jax.nn.sigmoid(layer(net["gates"], state, recurrent))
    keep, read = gates[..., :HIDDEN], gates[..., HIDDEN:]
    candidate = jnp.tanh(layer(net["candidate"], state, read * recurrent))
    recurrent = keep * recurrent + (1 - keep) * candidate
    return layer(net["values"], jax.nn.relu(layer(net["hidden"], recurrent))), recurrent


def layer(parameters, *inputs):
    """Apply weights and biases."""
    weights, biases = parameters
    return jnp.concatenate(inputs, -1) @ weights + biases


@partial(jax.jit, static_argnames="remembers")
def act(net, state, recurrent, remembers):
    """Return the best action of each game, and the next recurrent states."""
    values, following = look(net, state, recurrent)
    return values.argmax(-1), following if remembers else recurrent


def unroll(net, state, valid, recurrent, remembers):
    """Return the values (T, n, actions) along sequences, and the last recurrent states.

    Where a row is not valid, state and values stay as they were.
    """

    def step(before, row):
        values, following = look(net, row[0], before[1])
        after = values, following if remembers else before[1]
        after = jax.tree.map(partial(jnp.where, row[1][:, None]), after, before)
        return after, after[0]

    start = jnp.zeros((state.shape[1], net["values"][1].size)), recurrent
    (_, recurrent), values = jax.lax.scan(step, start, (state, valid))
    return values, recurrent


def rescale(value):
    """Apply h, which makes large values smaller (Pohlen et al. 2018)."""
    return jnp.sign(value) * (jnp.sqrt(jnp.abs(value) + 1) - 1) + RESCALING * value


def unscale(value):
    """Apply the inverse of h."""
    root = jnp.sqrt(1 + 4 * RESCALING * (jnp.abs(value) + 1 + RESCALING))
    return jnp.sign(value) * (((root - 1) / (2 * RESCALING)) ** 2 - 1)


@partial(jax.jit, static_argnames=("burn_in", "multi_step", "remembers"))
def update(nets, rows, recurrent, weights, burn_in, multi_step, remembers):
    """Take one step of double Q-learning from sequences; arrays of rows are (n, T, ...).

    Returns:
        The nets, and the error of each learned step, (n, length).
    """
    net, target, optimizer = nets
    rows = {key: jnp.swapaxes(array, 0, 1) for key, array in rows.items()}
    learned = slice(burn_in, len(rows["state"]) - multi_step)

    def values_of(net):
        first, rest = (rows["state"][:burn_in], rows["valid"][:burn_in]), slice(burn_in, None)
        start = jax.lax.stop_gradient(unroll(net, *first, recurrent, remembers)[1])
        return unroll(net, rows["state"][rest], rows["valid"][rest], start, remembers)[0]

    def pick(values, action):
        return jnp.take_along_axis(values, action[..., None], -1)[..., 0]

    # The state after `multi_step` steps is that many rows on.
    ahead = values_of(target)[multi_step:]
    mask = rows["learn"][learned]

    def loss_of(net):
        values = values_of(net)
        best = values[multi_step:].argmax(-1)
        future = rows["nstep_discount"][learned] * unscale(pick(ahead, best))
        goal = jax.lax.stop_gradient(rescale(rows["nstep_return"][learned] + future))
        errors = (goal - pick(values[:-multi_step], rows["action"][learned])) * mask
        return jnp.sum(weights * errors**2) / mask.sum(), errors

    slope, errors = jax.grad(loss_of, has_aux=True)(net)
    change, optimizer = OPTIMIZER.update(slope, optimizer)
    net = optax.apply_updates(net, change)
    target = optax.incremental_update(net, target, TARGET_RATE)
    return (net, target, optimizer), errors.T
