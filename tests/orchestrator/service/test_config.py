"""Configuration from Python and from `cogment.yaml`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import cogrs
from cogrs.orchestrator import Config
from cogrs.orchestrator.service.config import read_config

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


def test_config_file_is_read(tmp_path: Path) -> None:
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
        {"datalog": {"type": "none", "url": "log:9000"}},
        {"datalog": {"url": "log:9000"}},
    ],
)
def test_config_without_content_is_empty(content: Any) -> None:
    assert read_config(content) == Config()


def test_empty_config_file_is_an_empty_config(tmp_path: Path) -> None:
    (tmp_path / "cogment.yaml").write_text("")
    assert read_config(tmp_path / "cogment.yaml") == Config()


def test_config_object_is_returned_unchanged() -> None:
    config = Config(hooks=("a:1",))
    assert read_config(config) is config


BAD: list[tuple[dict[str, Any], str]] = [
    ({"trial_params": {"max_stepz": 1}}, 'trial_params: .*"max_stepz"'),
    ({"trial_params": {"max_steps": -1}}, "trial_params: .*max_steps"),
    ({"trial_params": [1]}, "trial_params: expected a section, got list"),
    ({"trial": {"pre_hooks": "a:1"}}, "trial.pre_hooks: expected a list of strings, got 'a:1'"),
    ({"trial": {"pre_hooks": ["client"]}}, "trial.pre_hooks: expected endpoint"),
    ({"datalog": {"type": "file"}}, "datalog.type: expected 'grpc', 'store' or 'none', got 'file'"),
    ({"datalog": {"type": "grpc"}}, "datalog.url: expected an endpoint"),
    ({"datalog": {"type": "grpc", "url": "x"}}, "datalog.url: expected endpoint"),
    ({"datalog": {"fields": {"exclude": ["reward"]}}}, "datalog.fields.exclude: .*'reward'"),
    ({"actor_classes": [{"name": "x"}]}, "actor_classes: expected .* id"),
    ({"actor_classes": [{"id": "x"}, {"id": "x"}]}, r"actor_classes\[1\]\.id: duplicate 'x'"),
    ({"actor_classes": [{"id": "x", "config_type": 5}]}, r"\[0\]\.config_type: .* string, got 5"),
    ({"import": {"descriptor_set": []}}, "import.descriptor_set: expected a string"),
    ({"trial_params": {"actors": 1}}, "trial_params.actors: expected a list, got int"),
    ({"datalog": []}, "datalog: expected a section, got list"),
    ({"trial_parms": {}}, "trial_parms: .* did you mean 'trial_params'"),
    ({"datalog": {"typ": "grpc"}}, "datalog.typ: .* did you mean 'type'"),
    ({"datalog": {"fields": {"exclud": []}}}, "datalog.fields.exclud: .* 'exclude'"),
    (
        {"trial_params": {"trial_config": {"seed": 1}}},
        "trial_params.trial_config: .* without a type: .* trial.config_type",
    ),
    (
        {"trial_params": {"environment": {"config": {"a": 1}}}},
        "trial_params.environment.config: .* without a type: .* environment.config_type",
    ),
    (
        {"trial_params": {"actors": [{"name": "a"}, {"config": {}, "actor_class": "k"}]}},
        r"trial_params.actors\[1\].config: .* without a type: .* class 'k'",
    ),
    (
        {"trial": {"config_type": "T"}, "trial_params": {"trial_config": {}}},
        "trial.config_type: no message 'T' in import.proto, which is empty",
    ),
]


@pytest.mark.parametrize(("content", "text"), BAD)
def test_mistake_in_a_mapping_is_refused_by_name(content: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        cogrs.serve_orchestrator(content, port=0)


@pytest.mark.parametrize(
    "text",
    [
        "- 1",
        "a: [",
        "trial_params: {max_stepz: 1}",
        "0",
        "[]",
        "trial: {}\ntrial: {}",
        pytest.param("a: " + "[" * 5000, id="deep"),
    ],
)
def test_mistake_in_a_file_is_refused_with_the_files_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"mine\.yaml: "):
        read_config(path)


def test_missing_config_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        cogrs.serve_orchestrator(tmp_path / "nothing.yaml", port=0)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"params": {}}, "params: expected TrialParams, got dict"),
        ({"hooks": "a:1"}, "hooks: expected a list of strings, got a string"),
        ({"hooks": [5]}, "hooks: expected a list of strings, got int"),
        ({"classes": 5}, "classes: expected a list of strings, got int"),
        ({"log_url": None}, "log_url: expected a string, got NoneType"),
        ({"log_exclude": "rewards"}, "log_exclude: expected a list of strings, got a string"),
        ({"actor_options": []}, "actor_options: expected a mapping from names, got list"),
        ({"class_options": {1: 2}}, "class_options, key 1: expected a string, got int"),
    ],
)
def test_config_object_with_wrong_types_is_refused_by_name(
    given: dict[str, Any], text: str
) -> None:
    with pytest.raises(TypeError, match=text):
        Config(**given)


def test_source_of_another_type_is_refused() -> None:
    with pytest.raises(TypeError, match="expected a path, a mapping or a Config, got int"):
        cogrs.serve_orchestrator(7, port=0)  # type: ignore[arg-type]


# --- configs of the user's own types ---------------------------------------------------------

BASE = """
syntax = "proto3";
package base;
message Size { uint32 rows = 1; uint32 columns = 2; }
"""
TYPES = """
syntax = "proto3";
package mine;
import "lib/base.proto";
import "google/protobuf/duration.proto";
message Trial { string name = 1; google.protobuf.Duration pause = 2; }
message Walls { base.Size size = 1; enum Kind { FLAT = 0; ROUND = 1; } Kind kind = 2; }
message Player { bool fast = 1; bytes secret = 2; }
"""
OWN = """
import: {proto: [types.proto]}
trial: {config_type: mine.Trial}
environment: {config_type: mine.Walls}
actor_classes: [{id: player, config_type: mine.Player}, {id: judge}]
trial_params:
  trial_config: {name: first, pause: 1.5s}
  environment: {endpoint: "e:1", config: {size: {rows: 3, columns: 4}, kind: ROUND}}
  actors:
    - {name: a, actor_class: player, endpoint: client, config: {fast: true, secret: aGk=}}
    - {name: b, actor_class: player, endpoint: client, config: {}}
    - {name: c, actor_class: judge, endpoint: client}
