"""A client actor's stream, whose replies are read as they come.

It lives on one event loop: a task of its own reads ahead, and needs no locks.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import grpc.aio

from cogrs.api import orchestrator_pb2 as pb
from cogrs.user_errors import is_cancelled

_AHEAD = 64
"""ResponseStream that are read before anybody asks for them."""

_BROKEN = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.ALREADY_EXISTS,
)
"""How a stream ends whose connection is lost, or that opens while another one is closed."""


class ActionStream:
    """One call of ActionStream.

    It is read ahead, and by iteration: when a trial ends while an actor thinks, writing fails, and
    from then on `read` of gRPC for asyncio returns no reply that was not read yet, neither final
    data nor status (https://github.com/grpc/grpc/issues/36066). Iteration goes on to the end.

    A hand-shake, which is a request without an action, goes out first: orchestrators take a first
    request with an empty action for one.
    """

    def __init__(self, call: Any) -> None:
        """Send the hand-shake of a stub's call, and begin to read."""
        self._call = call
        self._replies: deque[pb.TrialActionReply] = deque()
        self._news, self._room = asyncio.Event(), asyncio.Event()
        self.is_over = False
        """Whether no more replies will come."""
        self._error: Exception | None = None
        self._reader = asyncio.ensure_future(self._read())
        self._greeting = asyncio.ensure_future(self._send(pb.TrialActionRequest()))

    async def read(self) -> pb.TrialActionReply | None:
        """Return the next reply, None at the end; an AioRpcError (see `is_broken`) if it failed."""
        while not self._replies:
            if self._error is not None:
                raise self._error
            if self.is_over:
                return None
            self._news.clear()
            await self._news.wait()
        self._room.set()
        return self._replies.popleft()

    async def write(self, request: pb.TrialActionRequest) -> None:
        """Send a request; drop it when the stream is over, as the next `read` says."""
        if not self._greeting.done():
            await asyncio.wait({self._greeting})
        await self._send(request)

    async def _send(self, request: pb.TrialActionRequest) -> None:
        if self.is_over:
            return
        try:
            await self._call.write(request)
        except asyncio.CancelledError:
            if is_cancelled():
                raise
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            return

    def lose(self) -> None:
        """Give the connection up: reading ends as if it was cut."""
        self._call.cancel()

    async def close(self) -> None:
        """Cancel the call."""
        self._call.cancel()
        self._reader.cancel()
        self._greeting.cancel()
        await asyncio.wait({self._reader, self._greeting})

    async def _read(self) -> None:
        try:
            async for reply in self._call:
                self._replies.append(reply)
                self._news.set()
                while len(self._replies) == _AHEAD:
                    self._room.clear()
                    await self._room.wait()
        except Exception as error:
            self._error = error
        except asyncio.CancelledError:
            # gRPC raises it for a call that is cancelled, too, here or at the other end.
            if is_cancelled():
                raise
            nothing = grpc.aio.Metadata()
            self._error = grpc.aio.AioRpcError(
                grpc.StatusCode.CANCELLED, nothing, nothing, details="the stream was cancelled"
            )
        finally:
            self.is_over = True
            self._news.set()


def is_broken(error: grpc.aio.AioRpcError) -> bool:
    """Return whether an error is about the connection alone, so that the trial may go on.

    ALREADY_EXISTS is about it: a stream that this client closed reached the orchestrator late.
    """
    lost = "execute_batch" in (error.debug_error_string() or "")
    return error.code() in _BROKEN or (error.code() is grpc.StatusCode.INTERNAL and lost)
