"""`GCWrapper`: callbacks, replies, and how a run ends."""

from __future__ import annotations

import threading
import time
import warnings
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import cogrs
from cogrs.collector.games.cartpole import ContextOptions, GameContext, GameOptions
from tests.collector.build import LIMIT, actor, balance, forever, run, running, until, wrapper

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


def test_registering() -> None:
    games = wrapper(BOTH)
    assert games.reg_callback("learner", print) is False
    assert games.reg_callback_if_exists("learner", print) is False
    assert not games.reg_has_callback("learner")
    assert not games.reg_has_callback("actor")
    assert games.reg_callback("actor", print)
    assert games.reg_has_callback("actor")
    with pytest.raises(TypeError, match="cb"):
        games.reg_callback("actor", 5)  # type: ignore[arg-type]


def test_a_callback_can_be_changed_while_games_run() -> None:
    with running({"actor": actor(4)}) as games:
        for number in range(5):
            games.reg_callback("actor", lambda *_, number=number: number)
            assert run(games) == number


def test_a_key_without_callback_is_consumed_with_one_warning() -> None:
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


def test_replies_are_zero_before_each_callback() -> None:
    seen = []
    with running({"actor": ({"_batchsize": 4, "a": ""}, {"a": "", "pi": "3"})}) as games:

        def act(batch: Any, _gpu: Any, reply: Any) -> None:
            assert not reply[0]["a"].any()
            assert not reply[0]["pi"].any()
            seen.append(batch[0]["a"].tolist())
            reply[0]["pi"] = np.full((4, 3), 0.5)
            reply[0]["a"] = 1

        games.reg_callback("actor", act)
        for _ in range(6):
            run(games)
    assert seen == [[0] * 4] * 6, "what others answer now is not there yet"


def test_setting_a_key_writes_into_its_array_and_misfits_raise() -> None:
    with running({"actor": actor(4)}) as games:
        replies = []

        def act(_batch: Any, _gpu: Any, reply: Any) -> None:
            array = reply[0]["a"]
            reply[0]["a"] = [1, 0, 1, 0]
            assert array.tolist() == [1, 0, 1, 0]
            with pytest.raises(ValueError, match="broadcast"):
                reply[0]["a"] = [1, 0]
            with pytest.raises(ValueError, match="broadcast"):
                reply[0]["a"][:] = [1, 0]
            with pytest.raises(KeyError):
                reply[0]["V"] = 1
            replies.append(array)

        games.reg_callback("actor", act)
        run(games)
    assert len(replies) == 1


def test_a_batch_is_the_caller_s_after_copy() -> None:
    kept = []
    with running({"actor": actor(4)}) as games:

        def act(batch: Any, _gpu: Any, reply: Any) -> None:
            kept.append((batch.copy(), batch[0]["s"].tolist()))
            balance(batch, None, reply)

        games.reg_callback("actor", act)
        for _ in range(10):
            run(games)
    for batch, values in kept:
        assert batch[0]["s"].tolist() == values
        assert batch[0]["s"].base is None


def test_arrays_outlive_everything() -> None:
    with running({"actor": actor(4)}) as games:
        held = []
        games.reg_callback("actor", lambda batch, *_: held.append(batch[0]["s"]))
        run(games)
    del games
    assert held[0].shape == (4, 4)
    held[0][:] = 3
    assert (held[0] == 3).all()


def test_an_exception_comes_out_and_its_batch_comes_again() -> None:
    with running({"actor": actor(2)}) as games:
        seen = []

        def act(batch: Any, _gpu: Any, reply: Any) -> None:
            seen.append((batch[0]["id"].tolist(), batch[0]["s"].tolist()))
            reply[0]["a"][:] = 1
            if len(seen) in (3, 4):
                raise KeyError("from the callback")

        games.reg_callback("actor", act)
        run(games)
        run(games)
        for _ in range(2):
            with pytest.raises(KeyError, match="from the callback"):
                games.Run(LIMIT)
        run(games)
    assert seen[2] == seen[3] == seen[4]


