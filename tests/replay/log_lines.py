"""Log files of servers that the tests share."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from cogrs import ReplayMemoryClient, ReplayMemoryServer
from cogrs.replay.serving.log_file import LogFile
from tests.replay import build
from tests.replay.network import arrived

LINE = re.compile(r"(?P<time>[^,]+),(?P<uuid>[0-9a-f]{8}),(?P<message>.*)")


def lines(path: Path) -> list[str]:
    """The lines of a file, each whole."""
    text = path.read_text(encoding="utf-8")
    assert not text or text.endswith("\n")
    return text.split("\n")[:-1]


def take_in(server: ReplayMemoryServer, client: ReplayMemoryClient) -> None:
    """Wait until the server has all lines of a client: a cache goes the same way behind them."""
    if not client.rem.num_sampleable:
        build.add_uniform(client.rem, 5)
    before = server.total_caches
    client.push_cache()
    arrived(server, before + 1)


def messages(path: Path) -> list[str]:
    return [LINE.fullmatch(line)["message"] for line in lines(path)]


@contextlib.contextmanager
def open_log(path: Path, mode: str = "w") -> Iterator[LogFile]:
    log = LogFile()
    log.open(path, mode)
    try:
        yield log
    finally:
        log.close()
