"""Configuration from Python and from `cogment.yaml`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import cogrs
from cogrs.orchestrator import Config
from cogrs.orchestrator.service.config import read_config

if TYPE_CHECKING:
    from pathlib import Path

YAML = """
import:
  proto: [data.proto]
commands:
  run: python main.py
trial:
  config_type: data.TrialConfig
  pre_hooks: [grpc://hooks:9000, "other:9001"]
datalog:
  type: grpc
  url: grpc://log:9000
  fields:
    exclude: [messages, observations]
actor_classes:
  - id: player
    action: {space: data.Action}
    observation: {space: data.Observation}
  - id: judge
trial_params:
  environment:
    endpoint: grpc://environment:9000
    implementation: walls
  max_steps: 100
  max_inactivity: 30
  actors:
    - name: one
      actor_class: player
      endpoint: client
    - {name: two, actor_class: judge, implementation: fast, endpoint: "grpc://agents:9000"}
"""


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "cogment.yaml"
    path.write_text(YAML, encoding="utf-8")
    for config in (read_config(path), read_config(str(path))):
        assert config.hooks == ("grpc://hooks:9000", "other:9001")
        assert config.log_url == "grpc://log:9000"
        assert config.log_exclude == ("messages", "observations")
        assert config.classes == {"player", "judge"}
        params = config.params
        assert params.environment.endpoint == "grpc://environment:9000"
        assert params.environment.implementation == "walls"
        assert (params.max_steps, params.max_inactivity) == (100, 30)
        assert [(actor.name, actor.endpoint) for actor in params.actors] == [
            ("one", "client"),
            ("two", "grpc://agents:9000"),
        ]


@pytest.mark.parametrize(
    "content",
    [
        None,
        {},
        {"trial": None, "datalog": None, "trial_params": None},
        {"datalog": {"type": "none"}},
    ],
)
def test_nothing_in_particular(content: Any) -> None:
    assert read_config(content) == Config()


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "cogment.yaml").write_text("")
    assert read_config(tmp_path / "cogment.yaml") == Config()


def test_a_config_is_taken_as_it_is() -> None:
    config = Config(hooks=("a:1",))
    assert read_config(config) is config


BAD: list[tuple[dict[str, Any], str]] = [
    ({"trial_params": {"max_stepz": 1}}, 'trial_params: .*"max_stepz"'),
    ({"trial_params": {"max_steps": -1}}, "trial_params: .*max_steps"),
    ({"trial_params": [1]}, "trial_params: expected a section, got list"),
    ({"trial": {"pre_hooks": "a:1"}}, "trial.pre_hooks: expected a list of strings, got 'a:1'"),
    ({"trial": {"pre_hooks": ["client"]}}, "trial.pre_hooks: expected endpoint"),
    ({"datalog": {"type": "file"}}, "datalog.type: expected 'grpc' or 'none', got 'file'"),
    ({"datalog": {"type": "grpc"}}, "datalog.url: expected an endpoint"),
    ({"datalog": {"type": "grpc", "url": "x"}}, "datalog.url: expected endpoint"),
    ({"datalog": {"fields": {"exclude": ["reward"]}}}, "datalog.fields.exclude: .*'reward'"),
    ({"actor_classes": [{"name": "x"}]}, "actor_classes: expected .* id"),
    ({"trial_params": {"trial_config": {"seed": 1}}}, "trial_params.trial_config: .*own types"),
    (
        {"trial_params": {"environment": {"config": {"a": 1}}}},
        "trial_params.environment.config: .*own types",
    ),
    (
        {"trial_params": {"actors": [{"name": "a"}, {"config": {}}]}},
        r"trial_params.actors\[1\].config: .*own types",
    ),
]


@pytest.mark.parametrize(("content", "text"), BAD)
def test_mistakes_are_told_by_name(content: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        cogrs.serve_orchestrator(content, port=0)


@pytest.mark.parametrize("text", ["- 1", "a: [", "trial_params: {max_stepz: 1}"])
def test_mistakes_in_a_file_are_told_with_its_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"mine\.yaml: "):
        read_config(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        cogrs.serve_orchestrator(tmp_path / "nothing.yaml", port=0)


def test_what_is_no_configuration() -> None:
    with pytest.raises(TypeError, match="expected a path, a mapping or a Config, got int"):
        cogrs.serve_orchestrator(7, port=0)  # type: ignore[arg-type]