"""


def _write(folder: Path, types: str = TYPES, **changes: str) -> Path:
    (folder / "lib").mkdir(exist_ok=True)
    (folder / "lib" / "base.proto").write_text(BASE)
    (folder / "types.proto").write_text(types)
    text = OWN
    for old, new in changes.items():
        text = text.replace(old, new)
    (folder / "cogment.yaml").write_text(text)
    return folder / "cogment.yaml"


def _check(config: Config) -> None:
    params = config.params
    # By the rules of the wire: field 1 "first", field 2 a Duration of 1 s and 500,000,000 ns.
    assert params.trial_config.content == b"\n\x05first\x12\x08\x08\x01\x10\x80\xca\xb5\xee\x01"
    assert params.environment.config.content == b"\n\x04\x08\x03\x10\x04\x10\x01"
    configs = [actor.config for actor in params.actors]
    assert [each.content for each in configs] == [b"\x08\x01\x12\x02hi", b"", b""]
    assert [actor.HasField("config") for actor in params.actors] == [True, True, False]
    assert config.classes == {"player", "judge"}


def test_configs_are_encoded_with_the_users_protos(tmp_path: Path) -> None:
    pytest.importorskip("grpc_tools")
    _check(read_config(_write(tmp_path)))


def test_descriptor_set_is_read_without_a_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    protoc = pytest.importorskip("grpc_tools.protoc")
    path = _write(tmp_path, **{"proto: [types.proto]": "descriptor_set: types.binpb"})
    include = Path(protoc.__file__).parent / "_proto"
    options = ["--include_imports", f"--descriptor_set_out={tmp_path}/types.binpb"]
    paths = [f"-I{tmp_path}", f"-I{include}"]
    assert protoc.main(["protoc", *paths, *options, str(tmp_path / "types.proto")]) == 0
    monkeypatch.setitem(sys.modules, "grpc_tools", None)
    _check(read_config(path))


def test_missing_compiler_is_named_in_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"cogment\.yaml: .*pip install 'cogrs\[protoc\]'"):
        read_config(_write(tmp_path))


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("rows: 3", "rowz: 3", r"trial_params\.environment\.config: .*rowz"),
        ("fast: true", "fast: 7.5", r"trial_params\.actors\[0\]\.config: "),
        ("mine.Player", "mine.Playr", r"class 'player', config_type: no message 'mine\.Playr'"),
        (
            "endpoint: client}",
            "endpoint: client, config: {}}",
            r"actors\[2\]\.config: .* without a type",
        ),
        ("types.proto", "nothing.proto", r"import\.proto: .*nothing\.proto"),
    ],
)
def test_mistake_in_a_trial_config_is_refused_by_name(
    tmp_path: Path, old: str, new: str, text: str
) -> None:
    pytest.importorskip("grpc_tools")
    with pytest.raises(ValueError, match=text):
        read_config(_write(tmp_path, **{old: new}))


def test_proto_that_does_not_compile_is_refused_by_name(tmp_path: Path) -> None:
    pytest.importorskip("grpc_tools")
    with pytest.raises(ValueError, match=r"import\.proto: .*types\.proto:2:1: "):
        read_config(_write(tmp_path, types='syntax = "proto3";\nno proto'))
