"""The section `actor_options` of a `cogment.yaml`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from cogrs.orchestrator import ActorOptions, Config
from cogrs.orchestrator.service.config import read_config

if TYPE_CHECKING:
    from pathlib import Path

PROTO = 'syntax = "proto3"; package p; message Move { int32 to = 1; }'
CLASSES = [{"id": "walker", "action": {"space": "p.Move"}}, {"id": "other"}]


def test_actor_options_of_a_file_are_read(tmp_path: Path) -> None:
    (tmp_path / "p.proto").write_text(PROTO)
    (tmp_path / "cogment.yaml").write_text(
        """
import: {proto: [p.proto]}
actor_classes:
  - {id: walker, action: {space: p.Move}}
  - {id: other}
trial_params:
  actors:
    - {name: alice, actor_class: walker, endpoint: client}
actor_options:
  - {actor_class: walker, optional: true, default_action: {to: 3}, response_timeout: 2}
  - {name: alice, default_action: {to: 4}, initial_connection_timeout: 1.5}
  - {name: bob, default_action: aGk=}
"""
    )
    config = read_config(tmp_path / "cogment.yaml")
    assert config.class_options == {
        "walker": ActorOptions(optional=True, default_action=b"\x08\x03", response_timeout=2)
    }
    assert config.actor_options == {
        "alice": ActorOptions(default_action=b"\x08\x04", initial_connection_timeout=1.5),
        "bob": ActorOptions(default_action=b"hi"),
    }


@pytest.mark.parametrize(
    ("section", "text"),
    [
        ({}, "actor_options: expected a list, got dict"),
        (["x"], r"actor_options\[0\]: expected a section, got str"),
        ([{"optional": True}], r"actor_options\[0\]: expected either a name or an actor_class"),
        ([{"name": "a", "actor_class": "walker"}], r"\[0\]: expected either a name or"),
        ([{"name": 3}], r"\[0\]: expected either a name or"),
        ([{"name": "a"}, {"name": "a"}], r"\[1\]: duplicate name 'a'"),
        ([{"name": "a", "timeout": 3}], r"\[0\].timeout: expected one of optional, default"),
        ([{"name": "a", "optional": "yes"}], r"\[0\].optional: expected True or False, got str"),
        ([{"name": "a", "response_timeout": -1}], r"\[0\].response_timeout: expected seconds"),
        ([{"name": "a", "default_action": "!"}], r"\[0\].default_action: expected base64"),
        ([{"name": "a", "default_action": 3}], r"default_action: expected a section or base64"),
        (
            [{"name": "a", "default_action": {"to": 3}}],
            r"\[0\].default_action: a config without a type: .*, class None, action.space",
        ),
        ([{"actor_class": "other", "default_action": {}}], "class 'other', action.space"),
        ([{"actor_class": "nobody"}], "class_options: expected classes of other, walker; got"),
    ],
)
def test_bad_actor_options_of_a_file_are_refused_by_name(section: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        read_config({"actor_classes": CLASSES, "actor_options": section})


def test_config_refuses_options_of_another_type() -> None:
    with pytest.raises(TypeError, match=r"actor_options\['a'\]: expected ActorOptions, got dict"):
        Config(actor_options={"a": {}})  # type: ignore[dict-item]
