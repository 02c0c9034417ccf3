"""The README's examples run, in order, as one program; its commands exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_examples_run_as_one_program(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program = blocks("python")
    assert len(program) >= 6
    names: dict[str, object] = {}
    for number, block in enumerate(program):
        exec(compile(block, f"README.md, example {number}", "exec"), names)


def test_commands_are_targets_of_the_makefile():
    commands = re.findall(r"^make ([a-z-]+)", "".join(blocks("sh")), re.MULTILINE)
    assert {"demo", "test"} <= set(commands)
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(commands) <= set(targets)


def test_readme_stays_short():
    assert len(README.splitlines()) <= 150
