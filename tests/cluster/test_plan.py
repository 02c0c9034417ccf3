"""Plans: what is checked, and files of them."""

import dataclasses
import json
import re

import pytest

from cogrs.cluster import Plan, launch
from tests.cluster import programs

GOOD = """
make_env = "cartpole"
policy = "tests.cluster.programs:LinearPolicy"
learner = "tests.cluster.programs:LinearLearner"
shards = 2
actors = 4
storage = "here"
ports = [21000, 21099]

[limiter]
samples_per_insert = 4
min_size = 100
error_buffer = 1000

[settings]
gamma = 0.9
"""


def test_plan_of_a_file_has_its_values_and_defaults(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(GOOD)
    plan = Plan.from_toml(path)
    assert (plan.shards, plan.actors, plan.ports) == (2, 4, (21000, 21099))
    assert plan.storage == str(tmp_path / "here")
    assert plan.batch_size == 64
    assert plan.settings == {"gamma": 0.9}


def test_plan_survives_json(tmp_path):
    plan = programs.plan(tmp_path, updates=3)
    assert Plan.from_json(json.loads(json.dumps(plan.as_json()))) == plan


def test_functions_of_modules_become_import_paths(tmp_path):
    plan = programs.plan(tmp_path, policy=programs.LinearPolicy, learner=programs.LinearLearner)
    assert plan.policy == "tests.cluster.programs:LinearPolicy"
    assert plan.learner == "tests.cluster.programs:LinearLearner"


@pytest.mark.parametrize(
    ("changes", "kind", "text"),
    [
        ({"shards": 0}, ValueError, "shards: expected an integer >= 1, got 0"),
        ({"actors": 1}, ValueError, "actors: expected an integer >= 2, got 1"),
        ({"actors": "2"}, TypeError, "actors: expected an integer >= 2, got str"),
        ({"policy": "nowhere"}, ValueError, "policy: expected 'package.module:function'"),
        ({"learner": 3}, TypeError, "learner: expected 'package.module:function' or a function"),
        ({"settings": {"gamma": object()}}, ValueError, "settings: expected values that JSON"),
        ({"settings": 3}, TypeError, "settings: expected a mapping, got int"),
        ({"limiter": {"speed": 3}}, ValueError, "limiter: "),
        ({"batch_size": 800}, ValueError, "batch_size: expected at most 798"),
        ({"ports": (20000, 20004)}, ValueError, "ports: expected at least 6 ports"),
        ({"ports": (20000, 70000)}, ValueError, "ports: expected an integer from 1 to 65535"),
        ({"checkpoint_seconds": 0}, ValueError, "checkpoint_seconds: expected"),
        ({"samples_per_step": 0}, ValueError, "samples_per_step: expected a number > 0, got 0"),
        ({"capacity": 3}, ValueError, "capacity: expected at least envs_per_actor = 4, got 3"),
        ({"seed": -1}, ValueError, "seed: expected"),
        ({"trials": "yes"}, TypeError, "trials: expected True or False, got str"),
    ],
)
def test_plan_refuses_bad_values_by_name(tmp_path, changes, kind, text):
    with pytest.raises(kind, match=f"^{re.escape(text)}"):
        programs.plan(tmp_path, **changes)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("shards = ", "plan.toml: "),
        (GOOD.replace("actors =", "actor ="), "actor: a plan has no such key; did you mean 'act"),
        (GOOD.replace("policy =", "# "), "policy: expected text, got nothing"),
        (GOOD.replace("shards = 2", "shards = 9"), "actors: expected an integer >= 9, got 4"),
        ("a = " + "[" * 100_000, "plan.toml: "),
    ],
)
def test_file_with_an_error_is_refused_by_its_name(tmp_path, text, expected):
    path = tmp_path / "plan.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=f"plan.toml: .*{re.escape(expected)}|^.*{expected}"):
        Plan.from_toml(path)


@pytest.mark.parametrize(
    ("name", "path", "text"),
    [
        ("policy", "tests.cluster.nowhere:make", "No module named 'tests.cluster.nowhere'"),
        ("learner", "tests.cluster.programs:nobody", "has no attribute 'nobody'"),
        ("make_env", "tests.cluster.nowhere:make", "No module named 'tests.cluster.nowhere'"),
    ],
)
def test_launch_shows_the_traceback_of_a_path_that_cannot_be_imported(tmp_path, name, path, text):
    plan = programs.plan(tmp_path, **{name: path})
    with pytest.raises(ImportError) as caught:
        launch(plan)
    assert str(caught.value).startswith(f"{name}: cannot import {path!r} on node ")
    assert "Traceback" in str(caught.value)
    assert text in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_launch_on_this_machine_refuses_functions_that_others_cannot_import(tmp_path):
    plan = programs.plan(tmp_path, policy=lambda context: None)
    assert plan.as_json()["policy"] == "shipped:policy"
    assert list(plan.functions()) == ["policy"]
    assert Plan.from_json(plan.as_json()).with_functions(plan.functions()) == plan
    with pytest.raises(ValueError, match=r"^policy: expected a function of a module that other"):
        launch(plan)
    assert not (tmp_path / "run").exists()


def test_launch_refuses_storage_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"storage: cannot write to it: .*/file'$"):
        launch(programs.plan(tmp_path / "file"))


@pytest.mark.parametrize("name", ["", "../run", "a/b", ".hidden", "a" * 65, 3])
def test_launch_refuses_names_that_are_not_of_folders(tmp_path, name):
    with pytest.raises(ValueError, match=r"^name: expected letters"):
        launch(programs.plan(tmp_path), name=name)


def test_launch_refuses_other_things_than_plans():
    with pytest.raises(TypeError, match=r"^plan: expected a Plan, got dict"):
        launch({})


def test_plan_does_not_change(tmp_path):
    with pytest.raises(dataclasses.FrozenInstanceError):
        programs.plan(tmp_path).shards = 3
