"""Figures of a version, which the benchmarks keep in `benchmarks/results/VERSION.json`.

A figure has all its values, one per round or seed, so that two files can be compared with regard to
their noise: see `scripts/comparison.py`.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

RESULTS = Path(__file__).resolve().parent / "results"
PACKAGES = ("cogrs", "numpy", "gymnasium", "torch", "jax", "stable_baselines3")


@dataclass(frozen=True)
class Figure:
    """One figure of a benchmark.

    Attributes:
        name: The benchmark, a slash, and what was measured.
        unit: Unit of the values; "x" for a ratio to a peer of the same run.
        values: One per round or seed.
        less: Whether less is better.
    """

    name: str
    unit: str
    values: Sequence[float]
    less: bool = False


def keep(figures: Iterable[Figure], folder: Path = RESULTS) -> Path:
    """Write figures into the file of the present version, beside the others that it has.

    Raises:
        ValueError: A figure has no values.
    """
    path = folder / f"{metadata.version('cogrs')}.json"
    kept = json.loads(path.read_text(encoding="utf-8"))["figures"] if path.exists() else {}
    origin = {"day": f"{datetime.now(UTC):%Y-%m-%d}", "machine": machine(), "busy": is_busy()}
    origin["versions"] = versions()
    for figure in figures:
        if not figure.values:
            raise ValueError(f"figures: {figure.name} has no values")
        values = [float(f"{value:.6g}") for value in figure.values]
        entry = {"unit": figure.unit, "less": figure.less, "values": values}
        kept[figure.name] = {**entry, **origin}
    # One line per figure, so that a diff of two versions can be read.
    lines = (f"{json.dumps(name)}: {json.dumps(kept[name])}" for name in sorted(kept))
    folder.mkdir(parents=True, exist_ok=True)
    # A run that is interrupted leaves the old file or the new one.
    aside = path.with_suffix(".tmp")
    aside.write_text('{"figures": {\n' + ",\n".join(lines) + "\n}}\n", encoding="utf-8")
    aside.replace(path)
    return path


@cache
def machine() -> str:
    """Return the processor, the number of cores and the system."""
    name = platform.processor() or platform.machine()
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    return f"{name}, {os.cpu_count()} cores, {platform.system()}"


def is_busy() -> bool:
    """Return whether more processes want to run than there are cores; rates then mean little."""
    return hasattr(os, "getloadavg") and os.getloadavg()[0] > (os.cpu_count() or 1)


@cache
def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that figures depend on."""
    found: dict[str, str] = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def read(path: Path) -> dict[str, Any]:
    """Return the figures of a file, by name."""
    figures: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["figures"]
    return figures
