"""How tests with anything at all go on for long: `make soak` repeats them for minutes."""

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
"""For which each such test goes on, beyond one round of examples."""

CORPUS = Path(__file__).parent / "data" / "fuzz"
"""Files that were found to be trouble once, or that stand for a kind, in a folder for each kind."""


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
