"""YAML and mappings of configurations: bounded before anything is made of them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from cogrs import cli, sdk
from cogrs.limits import CONFIG_BYTES, CONFIG_DEPTH, CONFIG_NODES
from cogrs.orchestrator.service.config import read_config
from cogrs.shown import shown
from cogrs.yaml_document import check_document, parse_yaml

if TYPE_CHECKING:
    from pathlib import Path


def laughs(first: str, following: str, levels: int = 9, each: int = 9) -> str:
    """Lines each of which refers to the one before several times."""

    def line(level: int) -> str:
        return f"b{level}: &a{level + 1} " + following.format(", ".join([f"*a{level}"] * each))

    lines = [f"a: &a0 {first}", *map(line, range(levels))]
    return "\n".join(lines) + "\n"


DEEP = "[" * 100 + "]" * 100
LARGE = {
    "lists": laughs("[1, 2, 3]", "[{}]"),
    "mappings": laughs("{x: 1}", "{{<<: [{}]}}"),
    "text": f"a: &a0 {'x' * 200_000}\nb: [*a0, *a0]\n",
    "itself": "a: &a [*a]",
    "itself by a key": "a: &a {b: *a}",
    "deep": DEEP,
    "deep lines": "".join(f"{' ' * level}a:\n" for level in range(100)),
    "values": "[" + "1," * (CONFIG_NODES + 1) + "]",
    "bytes": "#" * (CONFIG_BYTES + 1),
    "integer": "a: " + "9" * 5000,
    "hexadecimal": "a: 0x" + "f" * 5000,
    "sexagesimal": "a: " + ":".join(["1"] * 5000),
    "float": "a: 1." + "0" * 5000,
    "tagged": f"a: !!int '{'9' * 5000}'",
}
WRONG = {
    "key twice": "a: 1\nb: 2\na: 3",
    "key twice below": "a: {x: 1, x: 2}",
    "key twice in a list": "[{x: 1, x: 2}]",
    "list as a key": "{[1]: 2}",
    "mapping as a key": "? {a: b}\n: c",
    "code": "!!python/object/apply:os.system ['true']",
    "not an integer": "!!int ''",
    "not a flag": "!!bool x",
    "not a date": "!!timestamp x",
    "not a float": "!!float ''",
    "no such day": "2001-99-99",
    "not base64": "!!binary a",
    "unknown anchor": "*a",
    "NUL": "a: \0",
    "two documents": "--- a\n--- b",
}


@pytest.mark.parametrize("kind", [*LARGE, *WRONG])
def test_yaml_that_exceeds_a_limit_or_is_wrong_is_refused_everywhere(
    tmp_path: Path, capsys: Any, kind: str
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text := {**LARGE, **WRONG}[kind])
    with pytest.raises(ValueError, match=r".") as caught:
        parse_yaml(text)
    assert len(str(caught.value)) < 1000
    with pytest.raises(ValueError, match=r"mine\.yaml: ") as caught:
        read_config(path)
    assert len(str(caught.value)) < 1000
    assert cli.main(["trial", "start", "--params", str(path), "--endpoint", "localhost:1"]) == 2
    said = capsys.readouterr().err
    assert "mine.yaml" in said
    assert len(said) < 1000


def test_references_within_the_limits_are_expanded() -> None:
    made = parse_yaml("a: &a {x: 1}\nb: {<<: *a, y: 2}\nc: [*a, *a]")
    assert made == {"a": {"x": 1}, "b": {"x": 1, "y": 2}, "c": [{"x": 1}, {"x": 1}]}
    assert parse_yaml("# nothing") is None
    depth = CONFIG_DEPTH - 1
    made = parse_yaml("[" * depth + "]" * depth)
    for _ in range(depth - 1):
        (made,) = made
    assert made == []


def mappings() -> dict[str, dict[str, Any]]:
    itself: dict[str, Any] = {}
    itself["trial_params"] = itself
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    repeated: Any = [1] * 10
    for _ in range(12):
        repeated = [repeated] * 10
    return {
        "itself": itself,
        "deep": {"trial_params": deep},
        "repeated": {"trial_params": {"actors": repeated}},
        "unread": {"commands": repeated},
        "integer": {"trial_params": {"max_steps": 10**5000}},
        "text": {"trial_params": {"environment": {"endpoint": ["x" * 100_000] * 100}}},
    }


@pytest.mark.parametrize("kind", mappings())
def test_mapping_that_exceeds_a_limit_is_refused_everywhere(kind: str) -> None:
    given = mappings()[kind]
    with pytest.raises(ValueError, match="expected"):
        check_document(given)
    with pytest.raises(ValueError, match="expected"):
        read_config(given)

    async def start() -> None:
        async with sdk.TrialController("localhost:1") as controller:
            await controller.start_trial(params=given)

    with pytest.raises(ValueError, match="expected"):
        asyncio.run(start())


@pytest.mark.parametrize(
    "place",
    [
        {"datalog": {"type": ...}},
        {"datalog": {"type": "grpc", "url": ...}},
        {"trial": {"pre_hooks": ...}},
        {"trial": {"accept_params": ...}},
        {"trial": {"config_type": ...}},
        {"import": {"proto": ...}},
        {"import": {"descriptor_set": ...}},
        {"actor_classes": ...},
        {"actor_options": ...},
        {"actor_options": [{"name": "a", "response_timeout": ...}]},
        {"trial_params": {"max_steps": ...}},
        {"trial_params": {"actors": ...}},
        {"trial_params": {"actors": [...]}},
    ],
)
def test_errors_show_little_of_a_large_value(place: dict[str, Any]) -> None:
    def put(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: put(each) for name, each in value.items()}
        if isinstance(value, list):
            return [put(each) for each in value]
        return [{"x" * 5000: ["y" * 5000] * 20}] if value is ... else value

    content = put(place)
    content.setdefault("trial_params", {"trial_config": {"a": 1}})
    with pytest.raises(ValueError, match=r".") as caught:
        read_config(content)
    assert len(str(caught.value)) < 1000


def test_shown_text_is_short_for_any_value() -> None:
    repeated: Any = [1] * 10
    for _ in range(12):
        repeated = {"a": [repeated] * 10}
    for value in (repeated, "x" * 10**6, 10**10_000, b"x" * 10**6, {1: "x" * 10**6}):
        assert len(shown(value)) <= 103
    assert shown("a") == "'a'"