def test_a_batch_that_is_forgotten_comes_again() -> None:
    with running({"actor": actor(2)}) as games:
        first = games.GC.Wait()
        ids = games.GC.batch(first)[0][0]["id"].tolist()
        del first
        assert games.GC.batch(games.GC.Wait())[0][0]["id"].tolist() == ids
        other = wrapper({"actor": actor(2)})
        with pytest.raises(RuntimeError, match="another context"):
            other.GC.Steps(games.GC.Wait())


def test_a_stop_from_a_callback() -> None:
    with running({"actor": actor(2)}) as games:

        def act(*_: Any) -> int:
            games.Stop()
            return 5

        games.reg_callback("actor", act)
        assert games.Run(LIMIT) == 5
        with pytest.raises(RuntimeError, match="stopped"):
            games.Run()
        games.Stop()
        with pytest.raises(RuntimeError, match="stopped"):
            games.Start()


def test_a_callback_that_stops_and_raises() -> None:
    with running({"actor": actor(2)}) as games:

        def act(*_: Any) -> None:
            games.Stop()
            raise KeyError("after all")

        games.reg_callback("actor", act)
        with pytest.raises(KeyError, match="after all"):
            games.Run(LIMIT)


def test_lifecycle_errors() -> None:
    games = wrapper({"actor": actor(2)})
    with pytest.raises(RuntimeError, match="Start"):
        games.Run()
    games.Start()
    with pytest.raises(RuntimeError, match="started already"):
        games.Start()
    games.Stop()
    never = wrapper({"actor": actor(2)})
    never.Stop()
    with pytest.raises(RuntimeError, match="stopped"):
        never.Start()


def test_run_times_out() -> None:
    with running({"actor": actor(1)}, 1) as games:
        infos = games.GC.Wait()
        assert games.Run(timeout=0.01) is None
        assert games.Run(timeout=0) is None
        assert (games.infos.name, games.infos.gid, games.infos.batchsize) == ("", -1, 0)
        none = games.GC.Wait(1_000)
        assert (none.gid, none.batchsize) == (-1, 0)
        assert games.GC.WaitGroup("actor", 1_000).gid == -1
        with pytest.raises(ValueError, match="timed out"):
            games.GC.Steps(none)
        games.GC.Steps(infos)
        with pytest.raises(RuntimeError, match="before"):
            games.GC.Steps(infos)
        assert games.GC.Wait().batchsize == 1


@pytest.mark.parametrize("timeout", [-1, float("nan")])
def test_a_timeout_that_is_none_is_refused(timeout: float) -> None:
    with running({"actor": actor(1)}) as games, pytest.raises(ValueError, match="timeout"):
        games.Run(timeout)


def test_a_stop_from_another_thread_wakes_a_run() -> None:
    with running({"actor": actor(1)}, 1) as games:
        held = games.GC.Wait()  # The only game waits for its answer.
        errors: list[Exception] = []

        def wait() -> None:
            try:
                games.Run()
            except RuntimeError as error:
                errors.append(error)

        waiter = threading.Thread(target=wait)
        waiter.start()
        time.sleep(0.01)
        games.Stop()
        waiter.join(LIMIT)
        assert not waiter.is_alive()
        games.GC.Steps(held)
    assert "stopped" in str(errors[0])


def test_other_threads_run_while_one_waits() -> None:
    with running({"actor": actor(1)}, 1) as games:
        held = games.GC.Wait()
        waiter = threading.Thread(target=lambda: games.Run(0.2))
        waiter.start()
        count = 0
        while waiter.is_alive():
            count += 1
        assert count > 1_000
        games.GC.Steps(held)


