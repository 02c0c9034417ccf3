"""Every duration and limit of the orchestrator, in one place."""

from __future__ import annotations

from dataclasses import dataclass, fields

from cogrs import limits
from cogrs.validation import check_integer, check_seconds

_MOST = 2**31 - 1
_KEPT_BY_GRPC = ("max_message", "max_request", "max_streams")
"""Limits that gRPC keeps, as an integer of 32 bits."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Durations in seconds, and limits. A timeout of 0 stands for no limit."""

    start_timeout: float = 60.0
    """For an environment's or agent's OnStart."""
    join_timeout: float = 300.0
    """For a client to join each client slot."""
    heartbeat_timeout: float = 30.0
    """Silence after which a client that owes an action counts as lost."""
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
    late_rewards: float = 3600.0
    """For which agents of ended trials can still be rewarded; 0 stands for not at all."""
    max_message: int = limits.MAX_MESSAGE
    """Bytes of the largest message, either way, on every channel and server."""
    max_request: int = limits.MAX_REQUEST
    """Bytes of the largest message of a client or controller; `max_message` if that is less."""
    max_trials: int = limits.MAX_TRIALS
    """Trials that have not ended, before StartTrial is refused. As many that have ended are listed
    at most: the oldest are forgotten before their `retention` is over."""
    max_waiting_trials: int = limits.MAX_WAITING_TRIALS
    """Trials that wait for clients to join, before StartTrial of another is refused."""
    max_actors: int = limits.MAX_ACTORS
    """Actors of all trials that have not ended, before StartTrial is refused. Those that have are
    forgotten as with `max_trials`."""
    max_params_bytes: int = limits.MAX_PARAMS_BYTES
    """Bytes of the parameters of all trials that have not ended, before StartTrial is refused."""
    max_watchers: int = limits.MAX_WATCHERS
    """WatchTrials at a time, before another is refused."""
    max_streams: int = limits.MAX_STREAMS
    """Calls at a time on one connection; others wait on the client's side."""
    watch_backlog: int = limits.WATCH_BACKLOG
    """Changes of state that wait for a slow watcher before it is dropped."""
    client_backlog: int = limits.CLIENT_BACKLOG
    """Ticks that wait for an actor that does not read before it is lost: a client's stream is
    closed, and of what waits for its return the oldest is dropped."""
    client_backlog_bytes: int = limits.CLIENT_BACKLOG_BYTES
    """Bytes of such ticks, for each actor; a single one may have more."""
    post_backlog: int = limits.POST_BACKLOG
    """Messages and sources of rewards that wait for their ticks, for each sender in a trial; and
    those of one request or reply."""
    post_backlog_bytes: int = limits.POST_BACKLOG_BYTES
    """Bytes of them, 256 counted for each beside its own; where nothing waits, a single request may
    have more."""
    log_backlog: int = limits.LOG_BACKLOG
    """Samples that wait for a slow data log before the trial's log is stopped."""
    log_backlog_bytes: int = limits.LOG_BACKLOG_BYTES
    """Bytes of such samples."""

    def __post_init__(self) -> None:
        """Check all settings.

        Raises:
            TypeError: A setting has the wrong type.
            ValueError: A duration is not a finite number >= 0, a limit is below 1, or gRPC cannot
                keep it.
        """
        for field in fields(self):
            name, value = field.name, getattr(self, field.name)
            if field.type == "int":
                check_integer(name, value, 1, *([_MOST] if name in _KEPT_BY_GRPC else []))
            elif value is not None or name != "reconnect_window":
                check_seconds(name, value)

    @property
    def window(self) -> float:
        """Seconds for which the slot of a lost client is kept."""
        if self.reconnect_window is None:
            return self.heartbeat_timeout or 30.0
        return self.reconnect_window
