"""What an environment tells people of its actions, beside their space: names and keys."""

from __future__ import annotations

import logging
from typing import Any

_logger = logging.getLogger("cogrs.sdk")


def action_hints(env: Any) -> dict[str, Any]:
    """Return what a Gymnasium environment tells of its actions: title, names and keys, for JSON.

    Names are those of its `get_action_meanings`, keys those of its `get_keys_to_action`.
    """
    spec, game = getattr(env, "spec", None), getattr(env, "unwrapped", env)
    title = str(getattr(spec, "name", "") or type(game).__name__)
    hints: dict[str, Any] = {"title": title, "names": [], "keys": None}
    try:
        names = getattr(game, "get_action_meanings", None)
        if callable(names):
            hints["names"] = [str(name).lower() for name in names()]
        keys = getattr(game, "get_keys_to_action", None)
        if callable(keys):
            hints["keys"] = [_combination(*each) for each in keys().items()]
    except Exception as error:  # of the user's methods, which the trial does not need
        _logger.warning("%s: names and keys of its actions are not told: %s", title, error)
    return hints


def _combination(keys: Any, action: Any) -> list[Any]:
    """Return keys that are down together, and their action: `[["a", 1073741903], 1]`."""
    # A text of several characters is a combination of them, as for Gymnasium.
    group = isinstance(keys, tuple | list | frozenset) or (isinstance(keys, str) and len(keys) != 1)
    each = keys if group else (keys,)
    codes = [key if isinstance(key, str) else int(key) for key in each if key is not None]
    return [codes, int(action)]
