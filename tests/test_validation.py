"""Checks of arguments: what they return, and what they refuse by name."""

from __future__ import annotations

import math
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from cogrs.orchestrator import ActorOptions, Settings
from cogrs.validation import (
    check_flag,
    check_integer,
    check_number,
    check_path,
    check_port,
    check_seconds,
    check_timeout,
)

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    ("call", "value"),
    [
        (lambda: check_flag("x", True), True),
        (lambda: check_flag("x", 1, numbers=True), True),
        (lambda: check_flag("x", np.bool_(False), numbers=True), False),
        (lambda: check_integer("x", np.int8(3), 3, 3), 3),
        (lambda: check_integer("x", 2**63 - 1, 0), 2**63 - 1),
        (lambda: check_port("x", 65535), 65535),
        (lambda: check_number("x", np.float32(0.5)), 0.5),
        (lambda: check_seconds("x", 0), 0.0),
        (lambda: check_timeout("x", None), None),
        (lambda: check_timeout("x", math.inf), None),
        (lambda: check_timeout("x", 2 * threading.TIMEOUT_MAX), None),
        (lambda: check_timeout("x", 1), 1.0),
        (lambda: check_path("x", "a/b"), Path("a/b")),
    ],
)
def test_check_of_a_good_argument_returns_its_value(call: Callable[[], Any], value: Any) -> None:
    result = call()
    assert result == value
    assert type(result) is type(value) or isinstance(value, Path)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: check_flag("x", 1), TypeError, "x: expected True or False, got int"),
        (lambda: check_flag("x", 2, numbers=True), ValueError, "x: expected True or False, got 2"),
        (lambda: check_flag("x", "no", numbers=True), TypeError, "expected True or False, got str"),
        (lambda: check_integer("x", True, 0), TypeError, "x: expected an integer >= 0, got bool"),
        (lambda: check_integer("x", 1.0, 0), TypeError, "x: expected an integer >= 0, got float"),
        (lambda: check_integer("x", np.ones(2, int), 0), TypeError, "integer >= 0, got ndarray"),
        (lambda: check_integer("x", 0, 1), ValueError, "x: expected an integer >= 1, got 0"),
        (lambda: check_integer("x", 2**63, 1), ValueError, "expected an integer <= 2**63 - 1, got"),
        (lambda: check_integer("x", 9, 1, 8), ValueError, "expected an integer from 1 to 8, got 9"),
        (lambda: check_integer("x", -1, 0, 2**32 - 1), ValueError, "from 0 to 2**32 - 1, got -1"),
        (
            lambda: check_port("x", "1"),
            TypeError,
            "x: expected an integer from 0 to 65535, got str",
        ),
        (lambda: check_number("x", "1"), TypeError, "x: expected a finite number, got str"),
        (lambda: check_number("x", math.nan), ValueError, "x: expected a finite number, got nan"),
        (lambda: check_number("x", np.ones(2)), TypeError, "expected a finite number, got ndarray"),
        (lambda: check_seconds("x", True), TypeError, "x: expected seconds >= 0, got bool"),
        (lambda: check_seconds("x", np.bool_(True)), TypeError, "seconds >= 0, got numpy.bool"),
        (lambda: check_seconds("x", -1), ValueError, "x: expected seconds >= 0, got -1"),
        (lambda: check_seconds("x", math.inf), ValueError, "x: expected seconds >= 0, got inf"),
        (
            lambda: check_seconds("x", 10**400),
            ValueError,
            "x: expected seconds >= 0, got an integer",
        ),
        (lambda: check_seconds("x", 0, above=True), ValueError, "x: expected seconds > 0, got 0"),
        (lambda: check_timeout("x", -1), ValueError, "x: expected seconds >= 0 or None, got -1"),
        (
            lambda: check_timeout("x", math.nan),
            ValueError,
            "expected seconds >= 0 or None, got nan",
        ),
        (lambda: check_timeout("x", "1"), TypeError, "x: expected seconds >= 0 or None, got str"),
        (lambda: check_path("x", 3), TypeError, "x: expected a path, got int"),  # type: ignore[arg-type]
        (lambda: Settings(join_timeout=True), TypeError, "join_timeout: expected seconds >= 0"),
        (lambda: Settings(retention=math.inf), ValueError, "retention: expected seconds >= 0"),
        (lambda: Settings(max_trials=0), ValueError, "max_trials: expected an integer >= 1, got 0"),
        (lambda: Settings(max_streams=2**31), ValueError, "an integer from 1 to 2**31 - 1, got"),
        (
            lambda: ActorOptions(response_timeout=True),
            TypeError,
            "response_timeout: expected seconds",
        ),
    ],
)
def test_check_of_a_wrong_argument_names_the_argument_and_the_value(
    call: Callable[[], Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error) as caught:
        call()
    assert text in str(caught.value)
