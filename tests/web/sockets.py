"""What tests say and hear over a page's WebSocket."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from websockets.exceptions import ConnectionClosed

SLACK = 60.0
"""Seconds that nothing comes near, unless it hangs."""


async def send(socket: Any, kind: str, **fields: Any) -> None:
    await socket.send(json.dumps({"type": kind, **fields}))


async def until(socket: Any, kind: str, **fields: Any) -> Any:
    """Return the first message of a type with these fields."""
    async with asyncio.timeout(SLACK):
        async for text in socket:
            message = {} if isinstance(text, bytes) else json.loads(text)
            if message.get("type") == kind and all(message[k] == v for k, v in fields.items()):
                return message
    raise AssertionError(f"no {kind} came: closed with {socket.close_code} {socket.close_reason}")


async def closed(socket: Any) -> int:
    """Wait for the close; return its code."""
    async with asyncio.timeout(SLACK):
        try:
            while True:
                await socket.recv()
        except ConnectionClosed:
            return int(socket.close_code)
