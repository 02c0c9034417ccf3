"""`GCWrapper`: callbacks, replies, and how a run ends."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import pytest

import cogrs
from cogrs.collector import GAMES
from cogrs.collector.games.cartpole import ContextOptions, GameContext, GameOptions
from tests.collector.build import LIMIT, actor, balance, run, running, until, wrapper

BOTH = {"actor": actor(2), "optimizer": ({"id": "", "s": "", "_batchsize": 3}, None)}


def test_run_calls_the_callback_and_returns_its_value() -> None:
    with running({"actor": actor(4)}) as games:

        def act(batch: Any, gpu: Any, reply: Any) -> str:
            assert gpu is batch
            assert sorted(batch[0]["id"]) == [0, 1, 2, 3]
            assert reply[0]["a"].shape == (4,)
            return "value"

        assert games.reg_callback("actor", act) is True
        assert run(games) == "value"
        assert (games.infos.name, games.infos.gid, games.infos.batchsize) == ("actor", 0, 4)
        assert games.RunGroup("actor", LIMIT) == "value"


def test_reg_callback_reports_whether_the_collector_exists() -> None:
    games = wrapper(BOTH)
    assert games.reg_callback("learner", print) is False
    assert games.reg_callback_if_exists("learner", print) is False
    assert not games.reg_has_callback("learner")
    assert not games.reg_has_callback("actor")
    assert games.reg_callback("actor", print)
    assert games.reg_has_callback("actor")
    with pytest.raises(TypeError, match="cb"):
        games.reg_callback("actor", 5)  # type: ignore[arg-type]


def test_callback_can_be_changed_while_games_run() -> None:
    with running({"actor": actor(4)}) as games:
        for number in range(5):
            games.reg_callback("actor", lambda *_, number=number: number)
            assert run(games) == number


def test_key_without_callback_is_consumed_with_one_warning() -> None:
    with running(BOTH) as games:
        games.reg_callback("actor", balance)
        seen = []
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(40):
                run(games)
                seen.append(games.infos.name)
        assert set(seen) == {"actor", "optimizer"}
        assert ["'optimizer'" in str(warning.message) for warning in caught] == [True]


@pytest.mark.parametrize("name", GAMES)
def test_game_context_by_name_is_an_instance_of_game_context(name: str) -> None:
    if name == "pettingzoo":
        pytest.importorskip("pettingzoo")
    rps = "pettingzoo.classic.rps.rps:parallel_env"
    more = {"gymnasium": ["CartPole-v1"], "pettingzoo": [rps]}.get(name, [])
    context = cogrs.GameContext(name, ContextOptions(num_games=2), *more)
    module = importlib.import_module(f"cogrs.collector.games.{name}")
    assert isinstance(context, cogrs.GameContext)
    assert type(context) is module.GameContext
    class_name = type(context).__name__
    assert class_name != "GameContext"
    assert getattr(module, class_name) is module.GameContext
    assert type(context).__module__ == module.__name__
    assert len(context) == 2
    context.Stop()


def test_subclass_of_a_game_s_context_creates_its_own_objects() -> None:
    class Mine(GameContext):
        """A context of somebody else's."""

    assert type(Mine(ContextOptions(num_games=3))) is Mine
    assert isinstance(Mine(), cogrs.GameContext)


def test_former_name_of_the_class_warns_and_is_game_context() -> None:
    with pytest.warns(DeprecationWarning, match="is now cogrs.collector.GameContext"):
        assert cogrs.collector.AnyGameContext is cogrs.GameContext


def test_game_context_without_a_known_name_is_refused() -> None:
    with pytest.raises(TypeError, match="abstract"):
        cogrs.GameContext(ContextOptions())
    with pytest.raises(TypeError, match=r'e.g. cogrs.GameContext\("cartpole", co\)'):
        cogrs.GameContext()
    with pytest.raises(
        ValueError, match=r"name: expected one of.*GameContext\('gymnasium', co, id or function\)"
    ):
        cogrs.GameContext(None)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"num_games": 0}, ValueError),
        ({"num_threads": -1}, ValueError),
        ({"num_games": 2.5}, TypeError),
        ({"seed": -1}, ValueError),
        ({"seed": 2**64}, ValueError),
        ({"T": 0}, ValueError),
        ({"num_games": 2**70}, ValueError),
        ({"num_games": -(10**5000)}, ValueError),
        ({"num_threads": 2**70}, ValueError),
        ({"num_collectors": 2**70}, ValueError),
        ({"T": 2**70}, ValueError),
        ({"seed": 10**5000}, ValueError),
        ({"deterministic": "no"}, TypeError),
        ({"deterministic": 2}, ValueError),
        ({"wait_per_group": 3}, ValueError),
        ({"verbose_comm": None}, TypeError),
    ],
)
def test_options_out_of_range_are_named(options: dict[str, Any], error: type[Exception]) -> None:
    co = cogrs.ContextOptions(**{"num_games": 2, **options})
    with pytest.raises(error, match=next(iter(options))):
        cogrs.GCWrapper(cogrs.GameContext("cartpole"), co, {"actor": actor(1)})


