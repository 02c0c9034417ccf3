"""A folder of public keys, which may change while a server runs.

Threads: a lock is held while the folder is read; `known` looks at the result without it.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from pathlib import Path
from typing import NamedTuple

from zmq.utils import z85

from cogrs.escape import escaped
from cogrs.replay.key_pair import PUBLIC_SUFFIX, public_of, shown

_logger = logging.getLogger("cogrs.replay")


class _Version(NamedTuple):
    """The state of a file when it was read: while all of these are equal, it has not changed."""

    inode: int
    size: int
    modified: int
    changed: int

    @classmethod
    def of(cls, path: str) -> _Version:
        found = os.stat(path)
        return cls(found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


class KeyFolder:
    """The keys in the files `*.key` of a folder. Any thread may call any method.

    Files are read again when they have changed. Files that cannot be read, and those that are not
    regular files, are left out, with one warning for each path.
    """

    def __init__(self, name: str, path: str | os.PathLike[str]) -> None:
        """Use the folder of an argument; a NotADirectoryError if it does not exist."""
        self._name = name
        self._path = Path(path)
        if not self._path.is_dir():
            got = shown(self._path)
            raise NotADirectoryError(f"{name}: expected a folder of public keys, got {got}")
        self._lock = threading.Lock()
        self._keys: dict[str, tuple[_Version, bytes | None]] = {}
        """By path: the state of each file when it was read, and its key, if it has one."""
        self._paths: dict[bytes, str] = {}
        """Where each key is."""
        self._warned: set[str] = set()
        self._read_at = -math.inf

    def known(self, key: bytes) -> bool | None:
        """Return True if a key is there; None where only reading the folder tells."""
        path = self._paths.get(key)
        if path is None:
            return None
        version, _ = self._keys.get(path, (None, None))
        try:
            return True if _Version.of(path) == version else None
        except OSError:
            return None

    def has(self, key: bytes, asked_at: float = math.inf) -> bool:
        """Read the folder, unless that was done since `asked_at`; return whether a key is there.

        So one reading answers all questions that came before it.
        """
        with self._lock:
            if self._read_at <= asked_at:
                self._read_at = time.monotonic()
                self._read()
            return key in self._paths

    def _read(self) -> None:
        keys: dict[str, tuple[_Version, bytes | None]] = {}
        try:
            with os.scandir(self._path) as entries:
                paths = [each.path for each in entries if each.name.endswith(PUBLIC_SUFFIX)]
        except OSError as error:
            self._warn(os.fspath(self._path), error)
            paths = []
        for path in paths:
            try:
                version = _Version.of(path)
                before = self._keys.get(path)
                known = before if before is not None and before[0] == version else None
                keys[path] = known or (version, z85.decode(public_of(self._name, Path(path))))
            except (OSError, ValueError) as error:
                self._warn(path, error)
        self._keys, self._paths = keys, {key: path for path, (_, key) in keys.items() if key}

    def _warn(self, path: str, error: Exception) -> None:
        if path not in self._warned:
            self._warned.add(path)
            # The name of the file was chosen by somebody else.
            where, why = escaped(path), escaped(str(error))
            _logger.warning("%s: a key that cannot be read is left out: %s", where, why)
