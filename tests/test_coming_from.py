"""Calls in the right columns of docs/coming-from.md exist, and take the arguments shown."""

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest

import cogrs
import cogrs.sdk

PAGE = Path(__file__).parent.parent / "docs/coming-from.md"
OBJECTS = {
    "memory": cogrs.ReplayMemory,
    "writer": cogrs.ReplayWriter,
    "server": cogrs.ReplayMemoryServer,
    "client": cogrs.ReplayMemoryClient,
    "sampler": cogrs.ReplaySampler,
    "mixed": cogrs.MixedSampler,
    "games": cogrs.GCWrapper,
    "GC": cogrs.GameContext,
    "controller": cogrs.sdk.TrialController,
    "cogrs": cogrs,
}


def ours() -> set[str]:
    """Return the calls and attributes of the objects above in the right columns."""
    rows = re.findall(r"^\|.*\| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    code = {span for row in rows for span in re.findall(r"`([^`]+)`", row)}
    return {each for each in code if re.match(rf"({'|'.join(OBJECTS)})\.", each)}


def resolve(node: ast.expr) -> object:
    if isinstance(node, ast.Name):
        return OBJECTS[node.id]
    assert isinstance(node, ast.Attribute)
    owner = resolve(node.value)
    if inspect.ismodule(owner) and not hasattr(owner, node.attr):
        return importlib.import_module(f"{owner.__name__}.{node.attr}")
    return getattr(owner, node.attr)


def needs_torch(code: str) -> bool:
    return code.startswith("cogrs.torch")


def test_page_has_calls_to_check():
    assert len(ours()) > 60


@pytest.mark.parametrize("code", sorted(ours()))
def test_call_exists_and_takes_the_arguments_shown(code):
    if needs_torch(code):
        pytest.importorskip("torch")
    expression = ast.parse(code, mode="eval").body
    if not isinstance(expression, ast.Call):
        assert resolve(expression) is not None
        return
    assert isinstance(expression.func, ast.Attribute)
    called = resolve(expression.func)
    named = {keyword.arg: None for keyword in expression.keywords}
    owner = resolve(expression.func.value)
    # A method that is looked up on a class takes an object first, unless it is a class method.
    bound = inspect.ismethod(called) or inspect.isbuiltin(called) or inspect.isclass(called)
    itself = [None] if inspect.isclass(owner) and not bound else []
    inspect.signature(called).bind(*itself, *expression.args, **named)
