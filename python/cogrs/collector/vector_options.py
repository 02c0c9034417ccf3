"""Options of `VectorEnv`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gymnasium import error
from gymnasium.vector import AutoresetMode

from cogrs.collector.environments.factory import listed
from cogrs.collector.environments.restarts import Restarts
from cogrs.collector.games import BUILT_IN
from cogrs.suggest import suggestion
from cogrs.validation import check_integer, check_kind, check_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

OWN_OPTIONS = (
    "num_envs",
    "seed",
    "num_threads",
    "processes",
    "env_kwargs",
    "autoreset_mode",
    "observation_mode",
    "on_error",
    "max_restarts",
    "restart_backoff",
    "timeout",
    "copy",
)
"""All options that are not those of an environment, for suggestions where one is misspelt."""
INSTEAD = dict.fromkeys(
    ("shared_memory", "context", "daemon", "worker", "max_concurrency"),
    "environments live in this process, or with processes=k in k others; leave the option out",
)
"""What to do instead of giving an option of other vector environments."""


def autoreset_mode_of(given: Any) -> AutoresetMode:
    """Return the mode that a value, or its name in lower case, means; else a ValueError."""
    if isinstance(given, AutoresetMode):
        return given
    names = {mode.value: mode for mode in AutoresetMode}
    names |= {mode.name.lower(): mode for mode in AutoresetMode}
    if not isinstance(given, str) or given not in names:
        raise ValueError(f"autoreset_mode: expected one of {list(names)}, got {given!r}")
    return names[given]


def restarts_of(on_error: str, most: int, backoff: float) -> Restarts:
    """Return the policy for environments that fail; ValueError or TypeError for a wrong option."""
    if on_error not in ("raise", "restart"):
        raise ValueError(f"on_error: expected 'raise' or 'restart', got {on_error!r}")
    most = check_integer("max_restarts", most, 0, 2**32 - 1)
    check_seconds("restart_backoff", backoff)
    return Restarts(most if on_error == "restart" else 0, float(backoff))


def game_options(
    env_kwargs: Any, processes: int, on_error: str, timeout: float | None
) -> dict[str, Any]:
    """Return the options of a built-in game, which are those of all its environments."""
    if processes:
        raise ValueError("processes: expected 0 for a built-in game, which num_threads move")
    if timeout is not None:
        raise ValueError("timeout: expected None for a built-in game, which does not hang")
    if on_error != "raise":
        raise ValueError("on_error: expected 'raise' for a built-in game: each step can be refused")
    if listed(env_kwargs) is not None:
        raise TypeError("env_kwargs: expected a mapping for a built-in game, got a sequence")
    check_kind("env_kwargs", env_kwargs, Mapping | None, "a mapping or None")
    return dict(env_kwargs or {})


@contextmanager
def suggestions(env: Any) -> Iterator[None]:
    """Name the built-in game that an id of nothing resembles."""
    try:
        yield
    except error.UnregisteredEnv as refusal:
        unknown = next((each for each in listed(env) or [env] if suggestion(each, BUILT_IN)), None)
        if unknown is None:
            raise
        found = suggestion(unknown, BUILT_IN)
        text = (
            f"env: no built-in game is called {unknown!r}, {found} As an id of Gymnasium: {refusal}"
        )
        raise type(refusal)(text) from refusal
