"""Old names of `cogrs.workers` and of its arguments."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from cogrs import ReplayMemory, workers
from cogrs.workers import ActorWorker, LearnerWorker, PolicyAnnotation, ReplaySink, feed_log
from tests.replay import network
from tests.workers.world import decide, made_server


def test_judgement_is_the_deprecated_name_of_policy_annotation() -> None:
    with pytest.warns(DeprecationWarning, match="Judgement is now cogrs.workers.PolicyAnnotation"):
        assert workers.Judgement is PolicyAnnotation


def test_module_without_the_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        workers.no_such_name  # noqa: B018


def test_judge_is_the_deprecated_name_of_annotate() -> None:
    number = np.float32(0)
    info = np.zeros((), workers.STEP_INFO)
    memory = ReplayMemory(np.zeros(3), np.int64(0), number, number, number, number, info, 8)

    def annotate(state: Any, action: Any) -> PolicyAnnotation:
        return PolicyAnnotation(0.5, 2.0)

    with pytest.warns(DeprecationWarning, match="judge= is now annotate=") as warned:
        sink = ReplaySink(memory, judge=annotate)
    assert warned[0].filename == __file__
    assert sink.annotation(None, None) == (0.5, 2.0)
    with pytest.warns(DeprecationWarning, match="judge= is now annotate="):
        assert asyncio.run(feed_log(memory, [], judge=annotate)) == 0


def test_timeout_ms_is_the_deprecated_timeout_in_milliseconds() -> None:
    with made_server() as server, network.connected(server) as client:
        with (
            pytest.warns(DeprecationWarning, match="timeout_ms= is now timeout="),
            pytest.raises(ValueError, match="timeout: expected seconds > 0, got 0"),
        ):
            ActorWorker(client, decide, timeout_ms=0)
        with pytest.warns(DeprecationWarning, match="timeout_ms= is now timeout="):
            ActorWorker(client, decide, timeout_ms=20).close()


@pytest.mark.parametrize(
    ("given", "error", "got"),
    [("5", TypeError, "str"), (None, TypeError, "NoneType"), (float("nan"), ValueError, "nan")],
)
def test_timeout_ms_that_is_not_a_number_raises_an_error_with_its_name(given, error, got) -> None:
    with (
        made_server() as server,
        network.connected(server) as client,
        pytest.warns(DeprecationWarning, match="timeout_ms= is now timeout="),
        pytest.raises(error, match=f"^timeout_ms: expected a finite number, got {got}$"),
    ):
        ActorWorker(client, decide, timeout_ms=given)


def test_wait_is_the_deprecated_name_of_the_timeout_of_a_learners_step() -> None:
    with made_server() as server:
        worker = LearnerWorker(server, lambda batch: {}, lambda: b"parameters")
        with pytest.warns(DeprecationWarning, match="wait= is now timeout="):
            assert worker.step(wait=0.01) is None
