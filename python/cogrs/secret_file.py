"""Files that hold secrets: tokens, and private keys of TLS."""

from __future__ import annotations

import logging
import os
import stat

_logger = logging.getLogger("cogrs")


def warn_if_readable(path: str | os.PathLike[str]) -> None:
    """Warn if others than the owner may read or write a file."""
    mode = os.stat(path).st_mode
    if stat.S_ISREG(mode) and mode & (stat.S_IRWXG | stat.S_IRWXO):
        _logger.warning("%s can be read by users other than its owner: chmod 600", os.fspath(path))
