"""The page about the orchestrator names everything that there is."""

from dataclasses import fields
from pathlib import Path

from cogrs.orchestrator import ActorOptions, Settings
from cogrs.orchestrator.metrics import _families

PAGE = (Path(__file__).parents[2] / "docs" / "orchestrator.md").read_text(encoding="utf-8")


def test_every_setting_and_option_has_a_row() -> None:
    for kind in (Settings, ActorOptions):
        for field in fields(kind):
            assert f"\n| `{field.name}` |" in PAGE


def test_defaults_are_true() -> None:
    units = {"MiB": 1 << 20}
    for field in fields(Settings):
        (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{field.name}` |")]
        told = row.split("|")[2].strip()
        if field.default is None:
            continue
        number, _, unit = told.replace(",", "").partition(" ")
        assert float(number) * units.get(unit, 1) == field.default


def test_every_metric_is_there() -> None:
    families = list(_families(None))
    assert len(families) == 9
    for family in families:
        total = "_total" if family.type == "counter" else ""
        assert f"`{family.name}{total}" in PAGE
