"""Fixtures of the services' tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.orchestrator.floods import Server, flooded

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with flooded() as running:
        yield running
