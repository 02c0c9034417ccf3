"""What a page that reads slowly is sent: the latest."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from cogrs.web.picture import PictureEncoder, summarize
from cogrs.web.viewer import Viewer
from cogrs.web.wire import JPEG, PNG, unpack_frame
from tests.orchestrator.net import on_loop


@on_loop
async def test_slow_page_gets_the_latest_tick_and_picture_and_all_control_messages() -> None:
    sent: list[Any] = []
    reads = asyncio.Semaphore(0)

    async def send(message: Any) -> None:
        await reads.acquire()
        sent.append(message)

    viewer = Viewer(send, send)
    running = asyncio.ensure_future(viewer.run())
    for tick in range(100):
        viewer.show_tick(f"tick {tick}")
        viewer.show_picture(b"picture %d" % tick)
        if tick % 50 == 0:
            viewer.tell(f"state {tick}")
        await asyncio.sleep(0)
    for _ in range(10):
        reads.release()
        await asyncio.sleep(0)
    viewer.close(1000, "done")
    await asyncio.wait_for(running, 60)
    # The first one was under way when the others came.
    assert sent == ["state 0", "state 50", "tick 99", b"picture 99"]


@on_loop
async def test_page_that_reads_nothing_is_closed() -> None:
    async def never(_: Any) -> None:
        await asyncio.Event().wait()

    viewer = Viewer(never, never)
    for number in range(2000):
        viewer.tell(str(number))
    assert viewer.closing == (1008, "the page does not read its messages")


def test_noise_is_sent_as_jpeg_after_a_large_png() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (200, 200, 3), np.uint8)
    encoder = PictureEncoder()
    assert unpack_frame(encoder.encode(1, noise))[:2] == (PNG, 1)
    kind, tick, picture = unpack_frame(encoder.encode(2, noise))
    assert (kind, tick, picture[:2]) == (JPEG, 2, b"\xff\xd8")


@pytest.mark.parametrize(
    "pixels",
    [np.zeros((2, 2, 3)), np.zeros(4, np.uint8), np.zeros((2, 2, 5), np.uint8)],
    ids=["dtype", "flat", "channels"],
)
def test_array_that_is_not_a_picture_is_refused(pixels) -> None:
    with pytest.raises(ValueError, match=r"render: expected uint8 \(height, width, 3\), got"):
        PictureEncoder().encode(0, pixels)


def test_observation_is_summed_up_by_its_parts() -> None:
    value = {"a": np.float32([1.23456, np.nan]), "b": {"c": np.arange(40)}}
    found = summarize(value)
    assert found["a"] == [1.235, "nan"]
    assert found["b.c"] == [*range(16), "..."]
