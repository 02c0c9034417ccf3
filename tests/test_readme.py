"""The examples of README and docs run, each page as one program; their commands exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = (README, *sorted(ROOT.glob("docs/*.md")))


def blocks(page: Path, language: str) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_run_as_one_program(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program = blocks(page, "python")
    assert len(program) >= 3
    names: dict[str, object] = {}
    for number, block in enumerate(program):
        exec(compile(block, f"{page.name}, example {number}", "exec"), names)


def test_commands_are_targets_of_the_makefile():
    commands = re.findall(r"^make ([a-z-]+)", "".join(blocks(README, "sh")), re.MULTILINE)
    assert {"demo", "test"} <= set(commands)
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(commands) <= set(targets)


def test_readme_stays_short():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 150
