"""The controls of an action space: buttons and keys, or sliders; and actions that pages send."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cogrs.optional_dependency import import_optional
from cogrs.sdk.action_hints import action_hints
from cogrs.web.keys import default_keys, read_keys

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import gymnasium

MOST_ACTIONS = 1024
"""Buttons, or sliders, of a page."""

_NAMES = {
    "CartPole": ("left", "right"),
    "MountainCar": ("left", "coast", "right"),
    "Acrobot": ("left", "no torque", "right"),
    "LunarLander": ("wait", "left", "main engine", "right"),
    "FrozenLake": ("left", "down", "right", "up"),
    "CliffWalking": ("up", "right", "down", "left"),
    "Taxi": ("down", "up", "right", "left", "pick up", "drop off"),
    "Blackjack": ("stick", "hit"),
}
"""Names of the actions of Gymnasium's environments, which do not name them."""

_BOUND = 1.0
"""Where a slider of an unbounded action ends."""


class Controls:
    """How a person gives the actions of a space.

    Attributes:
        default: The action while no control is used.
    """

    default: Any

    def __init__(
        self,
        space: gymnasium.Space[Any],
        *,
        names: Sequence[str] = (),
        keys: Mapping[Any, Any] | None = None,
    ) -> None:
        """Create controls for a Discrete, MultiDiscrete, MultiBinary or Box space.

        Args:
            space: The action space.
            names: Names of a Discrete's actions, in order.
            keys: Actions by keys, as of Gymnasium's `get_keys_to_action`.

        Raises:
            ValueError: Another space, too many actions, or an unknown key.
        """
        spaces = import_optional("gymnasium.spaces", "spaces need Gymnasium", "gymnasium")
        self._space = space
        self._discrete = isinstance(space, spaces.Discrete)
        if not isinstance(
            space, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary | spaces.Box
        ):
            raise ValueError(
                f"action_space: expected a Discrete, MultiDiscrete, MultiBinary or Box, got {space}"
            )
        described: Any = space
        count = int(described.n if self._discrete else np.prod(described.shape))
        if count > MOST_ACTIONS:
            raise ValueError(f"action_space: expected at most {MOST_ACTIONS} actions, got {space}")
        if self._discrete:
            self._described = self._describe_discrete(count, list(names), keys)
        else:
            self._described = self._describe_vector()

    def describe(self) -> dict[str, Any]:
        """Return the controls as `hello` tells them."""
        return self._described

    def parse(self, value: Any) -> Any:
        """Return the action of a page's value, a number or a list of numbers.

        Raises:
            ValueError: It is not in the space.
        """
        dtype, shape = self._space.dtype, self._space.shape
        found = None
        try:
            given = np.asarray(value)
            if given.dtype.kind in "iuf" and dtype is not None:
                with np.errstate(all="ignore"):  # a number that is too large is not in the space
                    found = given.astype(dtype).reshape(shape or ())
                if dtype.kind in "iu" and not np.array_equal(found, given.reshape(found.shape)):
                    found = None
        except (TypeError, ValueError, OverflowError):
            found = None
        if isinstance(found, np.ndarray) and self._discrete:
            found = found[()]
        if found is None or not self._space.contains(found):
            raise ValueError(f"action: expected one of {self._space}, got {str(value)[:60]}")
        return found

    def _describe_discrete(
        self, count: int, names: list[str], keys: Mapping[Any, Any] | None
    ) -> dict[str, Any]:
        start = int(self._space.start)  # type: ignore[attr-defined]
        names = names if len(names) == count else [f"action {start + k}" for k in range(count)]
        if keys is None:
            by_keys = {codes: start + at for codes, at in default_keys(names).items()}
        else:
            by_keys = {codes: int(action) for codes, action in read_keys(keys).items()}
        first = 0 if start <= 0 < start + count else start
        self.default = self.parse(by_keys.get((), first))
        actions = [
            {
                "value": start + at,
                "name": names[at],
                "keys": [
                    list(codes) for codes, of in by_keys.items() if codes and of == start + at
                ],
            }
            for at in range(count)
        ]
        return {"kind": "buttons", "actions": actions, "default": int(self.default)}

    def _describe_vector(self) -> dict[str, Any]:
        space: Any = self._space
        kind = space.dtype.kind
        if hasattr(space, "nvec"):
            low = np.broadcast_to(space.start, space.shape)
            high = low + space.nvec - 1
        elif hasattr(space, "low"):
            low, high = space.low, space.high
        else:
            low, high = np.zeros(space.shape), np.ones(space.shape)
        low = np.where(np.isfinite(low), low, -_BOUND).astype(float)
        high = np.where(np.isfinite(high), high, _BOUND).astype(float)
        rest = np.clip(np.zeros_like(low), low, high)
        self.default = self.parse(rest.tolist())
        return {
            "kind": "sliders",
            "low": low.ravel().tolist(),
            "high": high.ravel().tolist(),
            "step": 1 if kind in "iub" else None,
            "default": rest.ravel().tolist(),
        }


def names_of_actions(env: Any) -> Sequence[str]:
    """Return the names of an environment's actions, or () if they are not known."""
    return names_of_hints(action_hints(env))


def names_of_hints(hints: Mapping[str, Any]) -> Sequence[str]:
    """Return the names of actions in hints of an environment, or () if they are not known."""
    return hints.get("names") or _NAMES.get(str(hints.get("title")), ())