def test_several_threads_run_side_by_side() -> None:
    with running({"actor": actor(4)}, 32) as games:
        seen: list[list[int]] = [[] for _ in range(32)]

        def act(batch: Any, _gpu: Any, reply: Any) -> None:
            balance(batch, None, reply)
            assert len(set(batch[0]["id"].tolist())) == 4
            for game, seq in zip(batch[0]["id"], batch[0]["seq"], strict=True):
                seen[game].append(int(seq))

        games.reg_callback("actor", act)

        def work() -> None:
            for _ in range(200):
                games.Run(LIMIT)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(2 * LIMIT)
            assert not thread.is_alive()
    assert sum(map(len, seen)) == 4 * 200 * 4
    for sequence in seen:
        for now, after in pairwise(sequence):
            assert after in (0, now + 1)


def test_one_thread_a_collector() -> None:
    """An actor and a learner, each waiting for its own batches."""
    with running(BOTH, 4) as games:
        counts = dict.fromkeys(BOTH, 0)

        def serve(name: str) -> None:
            def count(batch: Any, _gpu: Any, reply: Any) -> None:
                counts[name] += 1
                if reply:
                    balance(batch, None, reply)

            games.reg_callback(name, count)
            with pytest.raises(RuntimeError, match="stopped"):
                forever(lambda: games.RunGroup(name, LIMIT))

        threads = [threading.Thread(target=serve, args=(name,)) for name in BOTH]
        for thread in threads:
            thread.start()
        until(lambda: min(counts.values()) >= 60)
        games.Stop()
        for thread in threads:
            thread.join(LIMIT)
            assert not thread.is_alive()


def test_a_timeout_sends_a_batch_out_short_and_loses_nothing() -> None:
    with running({"actor": actor(64, _timeout_usec=1_000)}, 4) as games:
        rows = []

        def act(batch: Any, _gpu: Any, reply: Any) -> None:
            rows.append(batch[0]["seq"].tolist())
            assert reply[0]["a"].shape == batch[0]["id"].shape
            assert games.infos.batchsize == len(batch[0]["id"])
            balance(batch, None, reply)

        games.reg_callback("actor", act)
        for _ in range(5):
            run(games)
    assert [sorted(each) for each in rows] == [[k] * 4 for k in range(5)]


def test_not_supported_yet_says_which() -> None:
    co = cogrs.ContextOptions(num_games=2)
    context = cogrs.GameContext("cartpole", co)
    for more in ({"use_numpy": False}, {"gpu": 0}):
        with pytest.raises(ValueError, match=f"{next(iter(more))}.*not supported yet"):
            cogrs.GCWrapper(context, co, {"actor": actor(2)}, **more)
    with pytest.raises(ValueError, match="max_num_threads: not supported yet"):
        wrapper({"actor": actor(2)}, max_num_threads=3)


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


def test_a_context_takes_its_options_in_any_order() -> None:
    co, options = ContextOptions(num_games=3), GameOptions(max_episode_steps=9)
    for args in ((co, options), (options, co), (options,), (co,), ()):
        assert GameContext(*args).options.max_episode_steps == (9 if options in args else 500)
    with pytest.raises(TypeError, match="GameOptions"):
        GameContext({"max_episode_steps": 9})
    for steps in (0, 2**64, 10**5000):
        with pytest.raises(ValueError, match="max_episode_steps"):
            GameContext(GameOptions(max_episode_steps=steps))
    with pytest.raises(ValueError, match="other ContextOptions"):
        cogrs.GCWrapper(GameContext(co), ContextOptions(num_games=5), {"actor": actor(1)})
    with pytest.raises(ValueError, match="'chess'"):
        cogrs.GameContext("chess", co)
    with pytest.raises(RuntimeError, match="no ContextOptions"):
        GameContext().make_batches()
    with pytest.raises(RuntimeError, match="no collectors"):
        GameContext(co).Start()
    # The spec makes the context first, and the wrapper gives it the options.
    assert len(cogrs.GCWrapper(GameContext(), co, {"actor": actor(1)}).GC) == 3


def test_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
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


