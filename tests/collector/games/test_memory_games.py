"""`tmaze` and `repeat_previous`, whose reward depends on earlier states, beside models of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import pytest

import cogrs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

UP, RIGHT, DOWN = 0, 1, 2
CUES = {(1.0, 1.0, 0.0): UP, (0.0, 1.0, 1.0): DOWN}


class TMaze:
    """One maze, told by the rules: what a step pays, whether it ends, and what is seen then."""

    def __init__(self, cue: NDArray[np.float32], length: int) -> None:
        self.pays = CUES[tuple(cue.tolist())]
        self.length, self.cell = length, 0

    def step(self, action: int) -> tuple[float, bool]:
        if self.cell == self.length and action != RIGHT:
            return (1.0 if action == self.pays else -1.0), True
        self.cell = min(self.cell + (action == RIGHT), self.length)
        return 0.0, False

    def check(self, shown: NDArray[np.float32], noise: float) -> None:
        left, middle, right = shown.tolist()
        if self.cell == self.length:
            assert (left, middle, right) == (0, 1, 0)
        else:
            assert middle == 0
            assert np.float32(1) - np.float32(noise) <= min(left, right) <= max(left, right) <= 1


class Cards:
    """One game of cards: the suits so far."""

    def __init__(self, first: NDArray[np.float32], k: int, num_decks: int) -> None:
        self.k, self.total, self.suits = k, 52 * num_decks, [int(first.argmax())]

    def step(self, action: int, shown: NDArray[np.float32]) -> tuple[float, bool]:
        at = len(self.suits) - 1
        paid = 0.0
        if at >= self.k:
            hit = self.suits[at - self.k] == action
            paid = (1 if hit else -1) / (self.total - 1 - self.k)
        assert sorted(shown.tolist()) == [0, 0, 0, 1]
        self.suits.append(int(shown.argmax()))
        return paid, len(self.suits) == self.total


def played(
    game: str,
    count: int,
    steps: int,
    rng: np.random.Generator,
    chances: list[float],
    **options: Any,
) -> Iterator[tuple[Any, ...]]:
    """Random play: what was shown, the actions, and what came of them."""
    envs = cogrs.VectorEnv(game, count, seed=3, **options)
    shown, _ = envs.reset()
    for _ in range(steps):
        actions = rng.choice(len(chances), count, p=chances)
        after, *outcome, infos = envs.step(actions)
        assert infos == {}
        yield (shown, actions, after, *outcome)
        shown = after
    envs.close()


@pytest.mark.parametrize("length", [1, 3, 20])
@pytest.mark.parametrize("noise", [0.0, 0.25, 1.0])
def test_tmaze_follows_its_model_step_by_step(length: int, noise: float) -> None:
    rng = np.random.default_rng(length)
    models: list[TMaze | None] = []
    ends: list[float] = []
    play = played("tmaze", 6, 600, rng, [0.15, 0.7, 0.15], length=length, noise=noise)
    for shown, actions, after, rewards, terminated, truncated in play:
        assert after.dtype == np.float32
        assert not truncated.any()
        models = models or [TMaze(cue, length) for cue in shown]
        for at, model in enumerate(models):
            if model is None:
                # The step after an end shows the cue of the next episode.
                assert (rewards[at], terminated[at]) == (0, False)
                models[at] = TMaze(after[at], length)
                continue
            assert (rewards[at], terminated[at]) == model.step(actions[at])
            model.check(after[at], noise)
            if terminated[at]:
                ends.append(rewards[at])
                models[at] = None
    assert 10 < sum(each > 0 for each in ends) < len(ends) - 10


def test_noise_of_the_corridor_is_drawn_anew_in_each_state() -> None:
    envs = cogrs.VectorEnv("tmaze", 2, seed=0, length=50, noise=1.0)
    envs.reset()
    stay: Any = np.zeros(2, np.int64)
    seen = np.concatenate([envs.step(stay)[0][:, [0, 2]] for _ in range(200)])
    assert len(np.unique(seen)) > 700
    # Uniform in [0, 1]: the mean of 800 draws, 5 standard deviations.
    assert abs(seen.mean() - 0.5) < 5 * (1 / 12 / seen.size) ** 0.5
    envs.close()


@pytest.mark.parametrize("last", [UP, DOWN])
def test_policy_without_memory_has_mean_return_0_in_the_tmaze(last: int) -> None:
    count = 2_000
    envs = cogrs.VectorEnv("tmaze", count, seed=1, length=2)
    shown, _ = envs.reset()
    total = np.zeros(count)
    for _ in range(3):
        at_junction = (shown == [0, 1, 0]).all(axis=1)
        shown, rewards, terminated, *_ = envs.step(np.where(at_junction, last, RIGHT))
        total += rewards
    assert terminated.all()
    assert set(total) == {-1.0, 1.0}
    # The sum of 2,000 fair signs: 5 standard deviations, wrong once in 1.7 million.
    assert abs(total.sum()) < 5 * count**0.5
    envs.close()


def test_truncated_walk_in_the_tmaze_pays_nothing() -> None:
    envs = cogrs.VectorEnv("tmaze", 3, length=20, max_episode_steps=20)
    envs.reset(seed=0)
    forward: Any = np.full(3, RIGHT)
    outcomes = [envs.step(forward)[1:4] for _ in range(20)]
    assert not sum(rewards.any() for rewards, _, _ in outcomes)
    assert not any(terminated.any() for _, terminated, _ in outcomes)
    assert [truncated.all() for _, _, truncated in outcomes] == [False] * 19 + [True]
    envs.close()


@pytest.mark.parametrize(("k", "num_decks"), [(4, 1), (1, 1), (50, 1), (7, 2), (153, 3)])
def test_repeat_previous_follows_its_model_step_by_step(k: int, num_decks: int) -> None:
    rng = np.random.default_rng(k)
    models: list[Cards] = []
    steps = 52 * num_decks - 1
    play = played("repeat_previous", 4, steps, rng, [0.25] * 4, k=k, num_decks=num_decks)
    for shown, actions, after, rewards, terminated, truncated in play:
        assert after.dtype == np.float32
        models = models or [Cards(first, k, num_decks) for first in shown]
        for at, model in enumerate(models):
            paid, over = model.step(actions[at], after[at])
            assert rewards[at] == np.float32(paid)
            assert (terminated[at], truncated[at]) == (over, False)
    for model in models:
        assert np.bincount(model.suits).tolist() == [13 * num_decks] * 4
    assert len({tuple(model.suits) for model in models}) == 4


@pytest.mark.parametrize("right", [True, False])
def test_returns_of_repeat_previous_lie_in_minus_1_to_1(right: bool) -> None:
    envs = cogrs.VectorEnv("repeat_previous", 2, seed=5, k=3)
    shown, _ = envs.reset()
    seen, total = [shown.argmax(axis=1)], np.zeros(2)
    for _ in range(51):
        answer = seen[-4] if len(seen) > 3 else seen[0]
        shown, rewards, terminated, *_ = envs.step(answer if right else (answer + 1) % 4)
        seen.append(shown.argmax(axis=1))
        total += rewards
    assert terminated.all()
    np.testing.assert_allclose(total, 1 if right else -1, rtol=1e-6)
    envs.close()


def test_suits_of_repeat_previous_are_shuffled_evenly() -> None:
    """Suits at the first card, and pairs of the first two, in 4,000 episodes."""
    envs = cogrs.VectorEnv("repeat_previous", 4_000, seed=2)
    first = envs.reset()[0].argmax(axis=1)
    second = envs.step(np.zeros(4_000, np.int64))[0].argmax(axis=1)
    counts = np.zeros((4, 4))
    np.add.at(counts, (first, second), 1)
    expected = np.where(np.eye(4), 12, 13) * 4_000 * 13 / (52 * 51)
    # Chi-square with 15 degrees of freedom exceeds 44.3 once in 10,000.
    assert ((counts - expected) ** 2 / expected).sum() < 44.3
    envs.close()


@pytest.mark.parametrize(
    ("game", "options", "error", "text"),
    [
        ("tmaze", {"length": 0}, ValueError, r"length: expected an integer from 1 to .*, got 0$"),
        ("tmaze", {"length": 2.5}, ValueError, r"length: expected an integer .*, got 2\.5$"),
        ("tmaze", {"length": 2**32}, ValueError, r"length: expected an integer .*, got 4294967296"),
        ("tmaze", {"length": "3"}, TypeError, r"length: expected a finite number, got str$"),
        ("tmaze", {"length": True}, TypeError, r"length: expected a finite number, got bool$"),
        ("tmaze", {"noise": 1.5}, ValueError, r"noise: expected a number from 0 to 1, got 1\.5$"),
        ("tmaze", {"noise": np.nan}, ValueError, "noise: expected a finite number, got nan"),
        ("tmaze", {"lenght": 3}, TypeError, "lenght: .*did you mean 'length'"),
        ("cartpole", {"length": 3}, TypeError, "length: .* has no such option"),
        (
            "repeat_previous",
            {"k": 51},
            ValueError,
            r"k: expected an integer from 1 to 50 for num_decks=1, got 51$",
        ),
        ("repeat_previous", {"num_decks": 0}, ValueError, "num_decks: expected an integer from 1"),
    ],
)
def test_wrong_option_is_refused_by_name(
    game: str, options: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        cogrs.VectorEnv(game, 2, **options)
    with pytest.raises(error, match=text):
        cogrs.GameContext(game, cogrs.ContextOptions(), **options)


def test_options_of_a_game_context_come_as_an_object_and_by_keyword() -> None:
    from cogrs.collector.games.tmaze import GameOptions

    given = GameOptions(length=7)
    context: Any = cogrs.GameContext("tmaze", cogrs.ContextOptions(), given, max_episode_steps=9)
    assert context.options == GameOptions(max_episode_steps=9, length=7)
    assert given == GameOptions(length=7), "the caller's object stays as it is"


def test_core_refuses_an_option_that_the_game_does_not_have() -> None:
    for game in cogrs.collector.BUILT_IN:
        with pytest.raises(ValueError, match=r'options: expected .*, got "length_"'):
            cogrs._core.game_spec(game, {"length_": 1})


def test_gymnasium_passes_options_to_the_games() -> None:
    env = gymnasium.make("cogrs/TMaze-v0", length=2)
    shown, _ = env.reset(seed=4)
    pays = CUES[tuple(shown.tolist())]
    assert [env.step(RIGHT)[1] for _ in range(2)] == [0, 0]
    assert env.step(pays)[1:4] == (1.0, True, False)
    env.close()
    envs = gymnasium.make_vec("cogrs/RepeatPrevious-v0", 2, k=1, num_decks=2)
    envs.reset(seed=0)
    forever: Any = np.zeros(2, np.int64)
    ends = [envs.step(forever)[2].all() for _ in range(103)]
    assert ends == [False] * 102 + [True]
    envs.close()
    with pytest.raises(TypeError, match="num_envs"):
        gymnasium.make("cogrs/TMaze-v0", num_envs=3)
