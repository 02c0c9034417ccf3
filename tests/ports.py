"""Ports at which nobody listens, and which the system gives to no connection."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack, suppress
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_random = random.SystemRandom()


def unused_ports(count: int) -> list[int]:
    """Return different ports of the loopback.

    What tries again and again to connect to a port of the system's own range gets that port itself
    at some time, and is then connected to itself.
    """
    first = int(_RANGE.read_text(encoding="ascii").split()[0]) if _RANGE.exists() else 32_768
    found: list[int] = []
    with ExitStack() as stack:
        while len(found) < count:
            probe = stack.enter_context(socket.socket())
            port = _random.randrange(10_000, first)
            with suppress(OSError):  # somebody has it
                probe.bind(("127.0.0.1", port))
                found.append(port)
    return found
