"""The stub of the compiled core, which is where its contract is written down."""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import cogrs
from cogrs import _core

STUB = Path(cogrs.__path__[0]) / "_core.pyi"


def summaries() -> Iterator[tuple[str, Any, str]]:
    """Methods and properties of the public classes that are documented, and their first lines."""
    for node in ast.parse(STUB.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and node.name in cogrs.__all__:
            for member in node.body:
                if isinstance(member, ast.FunctionDef) and not member.name.startswith("__"):
                    text = ast.get_docstring(member)
                    if text:
                        of = getattr(_core, node.name)
                        name = f"{node.name}.{member.name}"
                        yield name, getattr(of, member.name), text.split("\n")[0]


MEMBERS = list(summaries())


def test_the_stub_documents_the_public_classes() -> None:
    assert len(MEMBERS) > 30


@pytest.mark.parametrize(
    ("member", "summary"), [case[1:] for case in MEMBERS], ids=[case[0] for case in MEMBERS]
)
def test_help_begins_as_the_stub_does(member: Any, summary: str) -> None:
    assert inspect.getdoc(member).split("\n")[0] == summary


@pytest.mark.parametrize("name", ["ReplayMemory", "ReplayWriter", "importance_weights"])
def test_help_says_where_the_contract_is(name: str) -> None:
    assert "cogrs/_core.pyi" in inspect.getdoc(getattr(_core, name))
