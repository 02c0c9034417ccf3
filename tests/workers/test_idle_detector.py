"""When an `IdleDetector` calls back."""

from __future__ import annotations

import asyncio

from cogrs.workers.idle_detector import IdleDetector


def test_idle_detector_calls_back_when_a_round_passes_without_a_request() -> None:
    requests_when_idle: list[int] = []

    async def play() -> None:
        requests = 0
        detector = IdleDetector(
            asyncio.get_running_loop(), lambda: requests_when_idle.append(requests)
        )
        for rounds in (1, 5, 2):
            for _ in range(rounds):
                requests += 1
                detector.note_request()
                await asyncio.sleep(0)
            for _ in range(3):
                await asyncio.sleep(0)

    asyncio.run(play())
    assert requests_when_idle == [1, 6, 8]
