"""Double Q-learning of a small network of action values."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from cogrs.workers import pack_arrays, unpack_arrays

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from cogrs.replay import NStepBatch

GAMMA = 0.99
HIDDEN = (64, 64)
_RATE = 1e-3
_TARGET_RATE = 0.01
"""The target net follows smoothly (Lillicrap et al. 2016, section 3)."""
_MONTE_CARLO = 0.1
"""Share of the observed return in targets, which keeps bootstrapped values from drifting: mixed
Monte Carlo update (Bellemare et al. 2016; Ostrovski et al. 2017)."""

UPDATES = "updates"
"""Name of the update count among published parameters."""

Arrays = dict[str, Any]


def draw_parameters(state_size: int, num_action: int, seed: int) -> Arrays:
    """Draw parameters, scaled for ReLU (He et al. 2015, section 2.2)."""
    draw = np.random.default_rng(seed).normal
    parameters: Arrays = {}
    for layer, (m, n) in enumerate(pairwise((state_size, *HIDDEN, num_action))):
        parameters[f"weight{layer}"] = draw(0, (2 / m) ** 0.5, (m, n)).astype(np.float32)
        parameters[f"bias{layer}"] = np.zeros(n, np.float32)
    return parameters


def action_values(parameters: Arrays, states: Any, maximum: Callable[..., Any] = np.maximum) -> Any:
    """Return the value of each action, (k, num_action); NumPy's or JAX's arrays, as states are."""
    for layer in range(len(HIDDEN)):
        states = maximum(states @ parameters[f"weight{layer}"] + parameters[f"bias{layer}"], 0)
    return states @ parameters[f"weight{len(HIDDEN)}"] + parameters[f"bias{len(HIDDEN)}"]


class QLearner:
    """Double Q-learning (van Hasselt et al. 2016) from prioritized batches."""

    def __init__(self, parameters: Arrays) -> None:
        import jax
        import optax

        self._updates = 0
        self._optimizer = optax.adam(_RATE)
        self._nets = (parameters, parameters, self._optimizer.init(parameters))
        self._step = jax.jit(self._make_step())

    @property
    def parameters(self) -> Arrays:
        """The present parameters."""
        return self._nets[0]

    @property
    def published(self) -> Arrays:
        """The parameters with their update count, for actors."""
        return {**self.parameters, UPDATES: np.int64(self._updates)}

    def state(self) -> bytes:
        """Return nets, optimizer state and update count as bytes."""
        import jax

        leaves = jax.tree.leaves(self._nets)
        arrays = {str(index): np.asarray(leaf) for index, leaf in enumerate(leaves)}
        return pack_arrays({UPDATES: np.int64(self._updates), **arrays})

    def restore(self, state: bytes) -> None:
        """Take over a state that `state` returned; ValueError for that of another net."""
        import jax

        arrays = unpack_arrays(state)
        updates = int(arrays.pop(UPDATES))
        leaves, form = jax.tree.flatten(self._nets)
        shapes = [np.shape(leaf) for leaf in leaves]
        got = [array.shape for array in arrays.values()]
        if got != shapes:
            raise ValueError(f"state: expected arrays of {shapes}, got {got}")
        self._nets, self._updates = jax.tree.unflatten(form, arrays.values()), updates

    def update(self, batch: NStepBatch, weights: npt.NDArray[np.float32]) -> float:
        """Learn from a batch with a weight per row; return the loss."""
        prev, following = batch.prev, batch.next
        self._nets, loss = self._step(
            self._nets,
            (prev.state[:, 0], prev.action, prev.qvest),
            (following.state[:, 0], batch.nstep_return, batch.nstep_discount),
            weights,
        )
        self._updates += 1
        return float(loss)

    def _make_step(self) -> Callable[..., Any]:
        import jax
        import jax.numpy as jnp
        import optax

        def step(nets: Any, prev: Any, following: Any, weights: Any) -> Any:
            parameters, target, moments = nets
            state, action, seen = prev
            next_state, rewards, discount = following
            rows = jnp.arange(len(rewards))
            best = action_values(parameters, next_state, jnp.maximum).argmax(axis=1)
            future = action_values(target, next_state, jnp.maximum)[rows, best]
            goal = rewards + discount * future
            goal = (1 - _MONTE_CARLO) * goal + _MONTE_CARLO * seen

            def loss_of(parameters: Any) -> Any:
                errors = goal - action_values(parameters, state, jnp.maximum)[rows, action]
                return jnp.mean(weights * optax.losses.huber_loss(errors))

            loss, slope = jax.value_and_grad(loss_of)(parameters)
            change, moments = self._optimizer.update(slope, moments)
            parameters = optax.apply_updates(parameters, change)
            target = optax.incremental_update(parameters, target, _TARGET_RATE)
            return (parameters, target, moments), loss

        return step