@pytest.mark.parametrize(
    "write",
    [
        "reply[0].update(a=1)",
        "reply[0].update({'a': 1})",
        "reply[0].update([('a', 1)])",
        "reply[0] |= {'a': 1}",
        "reply[-1] |= [('a', [1, 1, 1, 1])]",
        "reply[0].setdefault('a', 1)",
        "reply[0].setdefault('a').fill(1)",
        "reply[0]['a'] += 1",
    ],
)
def test_every_way_to_write_a_reply_counts(write: str) -> None:
    listener = ({"a": "", "_batchsize": 4}, None)
    seen = []
    with running({"actor": actor(4), "optimizer": listener}) as games:
        games.reg_callback("actor", lambda _batch, _gpu, reply: exec(write, {"reply": reply}))
        games.reg_callback("optimizer", lambda batch, *_: seen.append(batch[0]["a"].tolist()))
        while not seen:
            run(games)
    assert seen[0] == [1] * 4


@pytest.mark.parametrize(
    "change",
    [
        lambda reply: reply[0].pop("a"),
        lambda reply: reply[0].popitem(),
        lambda reply: reply[0].clear(),
        lambda reply: reply[0].__delitem__("a"),
        lambda reply: reply.__setitem__(0, {"a": 1}),
        lambda reply: reply.__delitem__(0),
        lambda reply: reply.__iadd__([{"a": 1}]),
        lambda reply: reply.append({"a": 1}),
        lambda reply: reply.insert(0, {"a": 1}),
        lambda reply: reply.extend([{"a": 1}]),
        lambda reply: reply.pop(),
        lambda reply: reply.clear(),
    ],
)
def test_what_would_not_be_a_reply_is_refused(change: Any) -> None:
    with running({"actor": actor(4)}) as games:

        def act(_batch: Any, _gpu: Any, reply: Any) -> str:
            with pytest.raises(TypeError, match="in place"):
                change(reply)
            assert (len(reply), list(reply[0])) == (1, ["a"])
            kept = reply.copy()
            change(kept)
            return "refused"

        games.reg_callback("actor", act)
        assert run(games) == "refused"


def test_infos_are_those_of_the_thread_s_own_batch() -> None:
    with running(BOTH, 16) as games:
        wrong = []

        def check(name: str) -> Any:
            def callback(batch: Any, *_: Any) -> None:
                time.sleep(0.0005)
                infos = games.infos
                if (infos.name, infos.batchsize) != (name, len(batch[0]["id"])):
                    wrong.append((name, infos))

            return callback

        for name in BOTH:
            games.reg_callback(name, check(name))

        def work() -> None:
            for _ in range(100):
                games.Run(LIMIT)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(2 * LIMIT)
            assert not thread.is_alive()
    assert not wrong


def test_infos_come_back_after_a_nested_run() -> None:
    with running(BOTH) as games:
        games.reg_callback("optimizer", lambda *_: games.infos)

        def act(*_: Any) -> tuple[Any, Any, Any]:
            before = games.infos
            inner = games.RunGroup("optimizer", 0.01)
            with pytest.raises(ValueError, match="no collector"):
                games.RunGroup("nobody")
            return before, inner, games.infos

        games.reg_callback("actor", act)
        inners = []
        for _ in range(40):
            before, inner, after = games.RunGroup("actor", LIMIT)
            assert before == after == games.infos
            assert before.name == "actor"
            inners += [inner] if inner else []
        assert {inner.name for inner in inners} == {"optimizer"}


def test_a_second_interrupt_loses_no_batch() -> None:
    with running({"actor": actor(4)}) as games:
        put_back = games.GC.put_back

        def interrupt(_infos: Any) -> None:
            raise KeyboardInterrupt

        games.reg_callback("actor", lambda *_: 1 / 0)
        games.GC.put_back = interrupt  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            games.Run(LIMIT)
        games.GC.put_back = put_back  # type: ignore[method-assign]
        games.reg_callback("actor", lambda *_: "again")
        assert games.Run(LIMIT) == "again"


