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

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.web.browser import browser
from tests.web.scene import scene

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
    async with scene(make, title="Square", fps=60.0) as on:
        url = on.pages.url(on.page.invite(on.place))
        pressed, painted = await asyncio.to_thread(drive, url, seconds)
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
