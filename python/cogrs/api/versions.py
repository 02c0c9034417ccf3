"""The reply of every service to Version."""

from __future__ import annotations

import grpc

from cogrs.api.common_pb2 import VersionInfo

API_VERSION = "1.0.0-alpha6"


def version_info(name: str, version: str) -> VersionInfo:
    """Return the versions of a part of this package, by its name, and of what it speaks."""
    known = {name: version, "cogment-api": API_VERSION, "grpc": grpc.__version__}
    versions = [VersionInfo.Version(name=key, version=known[key]) for key in known]
    return VersionInfo(versions=versions)
