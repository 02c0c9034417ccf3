"""Cards are shown one after the other; each action names the suit of the card `k` steps before.

`RepeatPrevious` of POPGym (Morad et al. 2023), where k counts the present card too: its `k=4` is
`k=3` here.

`s` is float32 (4,): 1 at the suit of the present card, 0 elsewhere. `a` is int64: a suit, 0 to 3;
anything else ends the run with an error. The cards of an episode are `num_decks` decks of 52 cards,
13 of each suit, shuffled. Where a card was shown k steps before, an action pays
1 / (52 num_decks - 1 - k) if it names that card's suit, else minus as much; the first k actions pay
0. The episode terminates with its last card, after 52 num_decks - 1 actions, so the return lies in
[-1, 1]: 1 is perfect, and guesses without memory come to -0.5 in the mean.

Options: `k=4`, an integer from 1 to 52 num_decks - 2; `num_decks=1`, an integer >= 1. POPGym's
three levels are k=3, k=31 with two decks, and k=63 with three. Episodes are truncated after
`max_episode_steps=1000` actions, less than 20 decks have.
"""

from __future__ import annotations

from cogrs.collector.built_in import define_game
from cogrs.collector.options import ContextOptions

__all__ = ["ContextOptions", "GameContext", "GameOptions", "RepeatPreviousContext"]

RepeatPreviousContext, GameOptions = define_game(
    "repeat_previous", {"k": 4, "num_decks": 1}, s=(0, 1)
)
GameContext = RepeatPreviousContext
