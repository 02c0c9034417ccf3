"""The rule for addresses to listen at: beyond the loopback only with what secures them."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_TCP = re.compile(r"tcp://(?P<host>.+):[^:]+")


def is_loopback(host: str) -> bool:
    """Return whether only this machine can be reached under a name or address."""
    name = host.strip("[]")
    if name.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def reached_by(address: str) -> str | None:
    """Return who reaches a listener whom the system does not keep out, or None.

    The loopback counts as kept: it is open to all users of this machine, as SECURITY.md says. A
    path in the file system has an owner and a mode; an abstract name (`ipc://@NAME`) has neither,
    and is shared with every container that shares the network.

    Args:
        address: A host, or an endpoint of ZeroMQ.
    """
    if address.startswith("ipc://@"):
        return "every user of this machine reaches"
    if address.startswith(("ipc://", "inproc://")):
        return None
    match = _TCP.fullmatch(address)
    # ZeroMQ takes names of interfaces too.
    if is_loopback(match["host"] if match else address) or (match and match["host"] == "lo"):
        return None
    return "other machines reach"


def check_listener(
    name: str,
    address: str,
    missing: Sequence[str],
    *,
    insecure: bool = False,
    consent: str = "insecure=True",
) -> None:
    """Refuse to listen where anybody comes in, unless that is secured or meant.

    Args:
        name: The argument that the address was given as.
        address: A host, or an endpoint of ZeroMQ.
        missing: What would secure the listener and was not given, by the names of arguments; empty
            where all of it was. What cannot be secured says what it expects instead.
        insecure: Whether the caller has agreed to do without.
        consent: How the caller agrees, for the error.

    Raises:
        ValueError: Something is missing for this address.
    """
    if insecure or not missing:
        return
    who = reached_by(address)
    if who is not None:
        raise ValueError(
            f"{name}: {who} {address!r}: expected {' and '.join(missing)}, or {consent}; "
            "got neither"
        )
