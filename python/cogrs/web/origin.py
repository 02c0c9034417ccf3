"""Which hosts and origins a page answers: other sites, and names that point here, are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from cogrs.listen_address import is_loopback

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import HTTPConnection


class Origin:
    """Checks the headers `Host` and `Origin` of requests."""

    def __init__(self, hosts: Sequence[str]) -> None:
        """Allow these names, and those of the loopback."""
        self._hosts = frozenset(host.strip("[]").lower() for host in hosts)

    def find_fault(self, request: HTTPConnection) -> str | None:
        """Return why a request is refused, or None.

        Programs send no `Origin`; browsers send it with every WebSocket.
        """
        host = request.headers.get("host", "")
        name = _name_of(host)
        if name is None or not (is_loopback(name) or name in self._hosts):
            return "Host: expected a name of this server; see --public-host"
        origin = request.headers.get("origin")
        if origin is None:
            return None
        parts = urlsplit(origin)
        if parts.scheme not in ("http", "https") or parts.netloc.lower() != host.lower():
            return "Origin: expected the page of this server"
        return None


def _name_of(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None
