"""Parses YAML within the limits of a configuration; it is checked before values are made of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from cogrs.limits import CONFIG_BYTES, CONFIG_DEPTH, CONFIG_DIGITS, CONFIG_NODES
from cogrs.shown import shown

_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_MERGE = "<<"


def parse_yaml(text: str) -> Any:
    """Return the value of a document, None for an empty one.

    ValueError if the text is not YAML, has a duplicate key, or exceeds a limit.
    """
    if len(text) > CONFIG_BYTES:
        raise ValueError(f"expected at most {CONFIG_BYTES} bytes, got {len(text)}")
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        _check(node)
        return loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        # Without the error's own text, whose line may have a secret.
        mark = error.problem_mark or error.context_mark
        where = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
        raise ValueError(f"{where}expected YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise ValueError(f"expected YAML: {' '.join(str(error).split())[:500]}") from error
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError) as error:
        # PyYAML raises these for values that do not fit their tags.
        raise ValueError(f"expected YAML: a value that does not fit its tag: {error!r}") from error


def check_document(value: Any) -> None:
    """Refuse a value that exceeds a limit, or contains itself, with a ValueError."""
    count, size = 0, 0
    waiting = [(value, 1)]
    while waiting:
        item, depth = waiting.pop()
        count, size = count + 1, size + (len(item) if isinstance(item, str | bytes) else 0)
        _check_limits(count, size, depth)
        if isinstance(item, int) and item.bit_length() > CONFIG_DIGITS * 3.3:
            raise ValueError(f"expected numbers of at most {CONFIG_DIGITS} digits: {shown(item)}")
        if isinstance(item, Mapping):
            waiting += [(each, depth + 1) for pair in item.items() for each in pair]
        elif isinstance(item, list | tuple):
            waiting += [(each, depth + 1) for each in item]


class _Loader(yaml.SafeLoader):
    """Stops composing at the limits of a configuration."""

    _depth = _count = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self._depth, self._count = self._depth + 1, self._count + 1
        _check_limits(self._count, 0, self._depth)
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node


def _check(root: yaml.Node) -> None:
    """Check a document with all references expanded, up to its limits."""
    count, size = 0, 0
    waiting = [(root, 1)]
    while waiting:
        node, depth = waiting.pop()
        count += 1
        if isinstance(node, yaml.ScalarNode):
            size += len(node.value)
            if node.tag in _NUMBERS and len(node.value) > CONFIG_DIGITS:
                raise ValueError(
                    f"{_line(node)}: expected a number of at most {CONFIG_DIGITS} characters, "
                    f"got {len(node.value)}"
                )
        _check_limits(count, size, depth)
        if isinstance(node, yaml.MappingNode):
            _check_keys(node)
            waiting += [(each, depth + 1) for pair in node.value for each in pair]
        elif isinstance(node, yaml.SequenceNode):
            waiting += [(each, depth + 1) for each in node.value]


def _check_keys(node: yaml.MappingNode) -> None:
    """Refuse duplicate keys, of which PyYAML would take the last."""
    seen: set[str] = set()
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise ValueError(f"{_line(key)}: expected text or a number as a key")
        if key.value in seen and key.value != _MERGE:
            raise ValueError(f"{_line(key)}: duplicate key {shown(key.value)}")
        seen.add(key.value)


def _check_limits(count: int, size: int, depth: int) -> None:
    if count > CONFIG_NODES:
        raise ValueError(f"expected at most {CONFIG_NODES} values, references expanded")
    if size > CONFIG_BYTES:
        raise ValueError(f"expected at most {CONFIG_BYTES} bytes, references expanded")
    if depth > CONFIG_DEPTH:
        raise ValueError(f"expected at most {CONFIG_DEPTH} levels of nested values")


def _line(node: yaml.Node) -> str:
    return f"line {node.start_mark.line + 1}"
