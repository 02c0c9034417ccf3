"""A prioritized double DQN with many actors, in NumPy: its policy and its learner.

After Horgan et al. 2018 (Ape-X): actor i explores by a rate of its own, and the learner's errors
become priorities. The net has one hidden layer, so that nothing but NumPy is needed.
"""

import numpy as np

HIDDEN, RATE, TARGET_RATE, BETA = 64, 1e-3, 0.01, 0.4


def values(net, states):
    """Return the values of all actions, and the hidden layer."""
    hidden = np.maximum(states @ net["w0"] + net["b0"], 0.0)
    return hidden @ net["w1"] + net["b1"], hidden


class Policy:
    """Greedy, but for a share of the actions that depends on the actor."""

    def __init__(self, context):
        self.rng = np.random.default_rng(context.seed)
        self.actions = int(context.action_space.n)
        self.net = None
        # Horgan et al. 2018, section 4.1: 0.4 ** (1 + 7 i / (N - 1)).
        self.epsilon = 0.4 ** (1 + 7 * context.index / max(1, context.actors - 1))

    def load(self, parameters):
        """Take the newest net."""
        self.net = parameters

    def act(self, observations):
        """Return an action for each environment."""
        random = self.rng.integers(self.actions, size=len(observations))
        if self.net is None:
            return random
        greedy = values(self.net, observations)[0].argmax(axis=1)
        return np.where(self.rng.random(len(greedy)) < self.epsilon, random, greedy)


class Learner:
    """Double Q-learning with Adam (Kingma and Ba 2015)."""

    def __init__(self, observation_space, action_space):
        rng = np.random.default_rng(0)
        sizes = (*observation_space.shape, HIDDEN, int(action_space.n))
        self.net = {}
        for at in range(2):
            scale = (2 / sizes[at]) ** 0.5
            self.net[f"w{at}"] = rng.normal(0, scale, sizes[at : at + 2]).astype(np.float32)
            self.net[f"b{at}"] = np.zeros(sizes[at + 1], np.float32)
        self.target = {name: array.copy() for name, array in self.net.items()}
        self.first = {name: np.zeros_like(array) for name, array in self.net.items()}
        self.second = {name: np.zeros_like(array) for name, array in self.net.items()}
        self.steps = 0

    def update(self, batch):
        """Learn from a batch; return the errors."""
        rows = np.arange(len(batch.weight))
        state, after = batch.prev.state[:, 0], batch.next.state[:, 0]
        best = values(self.net, after)[0].argmax(axis=1)
        future = values(self.target, after)[0][rows, best]
        # The discount is 0 where the episode terminated.
        goal = batch.nstep_return + batch.nstep_discount * future
        given, hidden = values(self.net, state)
        error = goal - given[rows, batch.prev.action]
        correction = (1 / np.maximum(batch.weight, 1e-6)) ** BETA
        slope = np.zeros_like(given)
        slope[rows, batch.prev.action] = (
            -np.clip(error, -1, 1) * correction / correction.max() / len(rows)
        )
        back = (slope @ self.net["w1"].T) * (hidden > 0)
        self._descend(
            {"w1": hidden.T @ slope, "b1": slope.sum(0), "w0": state.T @ back, "b0": back.sum(0)}
        )
        return np.abs(error)

    def _descend(self, slopes):
        self.steps += 1
        for name, slope in slopes.items():
            self.first[name] += 0.1 * (slope - self.first[name])
            self.second[name] += 0.001 * (slope**2 - self.second[name])
            mean = self.first[name] / (1 - 0.9**self.steps)
            spread = np.sqrt(self.second[name] / (1 - 0.999**self.steps))
            self.net[name] -= RATE * mean / (spread + 1e-8)
            self.target[name] += TARGET_RATE * (self.net[name] - self.target[name])

    def parameters(self):
        """Return the net for the policies."""
        return self.net

    def state(self):
        """Return all that the learner goes on with."""
        parts = {"net": self.net, "target": self.target, "m": self.first, "v": self.second}
        state = {f"{part}.{name}": each for part, of in parts.items() for name, each in of.items()}
        return {**state, "steps": np.int64(self.steps)}

    def restore(self, state):
        """Go on with a state."""
        parts = {"net": self.net, "target": self.target, "m": self.first, "v": self.second}
        for part, arrays in parts.items():
            for name in arrays:
                arrays[name] = np.array(state[f"{part}.{name}"])
        self.steps = int(state["steps"])
