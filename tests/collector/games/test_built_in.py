"""Every built-in game; those of Gymnasium beside Gymnasium's own."""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import pytest

import cogrs
from cogrs import _core
from cogrs.collector.games import BUILT_IN, GAMES
from tests.collector.build import actor, balance, rows, run, running

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

ROOT = Path(__file__).parents[3]
STEP_LIMITS = {"catch": 9, "connect_four": 42, "repeat_previous": 1000, "tmaze": 500}
PI = np.pi


@dataclass(frozen=True)
class Body:
    """One of Gymnasium's games: the states that are tried, and its state from what it shows."""

    env: str
    bounds: tuple[float, ...]
    state_of: Callable[[Any], list[float]] = list
    dtype: type = np.float64
    ends: tuple[int, int] = (0, 0)


BODIES = {
    "acrobot": Body(
        "Acrobot-v1",
        (PI, PI, 4 * PI, 9 * PI),
        lambda s: [np.arctan2(s[1], s[0]), np.arctan2(s[3], s[2]), s[4], s[5]],
        ends=(100, 500),
    ),
    "cartpole": Body("CartPole-v1", (3.0, 3.0, 0.3, 3.0), ends=(300, 900)),
    "mountain_car": Body("MountainCar-v0", (1.2, 0.07), ends=(20, 500)),
    # Gymnasium keeps float32 here.
    "mountain_car_continuous": Body(
        "MountainCarContinuous-v0", (1.2, 0.07), dtype=np.float32, ends=(20, 500)
    ),
    "pendulum": Body("Pendulum-v1", (3 * PI, 8.0), lambda s: [np.arctan2(s[1], s[0]), s[2]]),
}
by_body = pytest.mark.parametrize("game", BODIES)
by_game = pytest.mark.parametrize("game", BUILT_IN)


def make_env(game: str) -> Any:
    env: Any = gymnasium.make(BODIES[game].env).unwrapped
    env.reset()
    return env


def draw_actions(env: Any, count: int, rng: np.random.Generator) -> NDArray[Any]:
    """Actions for that many rows; continuous ones beyond the bounds too."""
    if hasattr(env.action_space, "n"):
        return rng.integers(env.action_space.n, size=count)
    high = 1.5 * float(env.action_space.high[0])
    return rng.uniform(-high, high, count).astype(np.float32)


def theirs(env: Any, action: Any) -> tuple[Any, ...]:
    return env.step(int(action) if hasattr(env.action_space, "n") else np.array([action]))


@by_body
def test_single_steps_equal_gymnasium(game: str) -> None:
    body, env, rng = BODIES[game], make_env(game), np.random.default_rng(0)
    high = np.array(body.bounds)
    ended = 0
    for state in rng.uniform(-high, high, (1_000, len(high))).astype(body.dtype):
        action = draw_actions(env, 1, rng)[0]
        env.reset()
        env.state = state
        _, reward, terminated, _, _ = theirs(env, action)
        ours, paid, over = _core.physics_step(game, state.tolist(), action.item())
        np.testing.assert_allclose(ours, env.state, rtol=0, atol=1e-9)
        assert paid == pytest.approx(reward, rel=0, abs=1e-9)
        assert over == terminated
        ended += over
    assert body.ends[0] <= ended <= body.ends[1], "both kinds of steps are tried"


@by_body
def test_bounds_equal_the_bounds_of_gymnasium(game: str) -> None:
    """Positions that hit a wall, speeds and actions at their bounds."""
    body, env = BODIES[game], make_env(game)
    high = np.array(body.bounds)
    numbered = hasattr(env.action_space, "n")
    actions = range(env.action_space.n) if numbered else np.float32([-5, -1, 0, 1, 5])
    signs = np.array(np.meshgrid(*[[-1, -0.5, 0, 0.5, 1]] * len(high))).reshape(len(high), -1).T
    for state in (signs * high).astype(body.dtype):
        for action in actions:
            env.reset()
            env.state = state
            _, reward, terminated, _, _ = theirs(env, action)
            ours, paid, over = _core.physics_step(game, state.tolist(), np.array(action).item())
            np.testing.assert_allclose(ours, env.state, rtol=0, atol=1e-9)
            assert (paid, over) == (pytest.approx(reward, rel=0, abs=1e-9), terminated)


