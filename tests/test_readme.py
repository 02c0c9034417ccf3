"""Examples of README and docs run, each page as one program, and commands of README exist."""

import re
import runpy
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
# Other pages have no examples in Python.
WITH_EXAMPLES = (
    "cluster",
    "coming-from",
    "collector",
    "data",
    "datasets",
    "orchestrator",
    "rate-limiter",
    "replay",
    "replay-keys",
    "replay-network",
    "replay-servers",
    "sequences",
    "trials",
    "vector-env",
    "web",
)
SB3 = ROOT / "docs/stable-baselines.md"
PAGES = (README, *(ROOT / f"docs/{name}.md" for name in WITH_EXAMPLES))


def blocks(page: Path, language: str) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def needs_torch(block: str) -> bool:
    return "import torch" in block


def run(page: Path, program: list[str]) -> None:
    names: dict[str, object] = {}
    for number, block in enumerate(program):
        exec(compile(block, f"{page.name}, example {number}", "exec"), names)


# With PyTorch a page runs whole: its examples without PyTorch alone run where that is missing.
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_of_a_page_run_as_one_program(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch = find_spec("torch") is not None
    program = [block for block in blocks(page, "python") if torch or not needs_torch(block)]
    assert len(program) >= 2
    run(page, program)
    assert list(tmp_path.iterdir()) == [], "an example left a file in the present folder"


def test_examples_without_gymnasium_run_where_gymnasium_is_missing(tmp_path):
    example = runpy.run_path(str(ROOT / "scripts/check_wheel.py"))["readme_example"]
    program = "import sys\nsys.modules['gymnasium'] = None\n" + example(without="gymnasium")
    assert len(program) > 1500
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, timeout=120)


def test_documented_environment_does_not_invent_a_last_observation():
    from cogrs import sdk

    names: dict[str, object] = {"results": []}
    (program,) = (
        block for block in blocks(ROOT / "docs/trials.md", "python") if "class Guess" in block
    )
    exec(program, names)
    for actions, expected in (
        ({"a": 2, "b": 9}, {"a": [5], "b": [2]}),
        ({"a": 2}, None),
        ({}, None),
    ):
        guess = names["Guess"]()  # type: ignore[operator]
        guess.start(sdk.Trial("t", (sdk.Actor("a", "p"), sdk.Actor("b", "p"))))
        guess.step({"a": 0, "b": 0})
        update = guess.end(actions)
        if expected is None:
            assert update is None
        else:
            assert (update.observations, update.truncated) == (expected, True)
    guess.step({"a": 0, "b": 0})
    update = guess.end({"a": 7, "b": 0})
    assert (update.terminated, update.truncated) == (True, False)


@pytest.mark.skipif(find_spec("stable_baselines3") is None, reason="SB3 is not installed")
def test_examples_with_stable_baselines3_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(SB3, blocks(SB3, "python"))


def test_every_page_with_examples_is_run():
    pages = {page for page in ROOT.glob("docs/**/*.md") if blocks(page, "python")}
    assert pages < {*PAGES, SB3}


def test_commands_of_the_readme_are_targets_of_the_makefile():
    commands = re.findall(r"^make ([a-z-]+)", "".join(blocks(README, "sh")), re.MULTILINE)
    assert {"demo", "test"} <= set(commands)
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(commands) <= set(targets)


def test_readme_has_at_most_150_lines():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 150
