"""The house: no import circles, paths that exist, files of one sitting, and plain English.

The exceptions listed here are to become fewer. An exception that is not needed any more can go at
any time; a new one needs its reason beside it.
"""

from __future__ import annotations

import ast
import re
from graphlib import CycleError, TopologicalSorter
from itertools import chain, product
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE, RUST = ROOT / "python/cogrs", ROOT / "rust/src"

# -- import circles --------------------------------------------------------------------------------

# Imports (from, to) that close a circle today, with the reason.
CIRCLES_IN_PYTHON: set[tuple[str, str]] = set()


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Return the names along a circle; an empty list where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def python_modules() -> dict[str, Path]:
    """Return the modules of the package by their dotted names."""
    modules = {}
    for path in PACKAGE.rglob("*.py"):
        parts = ("cogrs", *path.relative_to(PACKAGE).with_suffix("").parts)
        modules[".".join(parts).removesuffix(".__init__")] = path
    return modules


def python_imports(path: Path, modules: dict[str, Path]) -> set[str]:
    """Return the modules that a file imports anywhere: in functions and for type checkers, too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names} - {"cogrs._core"}
            found |= {name if name in modules else str(node.module) for name in names}
    return found & modules.keys()


def test_python_modules_import_each_other_in_no_circle():
    modules = python_modules()
    assert len(modules) > 150
    graph = {name: python_imports(path, modules) for name, path in modules.items()}
    for importer, imported in CIRCLES_IN_PYTHON:
        graph.get(importer, set()).discard(imported)
    assert circle(graph) == []


def spelled_imports(text: str) -> str:
    """Return Rust code with `a::{b::C, d}` as `a::b::C a::d`, nested braces from the inside out."""
    group = re.compile(r"((?:crate|super|\w+)(?:::\w+)*)::\{([^{}]*)\}")
    while found := group.search(text):
        stem, names = found.groups()
        spelled = " ".join(f"{stem}::{name.strip()}" for name in names.split(",") if name.strip())
        # Within another group these are names of it.
        text = text[: found.start()] + spelled.replace(" ", ", ") + text[found.end() :]
    return text


def rust_imports(path: Path, modules: set[str]) -> set[str]:
    """Return the modules that the code of a file names, without its comments and its tests."""
    text = re.sub(r"//.*", "", path.read_text(encoding="utf-8")).partition("#[cfg(test)]")[0]
    folder = path.parent.relative_to(RUST).parts
    named = set()
    for root, rest in re.findall(r"\b(crate|super)((?:::\w+)+)", spelled_imports(text)):
        parts = [*(folder if root == "super" else ()), *rest.split("::")[1:]]
        named.add(
            max(
                ({"/".join(parts[:k]) for k in range(1, len(parts) + 1)} & modules) or {""}, key=len
            )
        )
    return named - {""}


def test_rust_modules_use_each_other_in_no_circle():
    # A `mod.rs` has what its folder shares, beside the list of its modules.
    files = {
        str(path.relative_to(RUST).with_suffix("")): path
        for path in RUST.rglob("*.rs")
        if path.name != "mod.rs"
    }
    assert len(files) > 80
    graph = {name: rust_imports(path, set(files)) - {name} for name, path in files.items()}
    assert sum(map(len, graph.values())) > 200
    assert circle(graph) == []


# -- paths that documents name ---------------------------------------------------------------------

# What commands make.
MADE = {".venv", "runs/", "dist/", "dist/docs", "target/"}
SUFFIX = r"\.(?:c?py|pyi|rs|md|toml|proto|yml|in|txt)"


def spelled_out(path: str) -> list[str]:
    """Return the paths that one with alternatives in braces stands for."""
    parts = re.split(r"\{([^{}]*)\}", path)
    choices = [part.split(",") if at % 2 else [part] for at, part in enumerate(parts)]
    return ["".join(each) for each in product(*choices)]


def named_paths(text: str) -> set[str]:
    """Return the paths that a document names: in code, in links, and in drawings of the tree."""
    fences = re.findall(r"^```text$(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    drawn = chain.from_iterable(
        re.findall(r"^\s*([\w./{},-]+/)(?:\s|$)", each, re.MULTILINE) for each in fences
    )
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    spans = re.findall(r"`([\w./{},*-]+)`|\]\(([\w./-]+)\)", prose)
    words = map("".join, spans)
    paths = {word for word in words if "/" in word or re.search(rf"\w{SUFFIX}$", word)}
    return set(chain.from_iterable(map(spelled_out, {*drawn, *paths}))) - MADE


def exists(path: str) -> bool:
    """Tell whether a path is there, from the root or from the package."""
    return any(any(base.glob(path.rstrip("/"))) for base in (ROOT, ROOT / "python", PACKAGE))


@pytest.mark.parametrize("name", ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"])
def test_paths_that_a_document_names_exist(name):
    paths = named_paths((ROOT / name).read_text(encoding="utf-8"))
    assert len(paths) >= 3
    assert sorted(path for path in paths if not exists(path)) == []


def test_architecture_is_one_page():
    assert len((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines()) <= 120


# -- files of one sitting --------------------------------------------------------------------------

LONGEST = 450
# Files that are longer today. The stub stays one: it is the contract of one module.
LONGER = {"python/cogrs/_core.pyi"}


def written_by_hand(*folders: str) -> list[Path]:
    """Return the code of folders, without what is generated."""
    files = chain.from_iterable((ROOT / folder).rglob("*") for folder in folders)
    code = (path for path in files if path.suffix in {".py", ".pyi", ".rs"})
    return sorted(path for path in code if "_pb2" not in path.name)


def test_files_are_shorter_than_450_lines():
    files = written_by_hand("rust/src", "rust/tests", "python", "tests")
    lines = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in files
    }
    assert len(lines) > 300
    assert {name: n for name, n in lines.items() if n >= LONGEST and name not in LONGER} == {}


# -- English ---------------------------------------------------------------------------------------

# Ways of speaking that have to be read twice, each with what to write.
ODD = {
    "none": (
        r"(?<!\ball )(?<!\ball of them, )\b(is|are|was|were|if|or) none\b",
        "what is wrong: 'is not a path', 'no such actor'",
    ),
    "no": (r"(?<![Tt]here )\bis no (?!longer|more)\w+", "'is not a ...'"),
    "docstring": (
        r'"""(Be|Have|Know|Take note|Begin|Tell|Say|Let) ',
        "what the call does: 'Return ...', 'Create ...', 'Wait until ...'",
    ),
    "whoever": (r"\b[Ww]hoever\b", "a noun: 'the caller that waits'"),
    "per": (r"\bone (header|byte|slot|call|row|line) a (cache|row|call|slot)\b", "'per'"),
}
# Folders and files whose texts have not been read aloud yet.
UNREAD: tuple[str, ...] = ()
# Lines that match and are good English: (path, part of the line).
GOOD_ENGLISH = {
    ("tests/test_house.py", ""),  # it has the patterns
}


