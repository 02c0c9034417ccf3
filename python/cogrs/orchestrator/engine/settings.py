"""Every duration and limit of the orchestrator, in one place."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

_LARGEST = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Durations in seconds, and limits. A timeout of 0 stands for no limit."""

    start_timeout: float = 60.0
    """For an environment's or agent's OnStart."""
    join_timeout: float = 300.0
    """For somebody to join each client slot."""
    heartbeat_timeout: float = 30.0
    """For a client that owes an action to be heard from."""
    reconnect_window: float | None = None
    """For a client that was lost to return; None takes heartbeat_timeout, or 30 where that is 0."""
    hook_timeout: float = 30.0
    """For each pre-trial hook."""
    end_timeout: float = 60.0
    """For the environment, once the end of a trial was requested."""
    final_timeout: float = 10.0
    """For actors to take their final data."""
    close_grace: float = 5.0
    """For a component to end its stream by itself, before the stream is cancelled."""
    call_timeout: float = 10.0
    """For each OnReward and OnMessage, and for a data log to take the rest at the end."""
    retention: float = 10.0
    """For which ended trials stay listed."""
    max_message: int = 512 * 1024 * 1024
    """Bytes of the largest message, either way, on every channel and server."""
    watch_backlog: int = 10_000
    """Changes of state that wait for a slow watcher before it is dropped."""
    client_backlog: int = 10_000
    """Ticks that wait for an actor that does not read before it is lost: a client's stream is
    closed, and of what waits for its return the oldest is dropped."""
    client_backlog_bytes: int = 64 * 1024 * 1024
    """Bytes of such ticks, for each actor; a single one may have more."""
    post_backlog_bytes: int = 64 * 1024 * 1024
    """Bytes of rewards and messages that wait for their ticks, for each sender in a trial, before
    no more are taken of it; a single request may go beyond."""
    log_backlog: int = 10_000
    """Samples that wait for a slow data log before the trial's log is stopped."""
    log_backlog_bytes: int = 256 * 1024 * 1024
    """Bytes of such samples."""

    def __post_init__(self) -> None:
        """Refuse what is no duration or limit.

        Raises:
            TypeError: A value that is no number.
            ValueError: A negative one, a limit below 1, or one that gRPC cannot keep.
        """
        for field in fields(self):
            value = getattr(self, field.name)
            whole = field.type == "int"
            if value is None and field.name == "reconnect_window":
                continue
            if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
                raise TypeError(f"{field.name}: expected a number, got {type(value).__name__}")
            if not whole <= value < math.inf:
                raise ValueError(f"{field.name}: expected at least {int(whole)}, got {value}")
        if self.max_message > _LARGEST:
            raise ValueError(
                f"max_message: expected at most {_LARGEST}, as gRPC has it; got {self.max_message}"
            )

    @property
    def window(self) -> float:
        """Seconds for which the slot of a lost client is kept."""
        if self.reconnect_window is None:
            return self.heartbeat_timeout or 30.0
        return self.reconnect_window