@pytest.mark.parametrize(
    ("game", "state", "action", "error", "text"),
    [
        ("cartpole", [0] * 4, -1, ValueError, r"a: expected 0 \(left\) or 1 \(right\), got -1"),
        ("acrobot", [0] * 4, 3, ValueError, "a: expected 0, 1 or 2 .*, got 3"),
        ("mountain_car", [0] * 2, 2**40, ValueError, "a: expected 0 .left.*, got 1099511627776"),
        ("mountain_car", [0] * 2, 1.5, TypeError, "integer"),
        ("pendulum", [0] * 2, np.nan, ValueError, "a: expected a finite number, got NaN"),
        ("pendulum", [0] * 3, 1.0, ValueError, "state: expected 2 numbers, got 3"),
        ("catch", [0] * 2, 1, ValueError, "game: expected a game with equations"),
    ],
)
def test_wrong_physics_step_is_refused(
    game: str, state: Any, action: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        _core.physics_step(game, state, action)


def play(
    game: str,
    act: Callable[[Any, Any], object],
    *,
    num_games: int = 3,
    batchsize: int = 0,
    most: int = 0,
    **options: Any,
) -> cogrs.GCWrapper:
    """A run whose actor shows all that `act(batch, reply)` may look at."""
    co = cogrs.ContextOptions(num_games=num_games, **{"seed": 1, "num_threads": 2, **options})
    module = importlib.import_module(f"cogrs.collector.games.{game}")
    chosen = module.GameOptions(max_episode_steps=most) if most else module.GameOptions()
    context = module.GameContext(co, chosen)
    keys = ("id", "seq", "last_r", "last_terminal", "last_truncated", *context.spec.keys)
    described = {**dict.fromkeys(keys, ""), "_batchsize": batchsize or num_games}
    games = cogrs.GCWrapper(context, co, {"actor": (described, {"a": ""})})
    games.reg_callback("actor", lambda batch, _gpu, reply: act(batch[0], reply[0]))
    games.Start()
    return games


def choose(game: str, batch: Any, params: Any) -> NDArray[Any]:
    """An action for each row, which depends on nothing but game and seq."""
    draws = np.random.default_rng(7).random((16, 64))[batch["id"], batch["seq"] % 64]
    if params["action_dtype"] == "float32":
        return (draws - 0.5).astype(np.float32)
    if "action_mask" in batch:
        return (batch["action_mask"] * (1 + (draws[:, None] * (1 + np.arange(7))) % 1)).argmax(1)
    return (draws * params["num_action"]).astype(np.int64)


def params_of(game: str) -> Any:
    return cogrs.GameContext(game).GetParams()


@by_body
def test_run_follows_gymnasium_from_each_first_state(game: str) -> None:
    """The first state is known in float32 only, and small differences grow: so not far."""
    envs, params, checked = [make_env(game) for _ in range(2)], params_of(game), 0
    expected: list[Any] = [None, None]

    def act(batch: Any, reply: Any) -> None:
        nonlocal checked
        reply["a"] = choose(game, batch, params)
        for row, at in enumerate(batch["id"]):
            env, seq = envs[at], batch["seq"][row]
            if seq == 0:
                env.reset()
                env.state = np.array(BODIES[game].state_of(batch["s"][row].astype(np.float64)))
            elif seq <= 10:
                state, reward = expected[at]
                np.testing.assert_allclose(batch["s"][row], state, atol=1e-4)
                assert batch["last_r"][row] == pytest.approx(reward, abs=1e-4)
                checked += 1
            if seq < 10:
                expected[at] = theirs(env, reply["a"][row])[:2]

    with play(game, act, num_games=2, most=12) as games:
        for _ in range(60):
            run(games)
    assert checked > 50


# The first state is known in float32 only, and small differences grow.
FOLLOWED = 20


def test_long_episodes_of_cartpole_follow_gymnasium() -> None:
    """Two games against environments that take the same actions."""
    envs: list[Any] = [gymnasium.make("CartPole-v1").unwrapped for _ in range(2)]
    lengths = [0, 0]
    checked = 0

    def act(batch: Any, _gpu: Any, reply: Any) -> None:
        nonlocal checked
        balance(batch, None, reply)
        for row, game in enumerate(batch[0]["id"]):
            state, seq = batch[0]["s"][row], int(batch[0]["seq"][row])
            if seq == 0:
                envs[game].reset()
                envs[game].state = state.astype(np.float64)
                assert (abs(state) <= 0.05).all()
                assert batch[0]["last_r"][row] == 0
                if lengths[game]:
                    ended = batch[0]["last_terminal"][row], batch[0]["last_truncated"][row]
                    assert ended == ((0, 1) if lengths[game] == 500 else (1, 0))
            else:
                assert batch[0]["last_r"][row] == 1
                if seq <= FOLLOWED:
                    np.testing.assert_allclose(state, envs[game].state, atol=1e-4)
                    checked += 1
            lengths[game] = seq
            if seq < FOLLOWED:
                envs[game].step(int(reply[0]["a"][row]))

    with running({"actor": actor(2)}, 2) as games:
        games.reg_callback("actor", act)
        for _ in range(1_500):
            run(games)
    assert checked > 50


def test_deterministic_runs_repeat_batch_for_batch() -> None:
    def batches(threads: int) -> list[Any]:
        seen: list[Any] = []
        listener = {"id": "", "s": "", "r": "", "_batchsize": 8, "_T": 3}
        both = {"actor": actor(8), "optimizer": (listener, None)}
        with running(both, 8, deterministic=True, num_threads=threads) as games:

            def act(batch: Any, _gpu: Any, reply: Any) -> None:
                balance(batch, None, reply)
                seen.append(("actor", batch[0]["s"].tolist()))
                assert batch[0]["id"].tolist() == list(range(8))

            def learn(batch: Any, _gpu: Any, _reply: Any) -> None:
                seen.append(("optimizer", rows(batch)["s"].tolist()))

            games.reg_callback("actor", act)
            games.reg_callback("optimizer", learn)
            for _ in range(150):
                run(games)
        return seen

    assert batches(1) == batches(3)


@by_game
def test_step_limit_truncates_exactly_there(game: str) -> None:
    params, ends = params_of(game), []

    def act(batch: Any, reply: Any) -> None:
        reply["a"] = choose(game, batch, params)
        first = batch["seq"] == 0
        ends.extend(zip(batch["last_truncated"][first], batch["last_terminal"][first], strict=True))
        assert (batch["seq"] <= 5).all()

    with play(game, act, most=5) as games:
        for _ in range(6 * 30):
            run(games)
    assert ends == [(0, 0)] * 3 + [(1, 0)] * 3 * 29


@by_game
def test_without_options_the_limit_is_the_published_one(game: str) -> None:
    module = importlib.import_module(f"cogrs.collector.games.{game}")
    limit = module.GameOptions().max_episode_steps
    if game in BODIES:
        spec = gymnasium.spec(BODIES[game].env)
        assert limit == spec.max_episode_steps
    else:
        assert limit == STEP_LIMITS[game]


@by_game
def test_same_seed_gives_same_trajectories_for_any_threads(game: str) -> None:
    params = params_of(game)

    def trajectories(seed: int, threads: int) -> dict[int, list[Any]]:
        seen: dict[int, list[Any]] = {number: [] for number in range(6)}

        def act(batch: Any, reply: Any) -> None:
            reply["a"] = choose(game, batch, params)
            for row, number in enumerate(batch["id"]):
                state = batch["s"][row].tobytes(), batch["last_r"][row], batch["seq"][row]
                seen[int(number)].append(state)

        options = {"seed": seed, "num_threads": threads, "batchsize": 2, "num_games": 6}
        with play(game, act, **options) as games:
            while min(map(len, seen.values())) < 60:
                run(games)
        return {number: states[:60] for number, states in seen.items()}

    one = trajectories(5, 1)
    assert one == trajectories(5, 2) == trajectories(5, 4)
    if game != "connect_four":
        assert one != trajectories(6, 1)


@by_game
def test_every_key_of_a_description_works(game: str) -> None:
    co = cogrs.ContextOptions(num_games=4, seed=3)
    context = cogrs.GameContext(game, co)
    params = context.GetParams()
    action = np.dtype(params["action_dtype"]), params["action_shape"]
    fixed = ("id", "seq", "last_r", "last_terminal", "last_truncated", *context.spec.keys)
    given = dict.fromkeys((*fixed, "a", "pi", "V", "rv", "r", "terminal", "truncated"), "")
    reply = {"a": "1", "pi": params["num_action"], "V": "1", "rv": ""}
    descriptions: Any = {
        "actor": ({**dict.fromkeys(fixed, ""), "s": "2", "_batchsize": 4}, reply),
        "optimizer": ({**given, "_batchsize": 3, "_T": 4}, None),
    }
    histories: list[Any] = []

    def act(batch: Any, _gpu: Any, reply: Any) -> None:
        assert batch[0]["s"].shape == (len(batch[0]["id"]), 2, *params["state_shape"])
        assert reply[0]["a"].dtype == action[0]
        assert reply[0]["a"].shape[1:] == action[1]
        reply[0]["a"] = choose(game, batch[0], params)
        reply[0]["V"] = batch[0]["seq"]
        reply[0]["pi"] = 0.5

    with cogrs.GCWrapper(context, co, descriptions) as games:
        games.reg_callback("actor", act)
        games.reg_callback("optimizer", lambda batch, *_: histories.append(rows(batch)))
        games.Start()
        while len(histories) < 40:
            run(games)
    for batch in histories:
        assert batch["s"].shape[2:] == params["state_shape"]
        assert batch["s"].dtype == params["state_dtype"]
        assert batch["a"].dtype == action[0]
        np.testing.assert_array_equal(batch["V"], batch["seq"])
        for key in ("r", "terminal", "truncated"):
            np.testing.assert_array_equal(batch[key][:, :-1], batch[f"last_{key}"][:, 1:])
            assert not batch[key][:, -1].any()
        over = (batch["terminal"] | batch["truncated"])[:, :-1] == 1
        np.testing.assert_array_equal(batch["seq"][:, 1:] == 0, over)


@by_game
def test_wrong_action_ends_the_run_and_names_the_game(game: str) -> None:
    params = params_of(game)
    continuous = params["action_dtype"] == "float32"

    def act(batch: Any, reply: Any) -> None:
        reply["a"] = choose(game, batch, params)
        reply["a"][batch["id"] == 1] = np.nan if continuous else 42

    with play(game, act) as games:
        run(games)
        for _ in range(2):
            with pytest.raises(RuntimeError, match=r"game 1: a: expected .*, got (42|NaN)"):
                games.Run(20)


@pytest.mark.parametrize(
    ("game", "num_action", "action_dtype", "state_shape"),
    [("cartpole", 2, "int64", (4,)), ("pendulum", 1, "float32", (3,))],
)
def test_params_describe_state_and_action(
    game: str, num_action: int, action_dtype: str, state_shape: tuple[int, ...]
) -> None:
    assert params_of(game) == {
        "num_action": num_action,
        "action_shape": (),
        "action_dtype": action_dtype,
        "state_shape": state_shape,
        "state_dtype": "float32",
        "players": ["player"],
    }


def test_names_of_games_agree_in_rust_and_python() -> None:
    found = {path.stem for path in (ROOT / "python/cogrs/collector/games").glob("[a-z]*.py")}
    assert found == set(GAMES)
    with pytest.raises(ValueError, match=r"game: expected one of \[\"acrobot\".*got \"chess\""):
        _core.game_spec("chess")
    for game in BUILT_IN:
        assert cogrs.GameContext(game).spec.keys["s"] == _core.game_spec(game)["keys"]["s"]


def test_game_of_the_documentation_is_the_one_tested_in_rust() -> None:
    page = (ROOT / "docs/collector.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```rust\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert shown == [(ROOT / "rust/tests/games/corridor.rs").read_text(encoding="utf-8")]
