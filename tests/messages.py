"""The texts of errors and warnings in the source: `python -m tests.messages` prints them all."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
GAP = "..."
"""Stands for what is filled in."""


def _text(node: ast.expr) -> str | None:
    """A string of Python source, with gaps for what is computed."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) or GAP for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return "".join(_text(part) or GAP for part in (node.left, node.right))
    return None


def _docstrings(tree: ast.Module) -> set[int]:
    return {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def in_python() -> Iterator[tuple[str, str]]:
    """Files and the sentences in them."""
    for path in sorted((ROOT / "python/cogrs").rglob("*.py")):
        if "_pb2" in path.name:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        documentation = _docstrings(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.expr) and id(node) not in documentation:
                text = _text(node)
                if text and " " in text.strip():
                    yield str(path.relative_to(ROOT)), text


def in_rust() -> Iterator[tuple[str, str]]:
    """Files and the sentences in them."""
    for path in sorted((ROOT / "rust/src").rglob("*.rs")):
        code = re.sub(r"^\s*//.*$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        for literal in re.findall(r'"((?:[^"\\]|\\.)*)"', code, re.DOTALL):
            text = re.sub(r"\\\n\s*", "", literal)
            if " " in text.strip():
                yield str(path.relative_to(ROOT)), re.sub(r"\{[^{}]*\}", GAP, text)


def holds(template: str, message: str) -> bool:
    """Whether a text of the source makes a message, in which gaps stand for anything."""
    at = 0
    for part in message.split(GAP):
        at = template.find(part.strip(), at)
        if at < 0:
            return False
        at += len(part.strip())
    return True


if __name__ == "__main__":
    for file, sentence in (*in_python(), *in_rust()):
        print(f"{file}: {sentence}")
