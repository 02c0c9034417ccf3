"""The index of a store, in both databases: filters against a naive model, and transactions."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cogrs.store import TrialFilter, open_store
from cogrs.store.postgres_index import PostgresIndex
from cogrs.store.record import moment_of, seconds_of
from cogrs.store.sqlite_index import NAME, SqliteIndex
from tests.store.trials import record

if TYPE_CHECKING:
    from cogrs.store.record import TrialRecord

CLASSES = ["player", "judge", "100%_'"]
REASONS = ["environment: final update", "max_steps: 3 steps are done", "", "100%", "it's"]

RECORDS = st.builds(
    lambda number, returns, kinds, reason, user, flags: record(
        number,
        returns=dict(zip("abc", returns, strict=False)) if kinds else {},
        classes=dict(zip("abc", kinds, strict=False)),
        end_reason=reason,
        user=user,
        partial=flags[0],
        people=flags[1],
    ),
    st.integers(0, 50),
    st.lists(st.floats(-5, 5), min_size=3, max_size=3),
    st.lists(st.sampled_from(CLASSES), max_size=3),
    st.sampled_from(REASONS),
    st.sampled_from(["", "ann", "bob"]),
    st.tuples(st.booleans(), st.booleans()),
).map(lambda each: each if len(each.returns) == len(each.classes) else aligned(each))

MAYBE_FLAG = st.none() | st.booleans()
FILTERS = st.builds(
    TrialFilter,
    actor_class=st.none() | st.sampled_from(CLASSES),
    since=st.none() | st.integers(1_700_000_000, 1_700_000_050),
    until=st.none() | st.integers(1_700_000_000, 1_700_000_050).map(moment_of),
    min_return=st.none() | st.floats(-5, 5),
    ended_by=st.none() | st.sampled_from(["max", "%", "'", "final", ""]),
    user=st.none() | st.sampled_from(["", "ann"]),
    partial=MAYBE_FLAG,
    people=MAYBE_FLAG,
    limit=st.none() | st.integers(1, 5),
)


def aligned(each: TrialRecord) -> TrialRecord:
    returns = {name: each.returns[name] for name in each.classes}
    return record(
        each.ticks,
        returns=returns,
        classes=each.classes,
        end_reason=each.end_reason,
        user=each.user,
        partial=each.partial,
        people=each.people,
    )


def fits(each: TrialRecord, wanted: TrialFilter) -> bool:
    started = seconds_of(each.started)
    return (
        (wanted.actor_class is None or wanted.actor_class in each.classes.values())
        and (wanted.since is None or started >= seconds_of(wanted.since))
        and (wanted.until is None or started < seconds_of(wanted.until))
        and (
            wanted.min_return is None or any(r >= wanted.min_return for r in each.returns.values())
        )
        and (wanted.ended_by is None or wanted.ended_by in each.end_reason)
        and (wanted.user is None or wanted.user == each.user)
        and (wanted.partial is None or wanted.partial == each.partial)
        and (wanted.people is None or wanted.people == each.people)
    )


@pytest.fixture(params=["sqlite", "postgres"])
def index(request, tmp_path):
    if request.param == "sqlite":
        made = SqliteIndex(tmp_path / NAME, create=True)
    else:
        made = PostgresIndex(request.getfixturevalue("postgres").url)
    yield made
    made.close()


@settings(
    max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, *HealthCheck]
)
@given(kept=st.lists(RECORDS, max_size=12, unique_by=lambda each: each.trial_id), wanted=FILTERS)
def test_select_gives_the_trials_of_a_naive_filter_by_their_start(index, kept, wanted):
    index.remove([each.trial_id for each in index.select(TrialFilter())])
    index.add(kept)
    expected = sorted((each for each in kept if fits(each, wanted)), key=lambda each: each.started)
    if wanted.limit is not None:
        expected = expected[-wanted.limit :]
    found = list(index.select(wanted))
    assert found == expected
    assert [list(each.classes) for each in found] == [list(each.classes) for each in expected]


def test_add_of_a_known_id_leaves_the_row_unchanged(index):
    index.add([record(1)])
    index.add([record(1, user="bob"), record(2)])
    assert [(each.trial_id, each.user) for each in index.select(TrialFilter())] == [
        ("trial-000001", "ann"),
        ("trial-000002", "ann"),
    ]


def test_find_of_a_misspelt_id_names_the_nearest(index):
    index.add([record(1), record(2)])
    with pytest.raises(ValueError, match=r"no trial 'trial-00001' .*did you mean 'trial-000001'\?"):
        index.find("trial-00001")
    with pytest.raises(ValueError, match="it has 2 trials"):
        index.find("x")


def test_failed_transaction_changes_nothing_and_the_next_one_works(index):

    def broken() -> None:
        with index.transaction():
            index.add([record(1, end_reason="a new reason")])
            raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        broken()
    assert index.count() == 0
    index.add([record(1, end_reason="a new reason")])
    assert index.find("trial-000001").end_reason == "a new reason"


def test_odd_texts_come_back_unchanged(index):
    odd = "ß\u2028'\"\\%_\U0001f600\n"
    given = record(
        1, user=odd, end_reason=odd, classes={odd: odd}, returns={odd: 1e308}, params=odd
    )
    index.add([given])
    assert index.find(given.trial_id) == given


def test_threads_add_trials_at_the_same_time(index):
    numbers = [range(k * 100, k * 100 + 50) for k in range(4)]

    def add(mine: range) -> None:
        for number in mine:
            index.add([record(number)])

    threads = [threading.Thread(target=add, args=(mine,)) for mine in numbers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert index.known([record(k).trial_id for mine in numbers for k in mine]) == {
        each.trial_id for each in index.select(TrialFilter())
    }
    assert index.count() == 200


def test_index_of_a_newer_version_is_refused_and_named(index, tmp_path):
    index._query("UPDATE cogrs_store SET version = 99")
    sqlite = isinstance(index, SqliteIndex)
    again = (lambda: SqliteIndex(tmp_path / NAME)) if sqlite else lambda: PostgresIndex(index._url)
    with pytest.raises(ValueError, match="expected an index of version 1 or older, got version 99"):
        again()


def test_select_of_many_rows_streams_while_rows_are_added(index):
    index.add([record(k) for k in range(12_000)])
    rows = index.select(TrialFilter())
    first = next(rows)
    index.add([record(50_000)])
    rest = list(rows)
    assert first.trial_id == "trial-000000"
    assert len(rest) in (11_999, 12_000)


def test_sqlite_file_of_something_else_is_refused(tmp_path):
    (tmp_path / NAME).write_bytes(b"hello" * 1000)
    with pytest.raises(ValueError, match="expected an index of trials"):
        open_store(tmp_path)


def test_sqlite_that_another_process_writes_is_waited_for(tmp_path):
    index = SqliteIndex(tmp_path / NAME, create=True)
    other = sqlite3.connect(tmp_path / NAME, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.3, lambda: other.execute("COMMIT"))
    timer.start()
    index.add([record(1)])
    timer.join()
    assert index.count() == 1
    index.close()
    other.close()


def test_filter_refuses_values_of_other_types():
    for name, value in {
        "actor_class": 1,
        "since": "yesterday",
        "min_return": "1",
        "partial": 1,
        "limit": 1.5,
    }.items():
        with pytest.raises(TypeError, match=f"^{name}: expected"):
            TrialFilter(**{name: value})
    with pytest.raises(ValueError, match=r"^min_return: expected a finite number"):
        TrialFilter(min_return=float("nan"))
    with pytest.raises(ValueError, match=r"^limit: expected"):
        TrialFilter(limit=0)
    assert seconds_of(datetime(1970, 1, 2, tzinfo=UTC)) == 86400


def test_sqlite_index_is_written_while_a_select_is_read_and_others_write(tmp_path, monkeypatch):
    monkeypatch.setattr("cogrs.store.sqlite_index.FETCHED", 2)
    with (
        closing(SqliteIndex(tmp_path / "index", create=True, patience=1.0)) as index,
        closing(SqliteIndex(tmp_path / "index", patience=1.0)) as other,
    ):
        index.add([record(number) for number in range(9)])
        for number, each in enumerate(index.select(TrialFilter())):
            other.add([record(100 + number)])
            index.remove([each.trial_id])
        assert number == 8
        assert {each.ticks for each in other.select(TrialFilter())} == set(range(100, 109))


def test_add_tells_which_ids_another_file_has(index):
    index.add([record(1)])
    assert index.add([record(1), record(2)]) == []
    second = record(1, file="trials/y/000000/trial-000001.parquet")
    assert index.add([second, record(3)]) == [second]
    assert index.find("trial-000001") == record(1)
