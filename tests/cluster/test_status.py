"""Row counts, homes of actors, and when parts are started again."""

from hypothesis import given
from hypothesis import strategies as st

from cogrs.cluster.homes import homes
from cogrs.cluster.restart_rule import WINDOW, RestartRule
from cogrs.cluster.state import RunState
from cogrs.cluster.status import row_counts, status_of


def actor(index, sender, inserted, generation=1):
    rows = {"sender": sender, "inserted": inserted}
    return told("actor", index, generation, rows)


def shard(index, senders, restored=0, generation=1):
    rows = {"stored": sum(senders.values()), "restored": restored, "senders": senders}
    return told("shard", index, generation, rows)


def told(role, index, generation, rows):
    report = {"count": 10, "at": 5.0, "rows": rows}
    place = {"node": "n", "pid": 1, "since": 0.0, "silent": 0.0}
    return place | {"role": role, "index": index, "generation": generation, "report": report}


def counts(*parts, ended=None):
    return row_counts({"parts": list(parts), "ended": ended or {}})


def test_inserted_rows_are_stored_or_lost():
    found = counts(
        actor(0, "a", 100), actor(1, "b", 50), shard(0, {"a": 60, "b": 20}), shard(1, {"a": 30})
    )
    assert (found.inserted, found.stored, found.lost) == (150, 110, 40)


def test_unreported_rows_of_a_killed_actor_count_as_inserted():
    found = counts(
        actor(0, "new", 10, 2),
        shard(0, {"old": 120, "new": 10}),
        ended={"actor-0-1": {"sender": "old", "inserted": 100}},
    )
    assert (found.inserted, found.stored, found.lost) == (130, 130, 0)


def test_rows_of_ended_actors_stay_in_the_sum():
    found = counts(
        actor(0, "new", 10, 2),
        shard(0, {"old": 90, "new": 10}),
        ended={"actor-0-1": {"sender": "old", "inserted": 100}},
    )
    assert (found.inserted, found.stored, found.lost) == (110, 100, 10)


def test_rows_since_the_checkpoint_of_a_killed_shard_are_told_apart():
    found = counts(
        actor(0, "a", 100),
        shard(0, {"a": 65}, restored=60, generation=3),
        ended={
            "shard-0-1": {"stored": 50, "restored": 0, "senders": {"a": 50}},
            "shard-0-2": {"stored": 90, "restored": 45, "senders": {"a": 90}},
        },
    )
    assert (found.stored, found.lost, found.lost_with_shards) == (65, 35, 35)


def test_drawn_rows_of_the_newest_learner_count():
    old = {"learner-0-1": {"drawn": 40}}
    assert counts(told("learner", 0, 2, {"drawn": 70}), ended=old).drawn == 70


@given(
    sent=st.lists(st.integers(0, 99), min_size=1, max_size=5),
    arrived=st.lists(st.integers(0, 99), min_size=1, max_size=5),
)
def test_counts_are_conserved_and_never_negative(sent, arrived):
    actors = [actor(at, str(at), count) for at, count in enumerate(sent)]
    shards = [shard(at, {str(at): count}) for at, count in enumerate(arrived)]
    found = counts(*actors, *shards)
    assert found.inserted == found.stored + found.lost
    assert min(found.lost, found.lost_with_shards) >= 0
    assert found.stored == sum(arrived)


def test_status_is_a_table_with_restarts_and_errors():
    supervisor = told("supervisor", 0, 1, {})
    supervisor["report"] = {
        "restarts": {"actor-0": 2},
        "errors": {"actor-0": "Traceback ...\nValueError: no"},
        "given_up": ["actor-0"],
    }
    told_now = {"parts": [actor(0, "a", 7), supervisor], "ended": {}}
    found = status_of("run", RunState("running"), told_now)
    role, one = found.parts
    assert (role.role, one.restarts, one.given_up, one.rate) == ("supervisor", 2, True, 2.0)
    lines = str(found).splitlines()
    assert lines[0] == "run: running"
    assert lines[3].startswith("actor 0")
    assert lines[3].endswith("given up; ValueError: no")
    assert lines[4].startswith("rows: 7 inserted = 0 stored + 7 lost")


def test_actors_are_at_home_at_shards_in_turn():
    assert homes(range(4), 2) == {0: 0, 1: 1, 2: 0, 3: 1}


def test_shard_without_actors_gets_one():
    assert homes([0, 2, 4], 2) == {0: 0, 2: 0, 4: 1}


@given(st.sets(st.integers(0, 50), min_size=1), st.integers(1, 8))
def test_each_shard_has_an_actor_where_there_are_enough(actors, shards):
    found = homes(actors, shards)
    assert found.keys() == actors
    assert len(set(found.values())) == min(len(actors), shards)


def test_part_is_given_up_at_the_third_failure_within_five_minutes():
    rule = RestartRule()
    assert rule.delay(0.0) < rule.delay(100.0)
    assert rule.delay(299.0) is None


def test_part_that_fails_now_and_then_is_started_again_each_time():
    rule = RestartRule()
    delays = {rule.delay(number * (WINDOW / 2 + 1)) for number in range(50)}
    assert None not in delays