def texts() -> list[Path]:
    """Return code and documents."""
    documents = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")]
    folders = (*documents, ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md")))
    return [
        *folders,
        *written_by_hand("python/cogrs", "rust/src", "rust/tests", "examples", "tests"),
    ]


@pytest.mark.parametrize("habit", ODD)
def test_english_is_plain(habit):
    odd, instead = ODD[habit]
    found = []
    for path in texts():
        name = str(path.relative_to(ROOT))
        if name.startswith(UNREAD):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            good = any(name == file and part in line for file, part in GOOD_ENGLISH)
            if re.search(odd, line) and not good:
                found.append(f"{name}:{number}: {line.strip()}")
    assert not found, f"write {instead}:\n" + "\n".join(found)


# -- tests -----------------------------------------------------------------------------------------

# Words of test names that stand for a noun which a failure's line does not show.
VAGUE = r"^test_(a|an|the)_|_(what|whatever|who|whoever|those|they|them|it)(_|$)"


def modules_of_tests() -> list[Path]:
    """Return the modules that hold tests."""
    return sorted((ROOT / "tests").rglob("test_*.py"))


def test_names_of_tests_have_nouns():
    names = {
        name
        for path in modules_of_tests()
        for name in re.findall(
            r"^ *(?:async )?def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE
        )
    }
    assert len(names) > 2000
    assert sorted(name for name in names if re.search(VAGUE, name)) == []


def test_modules_of_tests_import_no_other_module_of_tests():
    imports = r"^ *(?:from tests[\w.]*\.test_\w+ import|from tests[\w.]* import .*\btest_)"
    found = [
        path
        for path in modules_of_tests()
        if re.search(imports, path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert found == []


def test_tests_that_the_matrix_names_exist():
    named = re.findall(
        r'"(tests/[\w/.]+?)(?:::(\w+))?"', (ROOT / "scripts/matrix.py").read_text(encoding="utf-8")
    )
    assert len(named) > 15
    missing = [
        (path, name)
        for path, name in named
        if not (ROOT / path).exists()
        or (name and f"def {name}(" not in (ROOT / path).read_text(encoding="utf-8"))
    ]
    assert missing == []
