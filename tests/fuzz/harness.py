"""Fuzz tests run one round of examples; under `make soak` each is repeated for minutes."""

from __future__ import annotations

import functools
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"

SECONDS = float(os.environ.get("COGRS_FUZZ_SECONDS", "600")) if SOAK else 0.0
"""How long each fuzz test is repeated after its first round of examples."""

CORPUS = Path(__file__).parents[1] / "data" / "fuzz"
"""Files that once caused a failure, or that stand for a kind of input; one folder per kind."""


def prolonged(test: Callable[..., None]) -> Callable[..., None]:
    """Repeat a test of hypothesis, with other examples each time, until the time is over."""

    @functools.wraps(test)
    def repeated(*args: Any, **named: Any) -> None:
        end = time.monotonic() + SECONDS
        test(*args, **named)
        while time.monotonic() < end:
            test(*args, **named)

    return repeated


def corpus(kind: str) -> list[Path]:
    """Return the files of a kind."""
    found = sorted((CORPUS / kind).iterdir())
    assert found
    return found
