"""Module paths, names and arguments of before, which still work and warn."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
import warnings

import numpy as np
import pytest

import cogrs
import cogrs.collector.games.cartpole
from cogrs.replay import IdBatch, NStepIdBatch

FORMER_MODULES = {
    "cogrs.collector.infos": ("cogrs.collector", "Infos"),
    "cogrs.collector.tensor_spec": ("cogrs.collector", "TensorSpec"),
    "cogrs.sdk.payload": (
        "cogrs.sdk",
        "ArrayCodec BytesCodec Codec Codecs Decoded MessageCodec array_message read_array_message",
    ),
    "cogrs.sdk.remote_call": ("cogrs.sdk", "RemoteCallError UnreachableError"),
    "cogrs.sdk.tick": ("cogrs.sdk", "step_of_reward"),
    "cogrs.workers.actor": ("cogrs.workers", "ActorWorker Decision"),
    "cogrs.workers.datalog": ("cogrs.workers", "ReplaySink feed_log"),
    "cogrs.workers.learner": ("cogrs.workers", "LearnerWorker"),
    "cogrs.workers.step": ("cogrs.workers", "step_info trial_number"),
}


def imported_again(name: str) -> object:
    sys.modules.pop(name, None)
    return importlib.import_module(name)


@pytest.mark.parametrize("former", FORMER_MODULES)
def test_former_module_has_the_names_of_the_present_one_and_warns(former: str) -> None:
    package, names = FORMER_MODULES[former]
    with pytest.warns(DeprecationWarning, match=f"{former} is now cogrs"):
        module = imported_again(former)
    for name in names.split():
        assert getattr(module, name) is getattr(importlib.import_module(package), name)
    with pytest.raises(AttributeError, match=f"module '{former}' has no attribute 'no_such_name'"):
        module.no_such_name  # type: ignore[attr-defined]  # noqa: B018


def test_import_of_a_former_module_warns_at_the_importing_line() -> None:
    script = "\nimport cogrs.workers.actor"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, timeout=60
    )
    assert 'File "<string>", line 2' in done.stderr
    assert "cogrs.workers.actor is now cogrs.workers.actor_worker" in done.stderr


@pytest.mark.parametrize(
    ("module", "name", "present"),
    [
        ("cogrs.replay.source", "SourceStats", cogrs.replay.ServerConnectionStats),
        ("cogrs.workers.datalog", "Judgement", cogrs.workers.PolicyAnnotation),
        ("cogrs.sdk.datalog_file", "JsonLinesSink", cogrs.sdk.JsonLinesSink),
        ("cogrs.sdk.datalog_file", "ParquetSink", cogrs.sdk.ParquetSink),
        ("cogrs.sdk.datalog_file", "read_log", cogrs.sdk.read_log),
    ],
)
def test_former_name_in_a_module_warns(module: str, name: str, present: object) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = importlib.import_module(module)
    with pytest.warns(DeprecationWarning, match=f"{name} is now cogrs"):
        assert getattr(found, name) is present


def test_unknown_name_of_the_module_of_file_sinks_raises_attribute_error() -> None:
    module = importlib.import_module("cogrs.sdk.datalog_file")
    with pytest.raises(AttributeError, match="no_such_name"):
        module.no_such_name  # noqa: B018


@pytest.mark.parametrize("kind", [IdBatch, NStepIdBatch])
def test_ids_is_the_former_argument_id_of_batches_with_ids(kind: type) -> None:
    columns = {name: np.zeros(1) for name in kind._fields if name != "id"}
    with pytest.warns(DeprecationWarning, match="ids= is now id=") as warned:
        batch = kind(ids=np.array([7]), **columns)
    assert warned[0].filename == __file__
    assert batch.id == 7
    with pytest.warns(DeprecationWarning, match="ids= is now id="):
        assert batch._replace(ids=8).id == 8
    assert batch._replace(id=9)._asdict()["id"] == 9
    assert kind(*batch) == kind._make(batch) == batch


def test_judged_is_the_former_name_of_annotation() -> None:
    sink = cogrs.workers.ReplaySink(None, lambda state, action: (state, action))
    with pytest.warns(DeprecationWarning, match=r"judged\(\) is now annotation\(\)"):
        assert sink.judged(0.5, 2.0) == cogrs.workers.PolicyAnnotation(0.5, 2.0)


def test_name_of_a_game_is_taken_as_a_keyword() -> None:
    context = cogrs.GameContext(name="cartpole")
    assert type(context) is cogrs.collector.games.cartpole.CartPoleContext


def test_signature_of_a_game_context_is_that_of_its_init() -> None:
    class Few(cogrs.collector.games.cartpole.CartPoleContext):
        def __init__(self, num_games: int) -> None:
            super().__init__(cogrs.ContextOptions(num_games=num_games))

    assert list(inspect.signature(Few).parameters) == ["num_games"]
    assert list(inspect.signature(cogrs.GameContext).parameters) == ["args", "options"]
    assert Few(3).co.num_games == 3


def test_subclass_of_the_abstract_game_context_creates_no_other_class_by_name() -> None:
    class Mine(cogrs.GameContext):
        pass

    for args in [(), ("cartpole",)]:
        with pytest.raises(TypeError, match="Mine is abstract: subclass the class of a game"):
            Mine(*args)


def test_argument_by_both_names_is_refused() -> None:
    with pytest.raises(TypeError, match="ids: expected one of ids= and id=, got both"):
        IdBatch(prev=1, next=2, weight=3, id=4, ids=5, sender=6)  # type: ignore[call-arg, arg-type]
    inputs = {"s": ("float32", (2,))}
    with pytest.raises(TypeError, match="expected one of timeout_usec= and timeout=, got both"):
        cogrs.collector.RequestBatcher(inputs, inputs, 1, timeout=1.0, timeout_usec=1)
