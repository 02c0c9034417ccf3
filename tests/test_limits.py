import ast
import re
from pathlib import Path

import cogrs.limits

PAGE = (Path(__file__).parents[1] / "docs" / "limits.md").read_text(encoding="utf-8")


def names():
    tree = ast.parse(Path(cogrs.limits.__file__).read_text(encoding="utf-8"))
    return {each.target.id for each in tree.body if isinstance(each, ast.AnnAssign)} - {"MIB"}


def test_page_lists_every_limit_and_no_other():
    assert set(re.findall(r"`([A-Z][A-Z_]+)`", PAGE)) == names()


def test_settings_on_the_page_are_settings():
    from cogrs.orchestrator import Settings

    trials = PAGE.partition("## Trials")[2].partition("## Replay")[0]
    rows = [line.split("|") for line in trials.splitlines() if line.startswith("| ")][1:]
    settings = {name for row in rows for name in re.findall(r"`(\w+)`", row[3])}
    assert settings
    for name in settings:
        assert hasattr(Settings(), name), name
