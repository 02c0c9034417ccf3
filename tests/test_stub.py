"""The stub of the compiled core, which is where its contract is written down."""

import ast
import inspect
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

import cogrs
from cogrs import _core

STUB = Path(cogrs.__path__[0]) / "_core.pyi"


def stub_docstrings(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Names of functions, classes and their members in a stub, and their docstrings."""
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            if text := ast.get_docstring(node):
                yield prefix + node.name, text
            if isinstance(node, ast.ClassDef):
                yield from stub_docstrings(node.body, f"{node.name}.")


def public_objects() -> Iterator[tuple[str, object]]:
    """Functions, classes and members of the compiled module, by the names of the stub."""
    for name in _core.__all__:
        if name.startswith("_"):
            continue
        public = getattr(_core, name)
        yield name, public
        if inspect.isclass(public):
            members = sorted(member for member in vars(public) if member[0] != "_")
            yield from ((f"{name}.{member}", getattr(public, member)) for member in members)


TREE = ast.parse(STUB.read_text(encoding="utf-8"))
DOCSTRINGS = dict(stub_docstrings(TREE.body))
OBJECTS = dict(public_objects())


def test_stub_documents_exactly_the_names_of_the_module() -> None:
    assert len(OBJECTS) > 100
    written = {name for name in DOCSTRINGS if not name.split(".")[-1].startswith("_")}
    assert written == set(OBJECTS)


def test_module_docstring_is_that_of_the_stub() -> None:
    assert inspect.getdoc(_core) == ast.get_docstring(TREE)


@pytest.mark.parametrize("name", OBJECTS)
def test_docstring_is_that_of_the_stub(name: str) -> None:
    assert inspect.getdoc(OBJECTS[name]) == DOCSTRINGS[name]


@pytest.mark.parametrize("name", ["ReplayMemory", "ReplayWriter", "importance_weights"])
def test_public_name_is_that_of_the_package(name: str) -> None:
    public = getattr(cogrs, name)
    assert public is getattr(_core, name)
    assert f"{public.__module__}.{public.__qualname__}" == f"cogrs.{name}"
    assert pickle.loads(pickle.dumps(public)) is public
