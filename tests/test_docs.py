"""Pages: messages are those of the code, links have targets, and the contents list every page."""

import re
from pathlib import Path

import pytest

from cogrs.cli import main
from tests.messages import GAP, ROOT, holds, in_python, in_rust

ERRORS = ROOT / "docs/errors.md"
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
        *(ROOT / "benchmarks").rglob("*.md"),
    ]
)
MESSAGES = re.findall(r"^\| `([^`]+)` \|", ERRORS.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.fixture(scope="module")
def texts():
    others = [ROOT / "Makefile", ROOT / "scripts/build/backend.py"]
    plain = [re.sub(r'"\s*\n\s*"', "", path.read_text(encoding="utf-8")) for path in others]
    return [*plain, *(text for _, text in (*in_python(), *in_rust()))]


@pytest.mark.parametrize("message", MESSAGES)
def test_each_message_of_the_page_is_in_the_code(message, texts):
    assert re.search(r"\w{3}", message.replace(GAP, "")), "the message has words to look for"
    assert any(holds(text, message) for text in texts)


def test_message_that_is_not_in_the_code_is_detected(texts):
    assert len(MESSAGES) > 40
    assert not any(holds(text, "no such words ... anywhere at all") for text in texts)


def anchors(page: Path) -> set[str]:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    words = [re.sub(r"[^\w\s-]", "", heading.lower()) for heading in headings]
    return {re.sub(r"\s", "-", each) for each in words}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_have_targets(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"https?://", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_and_diagrams_of_a_page_fit_the_column_of_the_site(page):
    fences = re.findall(r"^```.*?^```", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    assert [line for fence in fences for line in fence.split("\n") if len(line) > 106] == []


def test_table_of_contents_has_every_page():
    index = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    pages = {
        str(path.relative_to(ROOT / "docs").with_suffix(""))
        for path in (ROOT / "docs").rglob("*.md")
    }
    listed = set(re.findall(r"^([a-z/-]+)$", index, re.MULTILINE))
    assert pages - {"index"} == listed


def test_reference_has_every_command(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    commands = re.findall(r"^    ([a-z-]+)\b", capsys.readouterr().out, re.MULTILINE)
    page = (ROOT / "docs/reference/commands.md").read_text(encoding="utf-8")
    assert len(commands) >= 7
    assert all(f"`cogrs {command}" in page for command in commands)
