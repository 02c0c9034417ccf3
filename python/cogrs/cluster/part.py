"""What all parts of a run have: they register, follow the directory, and stop when asked to.

Threads: `_follow` registers every second and takes what changed; `on_change` is called there. The
part itself runs on the main thread, and looks often whether it is to stop.
"""

from __future__ import annotations

import logging
import os
import platform
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Final, Protocol

from cogrs.cluster.directory import SHARD, LateGenerationError
from cogrs.cluster.directory_client import DirectoryClient
from cogrs.cluster.homes import homes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cogrs.cluster.run_folder import RunFolder

_logger = logging.getLogger("cogrs.cluster")

PERIOD: Final = 1.0
"""Seconds between two registrations."""


class StopFlag(Protocol):
    """Whether a part is to stop."""

    def is_set(self) -> bool:
        """Return whether it is."""
        ...


class Part:
    """One process of a run: its plan, its place in the directory, and the others' places."""

    def __init__(
        self, folder: RunFolder, role: str, index: int, generation: int, stop: StopFlag
    ) -> None:
        """Create it; nothing is registered yet."""
        self.folder = folder
        self.role = role
        self.index = index
        self.generation = generation
        self.plan = folder.plan()
        self.host = self.plan.host
        """Where this part listens."""
        self.report: dict[str, Any] = {}
        """What is told with the next registration; replace values, or the whole."""
        self.last_error = ""
        self.snapshot: dict[str, Any] = {"version": 0, "parts": [], "order": {}}
        """The newest of the directory."""
        self.replaced = False
        """Whether a later generation of this part has registered."""
        self._stop = stop
        self._ended = threading.Event()
        """Set when the part is over, or its supervisor has ended."""
        self._place: dict[str, Any] = {}
        self._on_change: Callable[[], object] = lambda: None
        self.directory = DirectoryClient(
            directory_endpoint(folder),
            key=folder.secret_key(key_role(role)),
            server_key=folder.server_key(),
        )
        self._thread = threading.Thread(target=self._follow, name="cogrs-follow", daemon=True)

    def register(self, place: Mapping[str, Any] | None = None) -> None:
        """Register from now on, with what others need: `endpoints`, for example."""
        self._place = {
            "role": self.role,
            "index": self.index,
            "generation": self.generation,
            "node": platform.node(),
            "pid": os.getpid(),
            "since": time.time(),
            **(place or {}),
        }
        self._thread.start()

    def set_on_change(self, call: Callable[[], object]) -> None:
        """Call a function, on another thread, whenever the directory has changed."""
        self._on_change = call

    def update_place(self, **changes: Any) -> None:
        """Change what was registered; the directory hears of it within a second."""
        self._place = self._place | changes

    def place(self, name: str) -> Any:
        """Return what was registered under a name."""
        return self._place.get(name)

    @property
    def stopping(self) -> bool:
        """Whether the part is to stop."""
        return self._stop.is_set() or self._ended.is_set()

    def sleep(self, seconds: float) -> bool:
        """Wait, at most until the part is to stop; return whether it is."""
        end = time.monotonic() + seconds
        while not self.stopping and (left := end - time.monotonic()) > 0:
            self._ended.wait(min(left, 0.1))
        return self.stopping

    def end(self) -> None:
        """Stop the part; any thread may call this."""
        self._ended.set()

    def close(self) -> None:
        """Register the last figures, and leave the directory."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(5.0)
        if self._place and not self.replaced:
            try:
                self.directory.exchange(self.told(), self.snapshot["version"], 0.0)
            except (TimeoutError, ValueError, RuntimeError) as error:
                _logger.info("the last figures were not told: %s", error)
        self.directory.close()

    def note_error(self, error: BaseException) -> None:
        """Log an error that the part survives, and tell it with the next registration."""
        text = f"{type(error).__name__}: {error}"
        if text != self.last_error:
            _logger.error("%s", text)
        self.last_error = text

    # What the directory says of others.

    def shards(self) -> list[dict[str, Any]]:
        """Return where the shards are, in their order; an empty list before all are known."""
        found = {each["index"]: each for each in self.snapshot["parts"] if each["role"] == SHARD}
        if len(found) < self.plan.shards:
            return []
        return [found[index] for index in range(self.plan.shards)]

    def wait_for_shards(self) -> bool:
        """Wait until all shards are known; return False when the part is to stop instead."""
        while not self.shards():
            if self.sleep(0.05):
                return False
        return True

    def actors(self) -> list[int]:
        """Return the indices of the actors that the run is to have, without those given up."""
        for each in self.snapshot["parts"]:
            if each["role"] == "supervisor":
                return list(each["actors"])
        return list(range(self.snapshot["order"].get("actors", self.plan.actors)))

    def home(self) -> int:
        """Return the shard of this actor."""
        shards = self.plan.shards
        return homes({*self.actors(), self.index}, shards)[self.index]

    def told(self) -> dict[str, Any]:
        """Return what is registered now."""
        report = self.report | ({"error": self.last_error} if self.last_error else {})
        return self._place | {"report": report}

    def _follow(self) -> None:
        while not self._ended.is_set():
            began = time.monotonic()
            try:
                new = self.directory.exchange(self.told(), self.snapshot["version"], PERIOD)
            except LateGenerationError as error:
                _logger.error("this process ends, for it was replaced: %s", error)
                self.replaced = True
                self._ended.set()
            except (TimeoutError, RuntimeError, OSError) as error:
                if not self._ended.is_set():
                    _logger.warning("%s", error)
                    self._ended.wait(0.1)
            else:
                if new is not None:
                    self._take(new)
                    # Several parts that start together are one change.
                    self._ended.wait(max(0.0, 0.1 - (time.monotonic() - began)))

    def _take(self, snapshot: dict[str, Any]) -> None:
        if snapshot["version"] <= self.snapshot["version"]:
            return
        self.snapshot = snapshot
        try:
            self._on_change()
        except Exception as error:
            self.note_error(error)


def key_role(role: str) -> str:
    """Return whose keys a part has; those of "learner" may give orders."""
    return "actor" if role == "actor" else "server" if role == "shard" else "learner"


def directory_endpoint(folder: RunFolder) -> Callable[[], str | None]:
    """Return a function that returns where the directory of a run listens, None if not known."""
    path = folder.path / "directory.json"
    known: list[Any] = [None, None]

    def endpoint() -> str | None:
        try:
            changed = os.stat(path).st_mtime_ns
            if changed != known[0]:
                known[:] = changed, folder.read("directory.json")["endpoint"]
        except (OSError, ValueError):
            return None
        return None if known[1] is None else str(known[1])

    return endpoint


def watch_parent(end: Callable[[], object], grace: float) -> None:
    """Call `end` when the standard input ends: the supervisor has ended, by whatever means.

    A process that is still there `grace` seconds later ends at once.
    """

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 1 << 10):
            pass
        end()
        time.sleep(grace)
        os._exit(1)

    threading.Thread(target=watch, name="cogrs-parent", daemon=True).start()
