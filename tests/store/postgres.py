"""A PostgreSQL server of its own, in a temporary folder, reached by a socket in that folder."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

if TYPE_CHECKING:
    from types import TracebackType


def find_postgres() -> Path | None:
    """Return the folder of the server's programs; Debian keeps them out of the path."""
    there = shutil.which("initdb")
    folders = [Path(there).resolve().parent] if there else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((each for each in folders if (each / "initdb").exists()), None)


class Database(NamedTuple):
    """An empty database, and its server."""

    url: str
    server: PostgresServer


class PostgresServer:
    """A server; it refuses to run as root, so root's is run by another user."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self._folder = Path(tempfile.mkdtemp(prefix="cogrs-pg-", dir="/tmp"))
        self._user: dict[str, Any] = {}
        if os.getuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(self._folder, nobody.pw_uid, nobody.pw_gid)
            self._user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        self._numbers = count()
        self._server: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        data = self._folder / "data"
        options = ["--auth=trust", "--username=cogrs", "--encoding=UTF8", "--no-sync"]
        self._run("initdb", "--pgdata", str(data), *options)
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._programs / program, *arguments],
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            **self._user,
        )
        assert done.returncode == 0, done.stderr + done.stdout

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = f"-c listen_addresses='' -c unix_socket_directories={self._folder} -c fsync=off"
        log = str(self._folder / "log")
        data = str(self._folder / "data")
        self._run("pg_ctl", "start", "--wait", "-D", data, "-l", log, "-o", options)

    def stop(self, mode: str = "immediate") -> None:
        """Stop it, by default as if it had crashed."""
        if self.is_running:
            self._run("pg_ctl", "stop", "-D", str(self._folder / "data"), "-m", mode)

    @property
    def is_running(self) -> bool:
        return (self._folder / "data/postmaster.pid").exists()

    def ensure_running(self) -> None:
        if not self.is_running:
            self.start()

    def new_database(self) -> Database:
        name = f"db{next(self._numbers)}"
        self._run("createdb", "-h", str(self._folder), "-U", "cogrs", name)
        return Database(f"postgresql://cogrs@/{name}?host={self._folder}", self)
