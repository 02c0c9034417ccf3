"""A certificate authority, a token, and parts of a short trial, for tests of secured servers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
import trustme

from cogrs import sdk

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = "a-token-of-23-characters"


class Authority:
    """Signs certificates for this machine, and writes them into files."""

    def __init__(self, folder: Path, name: str = "ours") -> None:
        self._folder = folder / name
        self._folder.mkdir()
        self._ca = trustme.CA()
        self.file = self._folder / "ca.pem"
        self._ca.cert_pem.write_to_path(str(self.file))

    def pair(self, name: str = "localhost") -> dict[str, Path]:
        made = self._ca.issue_cert(name, "127.0.0.1") if name == "localhost" else None
        made = made or self._ca.issue_cert(name)
        files = {kind: self._folder / f"{name}.{kind}" for kind in ("certificate", "key")}
        files["key"].touch(0o600)
        made.private_key_pem.write_to_path(str(files["key"]))
        chain = b"".join(blob.bytes() for blob in made.cert_chain_pems)
        files["certificate"].write_bytes(chain)
        return files


class Walk(sdk.Environment):
    def start(self, trial: Any) -> sdk.Update:
        self.left = 3
        return sdk.Update([0])

    def step(self, actions: Any) -> sdk.Update:
        self.left -= 1
        return sdk.Update([self.left], final=not self.left)


def parts() -> dict[str, Any]:
    agents = {"still": lambda: sdk.FunctionAgent(lambda observation: 0)}
    return {"environments": {"walk": Walk}, "agents": agents}


def walk(endpoint: str) -> dict[str, Any]:
    actor = {"name": "a", "actor_class": "walker", "endpoint": endpoint}
    return {"trial_params": {"environment": {"endpoint": endpoint}, "actors": [actor]}}


async def code_of(call: Any) -> grpc.StatusCode:
    try:
        async with asyncio.timeout(30):
            await call
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK
