"""Endpoints of components, parsed."""

from __future__ import annotations

import enum
import re
from typing import NamedTuple

from cogrs.orchestrator.engine.errors import InvalidError, short

_GRPC = re.compile(r"(?:grpc://)?(?P<target>(?:\[[0-9A-Fa-f:.%]+\]|[\w.-]+):(?P<port>\d{1,5}))")
_LOCAL = re.compile(r"local://(?P<name>[\w.-]+)")


class EndpointKind(enum.Enum):
    """How a component is reached."""

    GRPC = enum.auto()
    LOCAL = enum.auto()
    CLIENT = enum.auto()


class Endpoint(NamedTuple):
    """A parsed endpoint."""

    kind: EndpointKind
    target: str
    """`host:port`, the name of a local component, or an empty text for a client."""
    text: str
    """As it was given."""


def parse_endpoint(what: str, text: str, *, client: bool = False) -> Endpoint:
    """Parse `grpc://host:port`, `host:port`, `local://name`, or with `client` also `client`.

    Other texts raise an InvalidError that begins with `what`.
    """
    if client and text == "client":
        return Endpoint(EndpointKind.CLIENT, "", text)
    if match := _LOCAL.fullmatch(text):
        return Endpoint(EndpointKind.LOCAL, match["name"], text)
    match = _GRPC.fullmatch(text)
    if match and 1 <= int(match["port"]) <= 65535:
        return Endpoint(EndpointKind.GRPC, match["target"], text)
    known = "'grpc://host:port', 'host:port' or 'local://name'" + (" or 'client'" if client else "")
    raise InvalidError(f"{what}: expected endpoint {known}, got {short(text)}")
