"""Time: what it is, and alarms, which are put off far more often than they ring."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from cogrs.orchestrator.engine.clock import Alarm
from cogrs.orchestrator.service.clock import LoopClock
from tests.orchestrator.net import on_loop
from tests.orchestrator.world import Clock

moves = st.one_of(
    st.tuples(st.just("set"), st.integers(0, 9)),
    st.tuples(st.just("stop"), st.just(0)),
    st.tuples(st.just("pass"), st.integers(1, 9)),
)


@given(st.lists(moves, max_size=30))
def test_alarm_rings_at_the_time_that_was_set_last(script: list[tuple[str, int]]) -> None:
    clock, rung = Clock(), []
    alarm = Alarm(clock, lambda: rung.append(clock.now()))
    due, expected = None, []
    for move, seconds in script:
        if move == "set":
            alarm.set(seconds)
            due = clock.now() + seconds if seconds else None
        elif move == "stop":
            alarm.stop()
            due = None
        else:
            clock.advance(seconds)
            if due is not None and due <= clock.now():
                expected.append(due)
                due = None
        assert rung == expected
    assert clock.waiting == (due is not None)


def test_postponing_an_alarm_makes_no_timer() -> None:
    clock = Clock()
    alarm = Alarm(clock, lambda: None)
    for _ in range(1000):
        alarm.set(5)
        clock.advance(0.001)
    assert len(clock._timers) == 1


@on_loop
async def test_wall_ns_is_in_nanoseconds_since_the_epoch() -> None:
    before = time.time_ns()
    assert before <= LoopClock().wall_ns() <= time.time_ns()
