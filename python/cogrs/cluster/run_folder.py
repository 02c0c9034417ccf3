"""The folder of a run: its plan, keys, logs, checkpoints, and where its directory listens.

```text
STORAGE/NAME/plan.json          the plan, and the module path of the driver
STORAGE/NAME/lock               held by the supervisor while the run is under way
STORAGE/NAME/state.json         what the supervisor says of the run
STORAGE/NAME/directory.json     where the directory listens
STORAGE/NAME/ended.json         counts of parts that have ended
STORAGE/NAME/keys/              CURVE keys; only their owner may read them
STORAGE/NAME/logs/              what each part prints
STORAGE/NAME/shard-0/           checkpoints, newest last; likewise learner-0
```
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any, Final

from cogrs.cluster.plan import Plan
from cogrs.cluster.state import RunState
from cogrs.files import read_bounded
from cogrs.limits import MIB
from cogrs.replay import KeyPair
from cogrs.workers.checkpoint import write_file

_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,63}")
_LARGEST = 64 * MIB
ROLES: Final = ("server", "actor", "learner")
"""Names of key pairs: of shards and directory, of actors, and of learner and drivers."""


class RunFolder:
    """The paths of one run, and what is read and written there."""

    def __init__(self, storage: str | os.PathLike[str], name: str) -> None:
        """Name a folder, without creating it; a ValueError if the name is not one of a folder."""
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            expected = "letters, digits, '.', '_' and '-', at most 64"
            raise ValueError(f"name: expected {expected}, got {name!r}")
        self.name = name
        self.path = Path(storage).absolute() / name

    @classmethod
    def at(cls, path: str | os.PathLike[str]) -> RunFolder:
        """Return the folder at a path."""
        where = Path(path)
        return cls(where.parent, where.name)

    def create(self, plan: Plan) -> None:
        """Create what is missing, and write the plan; keys and checkpoints stay.

        Raises:
            OSError: The folder cannot be written.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        self.logs.mkdir(exist_ok=True)
        keys = self.path / "keys"
        keys.mkdir(mode=0o700, exist_ok=True)
        for role in ROLES:
            if not self.secret_key(role).exists():
                KeyPair.new().save(role, keys / role)
        # Modules that lie in the present folder are found where the driver finds them.
        path = [entry or os.getcwd() for entry in sys.path]
        # Later than all generations of a launch before this one.
        generation = time.time_ns() // 1_000_000
        self.write("plan.json", {"plan": plan.as_json(), "path": path, "generation": generation})
        self.forget()

    def forget(self) -> None:
        """Remove what a run of this name before said of itself; its keys and checkpoints stay."""
        for name in ("directory.json", "order.json", "state.json", "status.json"):
            (self.path / name).unlink(missing_ok=True)

    def plan(self) -> Plan:
        """Return the plan."""
        return Plan.from_json(self.read("plan.json")["plan"])

    def state(self) -> RunState:
        """Return what the supervisor says of the run; that it starts, before it says anything."""
        try:
            said = self.read("state.json")
        except FileNotFoundError:
            return RunState()
        return RunState(said["state"], said["error"])

    def write_state(self, state: RunState) -> None:
        """Write what the supervisor, which is this process, says of the run."""
        self.write("state.json", {**state._asdict(), "pid": os.getpid()})

    @property
    def logs(self) -> Path:
        """The folder of logs."""
        return self.path / "logs"

    def log(self, role: str, index: int) -> Path:
        """Return the log of a part."""
        return self.logs / f"{role}-{index}.log"

    def tail(self, role: str, index: int, longest: int) -> bytes:
        """Return the last bytes of the log of a part, at most `longest`.

        Raises:
            FileNotFoundError: There is no such log; the text names those that there are.
        """
        try:
            with open(self.log(role, index), "rb") as file:
                file.seek(max(0, file.seek(0, 2) - longest))
                return file.read()
        except FileNotFoundError:
            found = ", ".join(sorted(each.stem for each in self.logs.glob("*.log")))
            expected = f"expected one of {found}" if found else "there are no logs here"
            raise FileNotFoundError(f"part: {expected}, got {role}-{index}") from None

    def error(self, role: str, index: int) -> Path:
        """Return the file with the last error of a part."""
        return self.logs / f"{role}-{index}.error"

    def secret_key(self, role: str) -> Path:
        """Return the file of a key pair."""
        return self.path / "keys" / role / f"{role}.key_secret"

    def public_keys(self, role: str) -> Path:
        """Return the folder with the public key of a role."""
        return self.path / "keys" / role

    def server_key(self) -> Path:
        """Return the file of the servers' public key."""
        return self.path / "keys" / "server" / "server.key"

    def lock(self) -> int | None:
        """Lock the run, and return a descriptor to keep open; None while another process has it."""
        descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return descriptor

    def is_running(self) -> bool:
        """Return whether a supervisor has the run."""
        if not self.path.exists():
            return False
        descriptor = self.lock()
        if descriptor is None:
            return True
        os.close(descriptor)
        return False

    def write(self, name: str, value: Any) -> None:
        """Write a JSON file in place of another, as a whole or not at all."""
        write_file(self.path / name, json.dumps(value).encode())

    def has(self, name: str) -> bool:
        """Return whether a file is there."""
        return (self.path / name).exists()

    def read(self, name: str) -> Any:
        """Return the value of a JSON file; an OSError if it cannot be read."""
        return json.loads(read_bounded(self.path / name, _LARGEST))
