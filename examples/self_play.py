"""Learn Connect Four from self-play: `python self_play.py --games 5000`.

White and black are collectors of their own. Each learns the value of every column from the ends of
its games (Monte Carlo control; Sutton and Barto 2018, section 5.4), by a small net in NumPy.
"""

import argparse

import numpy as np
from column_net import CELLS, ColumnNet
from program import run

import cogrs

NUM_GAMES, BATCH_SIZE, TEST_GAMES = 64, 32, 500  # side by side; rows of a batch; at the end
GAMMA, EPSILON, MOVES = 0.95, 0.1, 21  # moves of a side at most
KEYS = dict.fromkeys(("id", "s", "action_mask", "last_r", "last_terminal"), "")


class Player:
    """One side: plays by its net or at random, and counts the results of its games."""

    def __init__(self, rng, epsilon):
        """Draw a net; with `epsilon` 1 it plays at random."""
        self.rng, self.epsilon, self.results = rng, epsilon, []
        self.net = ColumnNet(rng)

    def start(self):
        """Forget the moves and results of earlier games."""
        self.boards = np.zeros((NUM_GAMES, MOVES, CELLS))
        self.columns = np.zeros((NUM_GAMES, MOVES), int)
        self.moves, self.paid, self.results = np.zeros(NUM_GAMES, int), np.zeros(NUM_GAMES), []

    def __call__(self, batch, _batch_gpu, reply):
        """Answer a batch, whose rows are games in which this side is to move or that are over."""
        now = batch[0]
        self.paid[now["id"]] += now["last_r"]
        for game in now["id"][now["last_terminal"] == 1]:
            self.finish(game)
        boards, legal = now["s"].reshape(-1, CELLS).astype(float), now["action_mask"]
        greedy = np.where(legal, self.net(boards), -np.inf).argmax(axis=1)
        draw = (legal * (1 + self.rng.random(legal.shape))).argmax(axis=1)
        reply[0]["a"] = columns = np.where(self.rng.random(len(legal)) < self.epsilon, draw, greedy)
        # The last state of a game is shown too, where no column is legal.
        games = now["id"][on := legal.any(axis=1)]
        self.boards[games, self.moves[games]] = boards[on]
        self.columns[games, self.moves[games]] = columns[on]
        self.moves[games] += 1

    def finish(self, game):
        """Count the result of a game, and learn from it."""
        moves, result = self.moves[game], int(self.paid[game])
        self.moves[game] = self.paid[game] = 0
        self.results.append(result)
        if 0 < self.epsilon < 1:
            past = self.boards[game, :moves].copy(), self.columns[game, :moves].copy()
            self.net.remember(*past, result * GAMMA ** np.arange(moves)[::-1])


def play(count, seed, white, black, show=False):
    """Play this many games; return how many of them white won, drew and lost."""
    co = cogrs.ContextOptions(num_games=NUM_GAMES, seed=seed)
    players, described = {"white": white, "black": black}, {}
    for name, player in players.items():
        described[name] = ({**KEYS, "_name": name, "_batchsize": BATCH_SIZE}, {"a": ""})
        player.start()
    with cogrs.GCWrapper(cogrs.GameContext("connect_four", co), co, described) as games:
        for name, player in players.items():
            games.reg_callback(name, player)
        games.Start()
        for tenth in range(1, 11):
            while len(white.results) * 10 < count * tenth:
                games.Run()
            if show:
                print(f"{len(white.results)} of {count} games", flush=True)
    return [white.results[:count].count(result) for result in (1, 0, -1)]


def main():
    """Learn, then let each side play against random moves."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--games", type=int, default=5_000, help="games of self-play")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.games < 1 or args.seed < 0:
        parser.error("--games must be >= 1, and --seed >= 0")
    rng = np.random.default_rng(args.seed)
    white, black, random = (Player(rng, epsilon) for epsilon in (EPSILON, EPSILON, 1.0))
    play(args.games, args.seed, white, black, show=True)
    white.epsilon = black.epsilon = 0.0
    print(f"{'white':10}{'black':10}{'won':>8}{'drawn':>8}{'lost':>8}")
    rows = ("learned", white, "random", random), ("random", random, "learned", black)
    for name, player, other_name, other in rows:
        counts = play(TEST_GAMES, args.seed + 1, player, other)
        print(f"{name:10}{other_name:10}" + "".join(f"{count:8}" for count in counts))


if __name__ == "__main__":
    run(main)
