"""`GCWrapper.Run`: batches, time-outs, threads, and how a run ends."""

from __future__ import annotations

import threading
import time
from itertools import pairwise
from typing import Any

import pytest

from tests.collector.build import LIMIT, actor, balance, forever, run, running, until, wrapper

BOTH = {"actor": actor(2), "optimizer": ({"id": "", "s": "", "_batchsize": 3}, None)}


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
def test_negative_or_nan_timeout_of_run_is_refused(timeout: float) -> None:
    with running({"actor": actor(1)}) as games, pytest.raises(ValueError, match="timeout"):
        games.Run(timeout)


def test_stop_from_another_thread_wakes_a_run() -> None:
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


def test_one_thread_per_collector_gets_its_batches() -> None:
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


def test_timeout_sends_a_batch_out_short_and_loses_nothing() -> None:
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


def test_infos_belong_to_the_batch_of_the_calling_thread() -> None:
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
            with pytest.raises(ValueError, match="collector: expected one of"):
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


def test_second_interrupt_loses_no_batch() -> None:
    with running({"actor": actor(4)}) as games:
        redeliver = games.GC.redeliver

        def interrupt(_delivery: Any) -> None:
            raise KeyboardInterrupt

        games.reg_callback("actor", lambda *_: 1 / 0)
        games.GC.redeliver = interrupt  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            games.Run(LIMIT)
        games.GC.redeliver = redeliver  # type: ignore[method-assign]
        games.reg_callback("actor", lambda *_: "again")
        assert games.Run(LIMIT) == "again"


def test_batch_that_was_given_back_has_no_arrays() -> None:
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


def test_exception_of_the_callback_is_raised_and_its_batch_delivered_again() -> None:
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


def test_forgotten_batch_is_delivered_again() -> None:
    with running({"actor": actor(2)}) as games:
        first = games.GC.Wait()
        ids = games.GC.batch(first)[0][0]["id"].tolist()
        del first
        assert games.GC.batch(games.GC.Wait())[0][0]["id"].tolist() == ids
        other = wrapper({"actor": actor(2)})
        with pytest.raises(RuntimeError, match="another context"):
            other.GC.Steps(games.GC.Wait())


def test_stop_from_a_callback_ends_the_run() -> None:
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


def test_callback_that_stops_and_raises() -> None:
    with running({"actor": actor(2)}) as games:

        def act(*_: Any) -> None:
            games.Stop()
            raise KeyError("after all")

        games.reg_callback("actor", act)
        with pytest.raises(KeyError, match="after all"):
            games.Run(LIMIT)


def test_call_before_start_or_after_stop_raises() -> None:
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


def test_listener_that_blocks_holds_its_games() -> None:
    listener = ({"seq": "", "_batchsize": 2, "_block": "1"}, None)
    descriptions = {"actor": actor(2), "optimizer": listener}
    with running(descriptions, 2) as games:
        games.reg_callback("actor", balance)
        games.reg_callback("optimizer", lambda *_: None)
        order = []
        for _ in range(12):
            run(games)
            order.append(games.infos.name)
        assert order == ["actor", "optimizer"] * 6
        held = games.GC.WaitGroup("actor")
        games.GC.Steps(held)
        held = games.GC.WaitGroup("optimizer")
        assert games.RunGroup("actor", 0.05) is None
        assert games.infos.gid == -1
        games.GC.Steps(held)
        games.RunGroup("actor", LIMIT)
        assert games.infos.gid == 0


@pytest.mark.parametrize("batchsize", [1, 2, 3, 5])
def test_listeners_that_block_never_stop_a_run(batchsize: int) -> None:
    listener = ({"seq": "", "_batchsize": batchsize, "_T": 3, "_block": 1}, None)
    with running({"actor": actor(2), "optimizer": listener}, 4) as games:
        games.reg_callback("actor", balance)
        counts = {"actor": 0, "optimizer": 0}
        games.reg_callback("optimizer", lambda *_: None)
        while min(counts.values()) < 20:
            run(games)
            counts[games.infos.name] += 1


def test_block_key_other_than_0_and_1_is_refused_by_name() -> None:
    for value in ("2", "yes", -1):
        with pytest.raises(ValueError, match="'optimizer': _block"):
            wrapper({"optimizer": ({"seq": "", "_batchsize": 1, "_block": value}, None)})
