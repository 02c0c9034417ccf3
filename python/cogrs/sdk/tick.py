"""Which stored step a reward belongs to: the one rule that everything follows."""

from __future__ import annotations


def step_of_reward(tick: int) -> int | None:
    """Return the step that a reward of a tick is about.

    An actor observes at tick k and acts; the reward for that action arrives with the observation of
    tick k + 1 and has that tick. In replay a reward lies with its action. So the step is the tick
    before the reward's, whoever gave it and whenever it comes.

    Args:
        tick: The reward's tick, >= 0.

    Returns:
        The step, counted from 0; None for tick 0, before which nobody has acted.
    """
    return tick - 1 if tick > 0 else None
