"""The rule for listen addresses: beyond the loopback, only secured servers listen."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_TCP = re.compile(r"tcp://(?P<host>.+):[^:]+")


def is_loopback(host: str) -> bool:
    """Return whether a host name or address is of the loopback."""
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
    """Return, as the beginning of a sentence, which strangers reach a listener, or None.

    The loopback counts as closed, though it is open to all users of this machine; see SECURITY.md.
    A path in the file system has an owner and a mode. An abstract name (`ipc://@NAME`) has neither,
    and is shared with every container that shares the network.

    Args:
        address: A host, or an endpoint of ZeroMQ.
    """
    if address.startswith("ipc://@"):
        return "every user of this machine reaches"
    if address.startswith(("ipc://", "inproc://")):
        return None
    match = _TCP.fullmatch(address)
    # ZeroMQ takes interface names too.
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
    """Refuse an address that strangers reach, unless the server is secured or `insecure`.

    Args:
        name: The argument that the address was given as.
        address: A host, or an endpoint of ZeroMQ.
        missing: Names of the arguments that would secure the server and were not given.
        insecure: Whether the caller agrees to do without them.
        consent: How the caller agrees, for the error.

    Raises:
        ValueError: Arguments are missing for this address.
    """
    if insecure or not missing:
        return
    strangers = reached_by(address)
    if strangers is not None:
        raise ValueError(
            f"{name}: {strangers} {address!r}: expected {' and '.join(missing)}, or {consent}; "
            "got neither"
        )