def test_context_takes_its_options_in_any_order() -> None:
    co, options = ContextOptions(num_games=3), GameOptions(max_episode_steps=9)
    for args in ((co, options), (options, co), (options,), (co,), ()):
        assert GameContext(*args).options.max_episode_steps == (9 if options in args else 500)
    with pytest.raises(TypeError, match="GameOptions"):
        GameContext({"max_episode_steps": 9})
    for steps in (0, 2**64, 10**5000):
        with pytest.raises(ValueError, match="max_episode_steps"):
            GameContext(GameOptions(max_episode_steps=steps))
    with pytest.raises(ValueError, match="expected the game context's own ContextOptions"):
        cogrs.GCWrapper(GameContext(co), ContextOptions(num_games=5), {"actor": actor(1)})
    with pytest.raises(ValueError, match="'chess'"):
        cogrs.GameContext("chess", co)
    with pytest.raises(RuntimeError, match="no ContextOptions"):
        GameContext().make_batches()
    with pytest.raises(RuntimeError, match="no collectors"):
        GameContext(co).Start()
    # The spec makes the context first, and the wrapper gives it the options.
    assert len(cogrs.GCWrapper(GameContext(), co, {"actor": actor(1)}).GC) == 3


def test_options_batches_and_summary_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with running({"actor": actor(2)}, 2, verbose_comm=True, verbose_collector=True) as games:
        games.reg_callback("actor", balance)
        run(games)
        run(games)
        until(lambda: games.GC.Wait().batchsize == 2)
        games.PrintSummary()
        games.co.print()
    out = capsys.readouterr().out
    assert "cartpole: 2 games, 6 states, 0 episodes" in out
    assert "actor: 2 batches, 4 rows, 0 batches short" in out
    assert "num_games: 2" in out
    assert out.count("answered Infos(name='actor', gid=0, batchsize=2)") == 2
    assert games.GC.Version() == cogrs.__version__


def test_failing_wrapper_leaves_the_context_unchanged() -> None:
    context, co = GameContext(), ContextOptions(num_games=4)
    wrong = [
        {"act": actor(8)},
        {"act": actor(4, _T=9, speed="")},
        {"act": actor(4, _T=9), "learner": ({"s": 2**38, "_batchsize": 4}, None)},
    ]
    for descriptions in wrong:
        with pytest.raises((ValueError, MemoryError)):
            cogrs.GCWrapper(context, co, descriptions)
        assert (context.co, context.collectors, len(context), co.T) == (None, [], 0, 1)
    with pytest.raises(TypeError, match="params: expected a mapping, got int"):
        cogrs.GCWrapper(context, co, {"act": actor(4)}, params=5)  # type: ignore[arg-type]
    other = ContextOptions(num_games=2)
    games = cogrs.GCWrapper(context, other, {"actor": actor(2, _T=3)})
    assert (games.name2idx, other.T, len(context)) == ({"actor": 0}, 3, 2)


def test_wrong_game_context_or_options_are_named() -> None:
    co = ContextOptions(num_games=4)
    with pytest.raises(TypeError, match="GC: expected a GameContext, got str"):
        cogrs.GCWrapper("cartpole", co, {"a": actor(1)})  # type: ignore[arg-type]
    for wrong in ("x", None):
        with pytest.raises(TypeError, match="co: expected ContextOptions, got "):
            cogrs.GCWrapper(GameContext(), wrong, {"a": actor(1)})  # type: ignore[arg-type]


def test_buffers_are_limited_and_arrays_are_created_on_access() -> None:
    games = wrapper({"actor": actor(1), "learner": ({"s": "", "_batchsize": 1}, None)}, 100_000)
    assert {len(batches) for batches in games.inputs} == {256}
    assert not games.GC._buffers
    assert [len(batch) for batch in games.inputs[0][-2:]] == [1, 1]
    with pytest.raises(IndexError):
        games.inputs[0][256]
    assert games.replies[0] is not None
    assert games.replies[0][3][0]["a"].shape == (1,)
    assert games.replies[1] is None
    assert len(wrapper({"actor": actor(1)}, 100_000, num_collectors=300).inputs[0]) == 300
