"""Deprecated names: they work, and warn at the line that uses them."""

from __future__ import annotations

import inspect
import linecache
from typing import Any

import pytest

from cogrs.deprecation import renamed_argument, warn_renamed


class Waiter:
    @renamed_argument("timeout_ms", "timeout", lambda milliseconds: milliseconds / 1000)
    def wait(self, count: int, timeout: float | None = None, *, strict: bool = False) -> Any:
        """Return the arguments."""
        return count, timeout, strict


@renamed_argument("judge", "annotate")
def annotated(*, annotate: str = "nothing") -> str:
    return annotate


def line_of(warned: pytest.WarningsRecorder) -> str:
    """Return the line of code at which the only warning came."""
    (warning,) = warned
    return linecache.getline(warning.filename, warning.lineno)


def test_new_argument_works_without_a_warning() -> None:
    # Warnings are errors in these tests.
    assert Waiter().wait(1, timeout=2.0, strict=True) == (1, 2.0, True)
    assert Waiter().wait(1, 2.0) == (1, 2.0, False)
    assert Waiter().wait(1) == (1, None, False)
    assert annotated(annotate="x") == "x"


def test_old_argument_is_converted_and_warns_at_the_line_of_the_caller() -> None:
    with pytest.warns(DeprecationWarning, match="^timeout_ms= is now timeout=$") as warned:
        assert Waiter().wait(1, timeout_ms=20) == (1, 0.02, False)  # type: ignore[call-arg]
    assert "Waiter().wait(1, timeout_ms=20)" in line_of(warned)
    with pytest.warns(DeprecationWarning, match="^judge= is now annotate=$"):
        assert annotated(judge="x") == "x"  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((1,), {"timeout": 2.0}), ((1,), {"timeout": None}), ((1, 2.0), {}), ((), {"timeout": 2.0})],
    ids=["keyword", "keyword with its default", "position", "keyword, without the others"],
)
def test_old_and_new_argument_together_raise_type_error_with_both_names(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    with pytest.raises(TypeError, match="expected one of timeout_ms= and timeout=, got both"):
        Waiter().wait(*args, **kwargs, timeout_ms=20)


def test_decorated_function_keeps_name_docstring_and_signature() -> None:
    assert (Waiter.wait.__name__, Waiter.wait.__doc__) == ("wait", "Return the arguments.")
    assert list(inspect.signature(annotated).parameters) == ["annotate"]


def test_decorator_with_a_name_that_is_not_an_argument_raises() -> None:
    with pytest.raises(ValueError, match="'annotation' is not in list"):
        renamed_argument("judge", "annotation")(annotated)


def test_renamed_object_warns_at_the_line_of_the_caller() -> None:
    def hurry() -> None:
        warn_renamed("hurry()", "flush()")

    with pytest.warns(DeprecationWarning, match=r"^hurry\(\) is now flush\(\)$") as warned:
        hurry()
    assert line_of(warned).strip() == "hurry()"
