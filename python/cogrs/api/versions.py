"""The reply of every service to Version."""

from __future__ import annotations

from typing import Any

import grpc

from cogrs.api.common_pb2 import VersionInfo

API_VERSION = "1.0.0-alpha6"


def version_method(name: str) -> Any:
    """Return the method Version of a service of this package, whose part is called `name`."""

    async def answer(_service: object, _request: object, _context: object) -> VersionInfo:
        from cogrs._core import __version__

        known = {name: __version__, "cogment-api": API_VERSION, "grpc": grpc.__version__}
        versions = [VersionInfo.Version(name=key, version=known[key]) for key in known]
        return VersionInfo(versions=versions)

    return answer
