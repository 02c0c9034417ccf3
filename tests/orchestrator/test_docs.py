"""The page about the orchestrator names all settings, options and metrics."""

from dataclasses import fields
from pathlib import Path

from cogrs.orchestrator import ActorOptions, OrchestratorStats, Settings
from cogrs.orchestrator.metrics import Metrics

PAGE = (Path(__file__).parents[2] / "docs" / "orchestrator.md").read_text(encoding="utf-8")


def test_page_has_a_row_for_every_setting_and_option() -> None:
    for kind in (Settings, ActorOptions):
        for field in fields(kind):
            assert f"\n| `{field.name}` |" in PAGE


def test_defaults_on_the_page_are_true() -> None:
    units = {"MiB": 1 << 20}
    for field in fields(Settings):
        (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{field.name}` |")]
        told = row.split("|")[2].strip()
        if field.default is None:
            continue
        number, _, unit = told.replace(",", "").partition(" ")
        assert float(number) * units.get(unit, 1) == field.default


class Idle:
    def stats(self) -> OrchestratorStats:
        raise AssertionError("describe() asks for no figures")


def test_page_names_every_metric() -> None:
    server = Idle()
    families = list(Metrics(server).describe())
    assert len(families) == 9
    for family in families:
        total = "_total" if family.type == "counter" else ""
        assert f"`{family.name}{total}" in PAGE
