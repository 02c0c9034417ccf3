"""One party of a trial in a process of its own, to be killed or stopped: `party.py ROLE ADDRESS`.

It tells its address, and then each moment that it comes to. With a third argument it comes to that
moment and no further, so that its end is not too late, however slow the machine is.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from typing import Any

from cogrs import sdk

LENGTH = 60
PAUSE = 0.01
STEPS = 5
"""Steps to which it comes when that is the moment it stays in."""

_last = [""]
_steps = itertools.count(1)


async def come_to(moment: str) -> None:
    print(moment, flush=True)
    stays = moment == _last[0] and (moment != "step" or next(_steps) == STEPS)
    await asyncio.sleep(3600 if stays else PAUSE)


class World(sdk.Environment):
    async def start(self, trial: sdk.Trial) -> sdk.Update:
        await come_to("start")
        self.names, self.tick = trial.actor_names, 0
        return self.update()

    def update(self) -> sdk.Update:
        return sdk.Update(dict.fromkeys(self.names, self.tick))

    async def step(self, actions: Any) -> sdk.Update:
        del actions
        await come_to("step")
        self.tick += 1
        update = self.update()
        update.rewards = dict.fromkeys(self.names, 1.0)
        update.final = self.tick == LENGTH
        return update

    async def end(self, actions: Any) -> sdk.Update:
        await come_to("end")
        self.tick += len(actions) == len(self.names)
        return self.update()


class Player(sdk.Agent):
    async def start(self, trial: sdk.Trial) -> None:
        del trial
        await come_to("start")

    async def act(self, observation: sdk.Observation) -> Any:
        await come_to("step")
        return observation.value

    async def end(self, final: sdk.Final) -> None:
        del final
        await come_to("end")


class Log(sdk.DatalogSink):
    async def start(self, *_: Any) -> None:
        await come_to("start")

    async def sample(self, *_: Any) -> None:
        await come_to("step")

    async def end(self, *_: Any) -> None:
        await come_to("end")


async def hook(trial: sdk.NewTrial) -> None:
    if trial.user_id != "other":
        await come_to("start")


SERVED: dict[str, dict[str, Any]] = {
    "environment": {"environments": {"world": World}},
    "agent": {"agents": {"player": Player}},
    "log": {"datalog": Log},
    "hook": {"hooks": {"hook": hook}},
}


async def main(role: str, where: str, last: str = "") -> None:
    _last[0] = last
    if role == "client":
        async with sdk.ClientActor(where) as client:
            print("ready", flush=True)
            sys.stdin.readline()  # until there is a trial to join

            async def play(session: sdk.ActorSession) -> None:
                await come_to("start")
                async for event in session:
                    if isinstance(event, sdk.Observation):
                        await come_to("step")
                        await session.act(event.value)
                await come_to("end")

            await client.play(play, name="c")
        return
    async with await sdk.serve(**SERVED[role]) as endpoint:
        print(endpoint.address, flush=True)
        await endpoint.wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
