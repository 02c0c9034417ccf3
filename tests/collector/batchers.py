"""Request batchers for tests, their callers and servers."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from cogrs.collector import RequestBatcher
from tests.collector.build import LIMIT, forever

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

INPUTS = {"s": ("float32", (3,)), "id": ("int64", ())}
REPLIES = {"a": ("int64", ()), "pi": ("float32", (2,))}


def batcher(batch_size: int = 4, **options: Any) -> RequestBatcher:
    return RequestBatcher(INPUTS, REPLIES, batch_size, **options)


def question(number: int) -> dict[str, Any]:
    return {"s": np.full(3, number, np.float32), "id": number}


def policy(inputs: Any, replies: Any) -> None:
    assert not replies["a"].any()
    replies["a"][:] = inputs["id"] * 2
    replies["pi"][:] = inputs["s"][:, :2] + 0.5


def check(number: int, answer: Any) -> None:
    assert (answer["a"].shape, answer["a"].dtype, int(answer["a"])) == ((), np.int64, 2 * number)
    assert answer["pi"].tolist() == [number + 0.5] * 2


@contextmanager
def served(
    asked: RequestBatcher, callback: Callable[[Any, Any], None] = policy
) -> Iterator[list[int]]:
    """The sizes of the batches that a thread answers meanwhile."""
    sizes: list[int] = []

    def serve() -> None:
        with pytest.raises(RuntimeError, match="closed"):
            forever(lambda: sizes.append(asked.run(callback)))

    server = threading.Thread(target=serve)
    server.start()
    try:
        yield sizes
    finally:
        asked.close()
        server.join(LIMIT)
        assert not server.is_alive()
