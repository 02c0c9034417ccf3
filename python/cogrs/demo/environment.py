"""The process that plays environments."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING

import gymnasium

from cogrs import sdk
from cogrs.demo.child import Child, main

if TYPE_CHECKING:
    from cogrs.demo.options import Role


def run(child: Child, role: Role) -> None:
    """Serve one environment for each trial until the parent ends."""
    seeds = count(role.seed * 1_000_003)

    def make() -> sdk.GymnasiumEnvironment:
        return sdk.GymnasiumEnvironment(lambda: gymnasium.make(role.env), seed=next(seeds))

    async def serve() -> None:
        async with await sdk.serve(environments={role.env: make}) as endpoint:
            child.say(ready=endpoint.address)
            await asyncio.to_thread(child.ended.wait)

    asyncio.run(serve())


if __name__ == "__main__":
    main(run)
