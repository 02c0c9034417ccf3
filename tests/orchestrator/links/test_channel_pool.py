"""One channel an endpoint, and not for ever."""

from __future__ import annotations

import asyncio

from cogrs.orchestrator.links.background_tasks import BackgroundTasks
from cogrs.orchestrator.links.channel_pool import ChannelPool
from tests.orchestrator.net import on_loop


@on_loop
async def test_trials_share_channels() -> None:
    tasks = BackgroundTasks()
    channels = ChannelPool(1024, tasks)
    first = channels.take("host:1")
    assert channels.take("host:1") is first
    assert channels.take("host:2") is not first
    channels.give_back("host:1")
    channels.give_back("host:1")
    assert channels.take("host:1") is first
    await channels.close()
    await tasks.close()


@on_loop
async def test_unused_channels_are_closed() -> None:
    tasks = BackgroundTasks()
    channels = ChannelPool(1024, tasks)
    used = channels.take("used:1")
    for number in range(1, 101):
        channels.take(f"host:{number}")
        channels.give_back(f"host:{number}")
    await asyncio.sleep(0)
    assert channels.take("used:1") is used
    assert len(channels._channels) == 65
    assert "host:36" not in channels._channels
    assert "host:37" in channels._channels
    await channels.close()
    await tasks.close()
