"""The moment at which a loop has nothing else to ask."""

from __future__ import annotations

import asyncio

from cogrs.workers.lull import Lull


def test_it_comes_when_a_round_has_passed_without_a_question() -> None:
    told: list[int] = []

    async def play() -> None:
        asked = 0
        lull = Lull(asyncio.get_running_loop(), lambda: told.append(asked))
        for rounds in (1, 5, 2):
            for _ in range(rounds):
                asked += 1
                lull.asked()
                await asyncio.sleep(0)
            for _ in range(3):
                await asyncio.sleep(0)

    asyncio.run(play())
    assert told == [1, 6, 8]
