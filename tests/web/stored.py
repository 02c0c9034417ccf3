"""`cogrs play` with a store, and a program that plays over its wire."""

from __future__ import annotations

import json
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from websockets.sync.client import connect

from tests.commands.command import script
from tests.program import program

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest

SLACK = 60.0
"""Seconds that nothing comes near, unless it hangs."""

GAME = """
from tests.web.walk import Walk

def short():
    return Walk(4)

def long():
    return Walk(40)

def endless():
    return Walk(10**9)

def stay(observation):
    return 2
"""


def folder_of_games(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder for a store, beside a module with games and a policy."""
    (tmp_path / "walks.py").write_text(GAME)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", __file__.rpartition("/tests/")[0])
    return tmp_path / "trials"


@contextmanager
def play(folder: Path, *arguments: str) -> Iterator[dict[str, Any]]:
    """Run `cogrs play` with a store; yield its line of JSON. Ctrl-C ends it."""
    given = ("--no-browser", "--json", "--store", str(folder))
    with program(script("play", *arguments, *given)) as process:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        yield json.loads(line)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130


class Player:
    """A program that plays over the page's wire."""

    def __init__(self, socket: Any) -> None:
        self.socket = socket

    def send(self, kind: str, **fields: Any) -> None:
        self.socket.send(json.dumps({"type": kind, **fields}))

    def picture(self) -> bytes:
        """Return the next picture."""
        while not isinstance(received := self.socket.recv(SLACK), bytes):
            pass
        return received

    def until(self, kind: str, **fields: Any) -> Any:
        """Return the first message of a type with these fields."""
        while True:
            text = self.socket.recv(SLACK)
            message = {} if isinstance(text, bytes) else json.loads(text)
            if message.get("type") == kind and all(message[k] == v for k, v in fields.items()):
                return message


@contextmanager
def joined(at: dict[str, Any]) -> Iterator[Player]:
    with connect(f"ws://127.0.0.1:{at['port']}/ws") as socket:
        player = Player(socket)
        player.send("join", token=at["url"].partition("#")[2])
        yield player
