"""What event loops complain of."""

from __future__ import annotations

import asyncio

import pytest

from cogrs.event_loop import handle_exception, is_harmless

THEIRS = "<Handle PollerCompletionQueue._handle_events(...)>"


@pytest.mark.parametrize(
    ("handle", "error", "noise"),
    [
        (THEIRS, BlockingIOError(), True),
        (THEIRS, RuntimeError("Event loop is closed"), True),
        (THEIRS, RuntimeError("something else"), False),
        (THEIRS, ValueError(), False),
        ("<Handle mine>", BlockingIOError(), False),
        ("<Handle mine>", RuntimeError("Event loop is closed"), False),
    ],
)
def test_handle_exception_leaves_out_only_harmless_reports_of_grpc(
    handle: str, error: Exception, noise: bool, caplog: pytest.LogCaptureFixture
) -> None:
    context = {"message": "told", "exception": error, "handle": handle}

    async def complain() -> None:
        handle_exception(asyncio.get_running_loop(), context)

    assert is_harmless(context) is noise
    asyncio.run(complain())
    told = [record.getMessage().splitlines()[0] for record in caplog.records]
    assert told == ([] if noise else ["told"])


def test_handle_exception_logs_a_report_without_an_exception(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def complain() -> None:
        handle_exception(asyncio.get_running_loop(), {"message": "told"})

    asyncio.run(complain())
    assert [record.getMessage() for record in caplog.records] == ["told"]
