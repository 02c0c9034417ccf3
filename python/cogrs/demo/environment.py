"""The environment process: it serves an environment for each trial."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from cogrs import sdk
from cogrs.demo.parent import Parent, main

if TYPE_CHECKING:
    from cogrs.demo.options import ProcessConfig


def make_flat(name: str) -> gymnasium.Env[Any, Any]:
    """Create an environment whose observations are float32 vectors, and its actions 0, 1, ..."""
    env: gymnasium.Env[Any, Any] = gymnasium.wrappers.FlattenObservation(gymnasium.make(name))
    space = env.observation_space
    if space.dtype != np.float32:
        vector = gymnasium.spaces.Box(-np.inf, np.inf, space.shape, np.float32)
        env = gymnasium.wrappers.TransformObservation(env, np.float32, vector)
    actions = env.action_space
    if isinstance(actions, gymnasium.spaces.Discrete) and actions.start != 0:
        start = actions.start
        moved = gymnasium.spaces.Discrete(int(actions.n))
        env = gymnasium.wrappers.TransformAction(env, lambda action: action + start, moved)
    return env


def run(parent: Parent, config: ProcessConfig) -> None:
    """Serve environments until the parent requests the end."""
    seeds = count(config.seed * 1_000_003 + config.trials_before)

    def make() -> sdk.GymnasiumEnvironment:
        # This process does nothing else, and its parent ends it if it hangs.
        return sdk.GymnasiumEnvironment(
            lambda: make_flat(config.env), seed=next(seeds), inline=True
        )

    async def serve() -> None:
        async with await sdk.serve(environments={config.env: make}) as endpoint:
            parent.send(ready=endpoint.address)
            await asyncio.to_thread(parent.stop_request.wait)

    asyncio.run(serve())


if __name__ == "__main__":
    main(run)
