"""One party of a trial in a process of its own, to be killed or stopped: `party.py ROLE`.

It tells its address, and then each moment that it comes to.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from cogrs import sdk

LENGTH = 60
PAUSE = 0.01


def told(moment: str) -> None:
    print(moment, flush=True)


class World(sdk.Environment):
    async def start(self, trial: sdk.Trial) -> sdk.Update:
        told("start")
        await asyncio.sleep(PAUSE)
        self.names, self.tick = trial.actor_names, 0
        return self.update()

    def update(self) -> sdk.Update:
        return sdk.Update(dict.fromkeys(self.names, self.tick))

    async def step(self, actions: Any) -> sdk.Update:
        del actions
        told("step")
        await asyncio.sleep(PAUSE)
        self.tick += 1
        update = self.update()
        update.rewards = dict.fromkeys(self.names, 1.0)
        update.final = self.tick == LENGTH
        return update

    async def end(self, actions: Any) -> sdk.Update:
        told("end")
        await asyncio.sleep(PAUSE)
        self.tick += len(actions) == len(self.names)
        return self.update()


class Player(sdk.Agent):
    async def start(self, trial: sdk.Trial) -> None:
        del trial
        told("start")
        await asyncio.sleep(PAUSE)

    async def act(self, observation: sdk.Observation) -> Any:
        told("step")
        await asyncio.sleep(PAUSE)
        return observation.value

    async def end(self, final: sdk.Final) -> None:
        del final
        told("end")
        await asyncio.sleep(PAUSE)


class Log(sdk.DatalogSink):
    async def start(self, *_: Any) -> None:
        told("start")

    async def sample(self, *_: Any) -> None:
        told("step")

    async def end(self, *_: Any) -> None:
        told("end")


async def hook(*_: Any) -> None:
    told("start")
    await asyncio.sleep(PAUSE)


SERVED: dict[str, dict[str, Any]] = {
    "environment": {"environments": {"world": World}},
    "agent": {"agents": {"player": Player}},
    "log": {"datalog": Log},
    "hook": {"hooks": {"hook": hook}},
}


async def main(role: str, where: str) -> None:
    if role == "client":
        async with sdk.ClientActor(where) as client:
            told("ready")
            sys.stdin.readline()  # until there is a trial to join

            async def play(session: sdk.ActorSession) -> None:
                told("start")
                async for event in session:
                    if isinstance(event, sdk.Observation):
                        told("step")
                        await asyncio.sleep(PAUSE)
                        await session.act(event.value)
                told("end")

            await client.play(play, name="c")
        return
    async with await sdk.serve(**SERVED[role]) as endpoint:
        told(endpoint.address)
        await endpoint.wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
