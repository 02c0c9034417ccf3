"""A demo in processes of its own, as a newcomer runs it, and what of it is left in the system."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

EXTRAS = ("gymnasium", "jax", "optax", "matplotlib", "rich")
MISSING = [name for name in EXTRAS if importlib.util.find_spec(name) is None]
DEADLINE = 100.0
"""Seconds after which something that takes ten at most has failed."""
_LISTENS = "0A"


class Demo:
    """A demo that has been started; a mark in the environment of its processes tells them apart."""

    def __init__(self, *arguments: str, **options: Any) -> None:
        self._mark = f"COGRS_TEST_RUN={uuid.uuid4()}".encode()
        name, value = self._mark.decode().split("=")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "cogrs", "demo", *arguments],
            stdout=options.pop("stdout", subprocess.PIPE),
            stderr=subprocess.PIPE,
            text=True,
            # A terminal's Ctrl-C goes to the whole group, and this is one.
            start_new_session=True,
            # One that aborts says where.
            env={**os.environ, name: value, "PYTHONFAULTHANDLER": "1", **options},
        )

    def pids(self) -> set[int]:
        """All its processes, orphans included."""
        found = set()
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if self._mark in (folder / "environ").read_bytes().split(b"\0"):
                    found.add(int(folder.name))
        return found

    def children(self) -> dict[str, int]:
        """Its children by their role."""
        found = {}
        for pid in self.pids() - {self.process.pid}:
            with suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().decode()
                if role := re.search(r"cogrs\.demo\.(\w+)", words):
                    found[role[1]] = pid
        return found

    def sockets(self) -> set[str]:
        """The sockets at which its processes listen, as inodes: no other will have them."""
        mine = set()
        for pid in self.pids():
            with suppress(OSError):
                for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                    with suppress(OSError):
                        mine.add(os.readlink(descriptor))
        return {inode for inode in listening() if f"socket:[{inode}]" in mine}

    def ctrl_c(self) -> None:
        os.killpg(self.process.pid, signal.SIGINT)

    def line(self, pattern: str) -> str:
        """Wait for a line of its output."""
        for line in self.process.stdout:
            if re.search(pattern, line):
                return line
        raise AssertionError(f"no line has {pattern}: {self.process.stderr.read()}")

    def finish(self) -> tuple[int, str, str]:
        """Wait for its end; return its exit code and what it said."""
        out, err = self.process.communicate(timeout=DEADLINE)
        return self.process.returncode, out, err

    def assert_gone(self, sockets: set[str]) -> None:
        """Nothing of it is left, nor of the sockets that it had."""
        end = time.monotonic() + DEADLINE
        while self.pids() or sockets & listening():
            assert time.monotonic() < end, f"left: {self.children()}, {sockets & listening()}"
            time.sleep(0.05)

    def kill(self) -> None:
        """End whatever still runs."""
        for pid in self.pids():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.communicate()


def listening() -> set[str]:
    """The inodes of all sockets of this machine that listen."""
    rows = []
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            rows += Path(f"/proc/net/{table}").read_text(encoding="ascii").splitlines()[1:]
    return {row.split()[9] for row in rows if row.split()[3] == _LISTENS}


def folder_of(out: Path) -> Path:
    """The folder of the only run."""
    (folder,) = out.iterdir()
    return folder


def metrics_of(folder: Path) -> list[dict[str, Any]]:
    """The metrics that a run has written; and its curve is there, if there is one to draw."""
    text = (folder / "metrics.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    curve = folder / "curve.png"
    assert curve.exists() == (rows[-1]["trials"] > 0)
    assert not curve.exists() or curve.read_bytes().startswith(b"\x89PNG")
    return rows
