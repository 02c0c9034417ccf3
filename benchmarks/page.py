"""How long a page takes: from a key to the action, and from a step to its picture on the screen.

    python benchmarks/page.py [--seconds 10]

Everything is on the loopback of this machine: environment, orchestrator, page, and a browser that
is driven by Selenium (Debian's chromium and chromium-driver). 256x256 RGB at 60 ticks per second.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from cogrs import orchestrator, sdk
from cogrs.web import Page, Place, game_of, serve_page

sys.path.insert(0, str(Path(__file__).parents[1]))

PAINTED = """
const frame = document.querySelector("[data-cogrs=frame]");
window.painted = {};
new MutationObserver(() => {
  const tick = frame.dataset.tick;
  requestAnimationFrame(() => window.painted[tick] ??= Date.now());
}).observe(frame, {attributes: true, attributeFilter: ["data-tick"]});
"""
PRESS = """
window.pressed = Date.now();
dispatchEvent(new KeyboardEvent("keydown", {code: arguments[0], bubbles: true}));
return window.pressed;
"""
RELEASE = 'dispatchEvent(new KeyboardEvent("keyup", {code: arguments[0], bubbles: true}))'


class Square(gymnasium.Env[Any, Any]):
    """A square that moves; it notes when it was stepped, and by which action."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012
    render_mode = "rgb_array"
    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)

    def __init__(self, steps: list[tuple[float, int]]) -> None:
        """Append to a list."""
        self.steps = steps

    def reset(self, **_: Any) -> Any:
        """Start."""
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        """Note the step."""
        self.steps.append((time.time(), int(action)))
        return np.zeros(1, np.float32), 0.0, False, False, {}

    def render(self) -> Any:
        """Return a picture with some detail."""
        frame = np.full((256, 256, 3), 230, np.uint8)
        frame[:, ::8] = 200
        at = 2 * len(self.steps) % 216
        frame[at : at + 40, at : at + 40] = (10, 90, 200)
        return frame


def drive(url: str, seconds: float) -> tuple[list[float], dict[str, float]]:
    """Play in a browser; return when keys were pressed, and when ticks were painted."""
    from tests.web.browser import browser

    with browser(600, 800) as page:
        page.open(url)
        page.join()
        page.until(lambda: page.tick() > 5)
        page.script(PAINTED)
        pressed = []
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            pressed.append(page.script(PRESS, "Digit1") / 1000)
            time.sleep(0.15)
            page.script(RELEASE, "Digit1")
            time.sleep(0.15)
        painted = page.script("return window.painted")
        page.find("leave").click()
        return pressed, {tick: at / 1000 for tick, at in painted.items()}


async def play(seconds: float) -> None:
    """Play, and print the figures."""
    steps: list[tuple[float, int]] = []
    make = lambda: Square(steps)  # noqa: E731
    factory = sdk.GymnasiumEnvironment.factory(make, frames_to=["person"])
    person = {"name": "person", "actor_class": "person", "endpoint": "client"}
    params = {"environment": {"endpoint": "local://square"}, "actors": [person]}
    local = {"square": sdk.local_environments({"": factory})}
    async with (
        await orchestrator.serve({"trial_params": params}, port=0, local=local) as server,
        sdk.TrialController(f"127.0.0.1:{server.port}") as controller,
        sdk.ClientActor(f"127.0.0.1:{server.port}") as client,
    ):

        async def join() -> sdk.ClientSession:
            trial = await controller.start_trial()
            return await client.join(trial.id, name="person")

        place = Place(game_of(make, "Square", fps=60.0), join, leave=controller.terminate_trial)
        page = Page()
        async with serve_page(page) as pages:
            pressed, painted = await asyncio.to_thread(
                drive, pages.url(page.invite(place)), seconds
            )
    acted = []
    for at in pressed:
        reached = next((when for when, action in steps if when >= at and action == 1), None)
        if reached is not None:
            acted.append(1000 * (reached - at))
    # Tick k is the result of step k, counted from 1.
    shown = [1000 * (at - steps[int(tick) - 1][0]) for tick, at in painted.items()]
    span = steps[-1][0] - steps[10][0]
    print(f"ticks per second          {(len(steps) - 11) / span:6.1f}")
    print(f"pictures per second       {len(shown) / seconds:6.1f}")
    for name, found in (("key to action", acted), ("step to painted picture", shown)):
        most = statistics.quantiles(found, n=20)[-1]
        print(f"{name:25} {statistics.median(found):6.1f} ms median, {most:6.1f} ms 95%")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    asyncio.run(play(parser.parse_args().seconds))
