"""A real browser: Debian's chromium, driven by Selenium; its paths are given."""

from __future__ import annotations

import atexit
import json
import shutil
import signal
import time
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from tests.commands.command import script
from tests.program import program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SLACK = 60.0
"""Seconds that nothing on a page comes near, unless it hangs."""

_LONGEST_REST = 0.15
"""Seconds between two looks at a page, each of which costs the browser 15 ms of a processor."""

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")

needs_browser = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None,
    reason="no chromium with its driver: apt-get install chromium chromium-driver",
)


_LIGHT = (
    *("disable-background-networking", "disable-component-update", "disable-extensions"),
    *("disable-sync", "disable-site-isolation-trials", "renderer-process-limit=1"),
    "in-process-gpu",
)
"""Leave out of the browser what no test needs; its start and each window are cheaper then."""


class Browser:
    """One window, and what is on its page, by the names of `data-cogrs`."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver
        self.window = driver.current_window_handle

    def show(self, width: int, height: int, *, dark: bool = False) -> None:
        """Turn to this window, with a size and a colour scheme."""
        self.driver.switch_to.window(self.window)
        self.look(width, height, dark=dark)

    def look(self, width: int, height: int, *, dark: bool = False) -> None:
        """Give the present window a size and a colour scheme."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})

    def open(self, url: str) -> None:
        self.driver.get(url)

    def find(self, name: str) -> Any:
        return self.driver.find_element("css selector", f'[data-cogrs="{name}"]')

    def all(self, name: str) -> list[Any]:
        return self.driver.find_elements("css selector", f'[data-cogrs="{name}"] [data-tick]')

    def text(self, name: str) -> str:
        """The text of an element, also where it is not in the window."""
        return self.script(f"return document.querySelector('[data-cogrs={name}]').textContent")

    def script(self, code: str, *args: Any) -> Any:
        return self.driver.execute_script(code, *args)

    def tick(self) -> int:
        """The tick on the screen; -1 before the first one."""
        code = "return document.querySelector('[data-cogrs=frame]').dataset.tick ?? -1"
        return int(self.script(code))

    def join(self, name: str = "Ada") -> None:
        """Fill in the form and send it."""
        form = self.until(lambda: self.shown("join"))
        form.find_element("css selector", "input[type=text]").send_keys(name)
        form.find_element("css selector", "button").click()

    def shown(self, name: str) -> Any:
        found = self.find(name)
        return found if found.is_displayed() else None

    def keys(self, *codes: str) -> None:
        """Press and let go of keys, one after the other."""
        from selenium.webdriver.common.action_chains import ActionChains
        from selenium.webdriver.common.keys import Keys

        chain = ActionChains(self.driver)
        for code in codes:
            chain.send_keys(getattr(Keys, code, code))
        chain.perform()

    def until(self, holds: Callable[[], Any]) -> Any:
        """Wait until something holds, and return it; fail if it never does."""
        end, rest = time.monotonic() + SLACK, 0.02
        while not (found := holds()):
            assert time.monotonic() < end, f"never so; the page says {self.text('reason')!r}"
            time.sleep(rest)
            rest = min(2 * rest, _LONGEST_REST)
        return found

    def until_state(self, *states: str) -> None:
        self.until(lambda: self.text("state") in states)

    def errors(self) -> list[str]:
        """What the browser complains about: errors of scripts, refused resources."""
        return [each["message"] for each in self.driver.get_log("browser")]


@cache
def _driver() -> Any:
    """Start the browser, which all tests of this process share; its first window stays empty."""
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = CHROMIUM or ""
    for each in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "disable-gpu", *_LIGHT):
        options.add_argument(f"--{each}")
    options.accept_insecure_certs = True  # of tests, which are signed by nobody
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    atexit.register(driver.quit)
    return driver


@contextmanager
def browser(width: int = 1000, height: int = 900, *, dark: bool = False) -> Iterator[Browser]:
    """Open a window with a session of its own, and close it and its tabs afterwards."""
    driver = _driver()
    before, others = driver.current_window_handle, set(driver.window_handles)
    driver.switch_to.new_window("window")
    try:
        driver.get_log("browser")  # of tests before this one
        page = Browser(driver)
        page.show(width, height, dark=dark)
        yield page
    finally:
        for window in set(driver.window_handles) - others:
            driver.switch_to.window(window)
            driver.close()
        driver.switch_to.window(before)


@contextmanager
def play(*arguments: str) -> Iterator[dict[str, Any]]:
    """Run `cogrs play`; yield its line of JSON. Ctrl-C ends it."""
    with program(script("play", *arguments, "--no-browser", "--json")) as process:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        yield json.loads(line)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130


NAME = """
const e = arguments[0];
return e.getAttribute("aria-label") || e.textContent.trim() || (e.labels?.length ?? 0) > 0;
"""
"""Whether an element has a name."""

CONTRAST = """
const light = (text) => {
  const [r, g, b] = text.match(/[0-9.]+/g).map((v) => {
    const c = v / 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ground = (e) => {
  for (; e; e = e.parentElement) {
    const c = getComputedStyle(e).backgroundColor;
    if (!/, 0\\)$/.test(c)) return c;
  }
  return "rgb(255, 255, 255)";
};
return [...document.querySelectorAll("button, h1, h2, span, output, summary, kbd, p, label")]
  .filter((e) => e.offsetParent && e.textContent.trim())
  .map((e) => {
    const a = light(getComputedStyle(e).color);
    const b = light(ground(e));
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  });
"""
"""The contrast of each text that is shown."""
