"""A small net in NumPy that values the columns of Connect Four."""

import numpy as np

CELLS, COLUMNS = 2 * 6 * 7, 7  # own discs and the other's
HIDDEN, RATE, GAMES_AT_ONCE = 64, 0.1, 16


class ColumnNet:
    """Learns the value of a disc in each column, to the side that drops it."""

    def __init__(self, rng):
        """Draw a net (Glorot and Bengio 2010)."""
        self._games = []
        self.layers = [rng.normal(0, CELLS**-0.5, (CELLS, HIDDEN)), np.zeros((HIDDEN, COLUMNS))]

    def __call__(self, boards):
        """Return the values of all columns."""
        return np.tanh(boards @ self.layers[0]) @ self.layers[1]

    def remember(self, boards, columns, goals):
        """Keep the moves of a game; learn when there are those of enough games."""
        self._games.append((boards, columns, goals))
        if len(self._games) == GAMES_AT_ONCE:
            self.learn(*map(np.concatenate, zip(*self._games, strict=True)))
            self._games = []

    def learn(self, boards, columns, goals):
        """Move the values of the chosen columns towards the results of the games."""
        hidden, rows = np.tanh(boards @ self.layers[0]), np.arange(len(goals))
        errors = np.zeros((len(goals), COLUMNS))
        errors[rows, columns] = goals - (hidden @ self.layers[1])[rows, columns]
        back = (errors @ self.layers[1].T) * (1 - hidden**2)
        self.layers[0] += RATE * boards.T @ back / len(goals)
        self.layers[1] += RATE * hidden.T @ errors / len(goals)