def test_a_batch_that_was_given_back_has_no_arrays() -> None:
    with running({"actor": actor(2)}) as games:
        infos = games.GC.Wait()
        assert games.GC.batch(infos)[0][0]["id"].shape == (2,)
        games.GC.Steps(infos)
        with pytest.raises(RuntimeError, match="before"):
            games.GC.batch(infos)
        infos = games.GC.Wait()
        games.GC.put_back(infos)
        with pytest.raises(RuntimeError, match="before"):
            games.GC.batch(infos)
        for call in (games.GC.Steps, games.GC.batch, games.GC.put_back):
            with pytest.raises(TypeError, match="infos: expected Infos, got NoneType"):
                call(None)  # type: ignore[operator]


def test_a_wrapper_that_fails_leaves_the_context_as_it_was() -> None:
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


def test_what_is_no_context_and_no_options_is_named() -> None:
    co = ContextOptions(num_games=4)
    with pytest.raises(TypeError, match="GC: expected a GameContext, got str"):
        cogrs.GCWrapper("cartpole", co, {"a": actor(1)})  # type: ignore[arg-type]
    for wrong in ("x", None):
        with pytest.raises(TypeError, match="co: expected ContextOptions, got "):
            cogrs.GCWrapper(GameContext(), wrong, {"a": actor(1)})  # type: ignore[arg-type]


def test_changes_of_an_array_s_form_do_not_stay() -> None:
    with running({"actor": actor(4)}) as games:

        def act(batch: Any, _gpu: Any, reply: Any) -> None:
            assert (batch[0]["s"].shape, reply[0]["a"].dtype) == ((4, 4), np.int64)
            assert batch[0]["id"].flags.writeable
            batch[0]["s"].shape = (16,)
            batch[0]["id"].flags.writeable = False
            reply[0]["a"].shape = (2, 2)

        games.reg_callback("actor", act)
        for _ in range(6):
            run(games)
        games.inputs[0][0][0]["s"].shape = (16,)
        assert games.inputs[0][0][0]["s"].shape == (4, 4)


def test_buffers_are_as_many_as_are_of_use_and_arrays_are_made_when_looked_at() -> None:
    games = wrapper({"actor": actor(1), "learner": ({"s": "", "_batchsize": 1}, None)}, 100_000)
    assert {len(batches) for batches in games.inputs} == {256}
    assert not games.GC._arrays
    assert [len(batch) for batch in games.inputs[0][-2:]] == [1, 1]
    with pytest.raises(IndexError):
        games.inputs[0][256]
    assert games.replies[0] is not None
    assert games.replies[0][3][0]["a"].shape == (1,)
    assert games.replies[1] is None
    assert len(wrapper({"actor": actor(1)}, 100_000, num_collectors=300).inputs[0]) == 300


def test_several_collectors_that_reply_can_be_repeated_exactly() -> None:
    def trace(threads: int) -> list[tuple[str, Any]]:
        pair = {"first": {"a": ""}, "second": {"V": ""}}
        given = {"id": "", "s": "", "seq": "", "_batchsize": 32}
        listeners = {"early": ({**given, "_T": 2}, None), "late": (given, None)}
        descriptions = {name: (given, reply) for name, reply in pair.items()} | listeners
        found = []
        options = {"deterministic": True, "seed": 3, "num_threads": threads}
        with running(descriptions, 32, **options) as games:

            def note(name: str) -> Any:
                def callback(batch: Any, _gpu: Any, _reply: Any) -> None:
                    found.append((name, batch[0]["s"].tobytes()))

                return callback

            for name in descriptions:
                games.reg_callback(name, note(name))
            for _ in range(300):
                run(games)
        return found

    first = trace(1)
    for threads in (2, 4, 8, 2, 4, 8):
        assert trace(threads) == first
