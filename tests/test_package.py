"""The package as a whole: what importing it loads, and which parts may import which."""

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

import cogrs

PACKAGE = Path(cogrs.__path__[0])
RUST = Path(__file__).parents[1] / "rust/src"

# Which parts of the package each part may import, besides itself.
ALLOWED = {
    "api": {"_core"},
    "cluster": {"collector", "orchestrator", "replay", "sdk", "workers"},
    "collector": {"_core"},
    "commands": {
        "cluster",
        "datasets",
        "demo",
        "orchestrator",
        "ray",
        "replay",
        "sdk",
        "store",
        "web",
        "workers",
    },
    "datasets": {"_core", "replay", "sdk", "store"},
    "orchestrator": {"_core", "api", "store"},
    "ray": {"cluster", "replay"},
    "replay": {"_core", "api"},
    "sb3": {"_core"},
    "sdk": {"_core", "api"},
    "store": {"_core", "api", "sdk"},
    "web": {"sdk", "store"},
    "workers": {"collector", "replay", "sdk"},
    "demo": {"api", "orchestrator", "replay", "sdk", "workers"},
}

# Which parts the modules beside the folders may import; those that are not named, none but `_core`.
ALLOWED_TO_MODULES = {
    "__init__": {"_core", "collector", "orchestrator", "replay"},
    "cli": {"commands"},
    "doctor": {"_core", "api"},
    "namedtuples": {"replay"},
}


def part_of(module: str) -> str:
    """Return the part of the package that a dotted name under `cogrs` is in."""
    return module.split(".")[1] if module.count(".") else ""


def imports_of(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute here"
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {name for name in names if name.split(".")[0] == "cogrs"}


@pytest.mark.parametrize("name", ["grpc", "google.protobuf", "zmq", "numpy", "jax", "torch"])
def test_importing_the_package_loads_no_dependency(name):
    code = f"import sys, cogrs; sys.exit({name!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_using_the_replay_memory_loads_neither_grpc_nor_zmq():
    code = (
        "import sys, cogrs; cogrs.ReplayMemory;"
        "sys.exit(any(name in sys.modules for name in ('grpc', 'zmq', 'jax', 'torch')))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_every_public_name_can_be_imported():
    for name in cogrs.__all__:
        assert getattr(cogrs, name) is not None
    assert set(cogrs.__all__) <= set(dir(cogrs))


@pytest.mark.parametrize("name", ["jax", "torch"])
def test_missing_framework_is_named_with_the_install_command(name):
    # An import that finds None in `sys.modules` fails as if the module were not installed.
    code = f"""
import inspect, sys
sys.modules[{name!r}] = None
import cogrs
inspect.getmembers(cogrs)
for use in (lambda: cogrs.{name}, lambda: __import__("cogrs.{name}")):
    try:
        use()
    except ImportError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.count(f"pip install {name}") == 2


# Users do not see these: they become statuses of calls, causes of others, or lines of the demo.
NEVER_SEEN = {"OrchestratorError", "RemoteError", "CallError", "FailedError"}


def test_exceptions_that_users_see_derive_from_a_specific_builtin():
    bases = {
        node.name: {ast.unparse(base) for base in node.bases}
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    }
    assert "GameError" in bases
    assert {name for name, of in bases.items() if "Exception" in of} <= NEVER_SEEN


def test_no_statement_raises_a_plain_exception():
    vague = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            raised = node.exc if isinstance(node, ast.Raise) else None
            name = raised.func if isinstance(raised, ast.Call) else raised
            if isinstance(name, ast.Name) and name.id in {"Exception", "BaseException"}:
                vague.append(f"{path}:{node.lineno}")
    assert vague == []


def test_unknown_name_of_the_package_raises_attribute_error():
    with pytest.raises(AttributeError, match="no_such_name"):
        cogrs.no_such_name  # noqa: B018


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=str)
def test_module_imports_only_the_parts_that_its_part_may(path):
    inside = path.relative_to(PACKAGE).parts
    part = inside[0] if len(inside) > 1 else ""
    used = {part_of(module) for module in imports_of(path)} - {part, ""}
    parts = {name for name in used if (PACKAGE / name).is_dir() or name == "_core"}
    assert parts <= (ALLOWED[part] if part else ALLOWED_TO_MODULES.get(path.stem, {"_core"}))


def test_python_modules_that_rust_imports_by_name_exist():
    files = sorted(RUST.rglob("*.rs"))
    names = {
        name for path in files for name in re.findall(r'"(cogrs(?:\.\w+)+)"', path.read_text())
    }
    assert len(names) > 3
    for name in names:
        assert importlib.util.find_spec(name), f"Rust imports {name}"
