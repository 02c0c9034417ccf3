"""Spaces of Gymnasium as keys of a game."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cogrs.action_mask import ACTION_MASK, MaskLayout
from cogrs.collector.description import RESERVED, GameSpec
from cogrs.collector.environments.agent_game import AgentGame
from cogrs.collector.environments.env_api import check_env
from cogrs.collector.environments.factory import gymnasium_module
from cogrs.dtypes import dtype_of, dtype_text
from cogrs.info_key import InfoKey, info_keys_of
from cogrs.spaces import array_of, parts_of, reward_shape_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt


PLAYER = "player"
"""The key of the number of the agent that a state is for; the name of the only player."""


@dataclass(frozen=True)
class ObservationPart:
    """One array of an observation.

    Attributes:
        key: Its key in a batch.
        path: How to get there from the observation: keys of dicts, positions in tuples.
        dtype: The dtype's text.
        shape: Its shape.
        is_text: Whether it is text, as code points with zeros after its end.
    """

    key: str
    path: tuple[str | int, ...]
    dtype: str
    shape: tuple[int, ...]
    is_text: bool = False


@dataclass(frozen=True)
class EnvSpaces:
    """Actions and observations of an environment.

    Attributes:
        parts: The arrays of an observation.
        dtype: dtype of an action, as text.
        shape: Shape of an action.
        num_action: Number of discrete actions, or the length of one action.
        start: The first of numbered actions.
        count: The number of numbered actions; 0 where they are not numbered.
        mask: The layout of `info["action_mask"]`; None if the action space takes no mask.
        infos: Values of infos that batches show.
    """

    parts: tuple[ObservationPart, ...]
    dtype: str
    shape: tuple[int, ...]
    num_action: int
    start: int = 0
    count: int = 0
    mask: MaskLayout | None = None
    infos: tuple[InfoKey, ...] = ()
    reward_shape: tuple[int, ...] = ()
    agents: tuple[str, ...] = ()

    def game_spec(self) -> GameSpec:
        """Return keys and action of a game that is such an environment."""
        keys = {part.key: (dtype_of(part.dtype), part.shape) for part in self.parts}
        if self.mask is not None:
            keys.setdefault(ACTION_MASK, (np.dtype(np.int8), (self.mask.size,)))
        keys |= {info.key: (dtype_of(info.dtype), info.shape) for info in self.infos}
        if self.agents:
            keys[PLAYER] = (np.dtype(np.int32), ())
        return GameSpec(
            keys,
            (dtype_of(self.dtype), self.shape),
            self.num_action,
            self.agents or (PLAYER,),
            has_agents=bool(self.agents),
            reward_shape=self.reward_shape,
        )

    def rows(self, name: str) -> tuple[Any, ...]:
        """Return what makes the rows of a batch: of "observation_space" or "action_space"."""
        if name == "observation_space":
            return self.parts
        return self.dtype, self.shape, self.num_action, 0 if self.mask is None else self.mask.size

    def with_infos(self, info_keys: Mapping[str, Any]) -> EnvSpaces:
        """Return the same with these values of infos: a dtype by key, or dtype and shape.

        Raises:
            TypeError: `info_keys` is not a mapping from names to these.
            ValueError: A key is reserved, or a part of the observation.
        """
        taken = {*RESERVED, ACTION_MASK, *(part.key for part in self.parts)}
        taken |= {PLAYER} if self.agents else set()

        def is_taken(key: str) -> bool:
            return key in taken or key.startswith("_")

        return replace(self, infos=info_keys_of(info_keys, is_taken, "in a batch"))

    def illegal(self, actions: npt.NDArray[Any]) -> dict[int, str]:
        """Return an error text for each row whose action is not in a space of numbers."""
        if not self.count:
            return {}
        end = self.start + self.count
        wrong = np.flatnonzero((actions < self.start) | (actions >= end))
        expected = f"a: expected an integer in [{self.start}, {end})"
        return {row: f"{expected}, got {actions[row]}" for row in wrong.tolist()}

    def as_json(self) -> dict[str, Any]:
        """Return it for another process."""
        return asdict(self)

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> EnvSpaces:
        """Create it from the result of `as_json`, after JSON."""
        parts = [
            ObservationPart(**{**each, "path": tuple(each["path"]), "shape": tuple(each["shape"])})
            for each in given.pop("parts")
        ]
        infos = tuple(
            InfoKey(each["key"], each["dtype"], tuple(each["shape"])) for each in given.pop("infos")
        )
        mask = given.pop("mask")
        layout = None if mask is None else MaskLayout.from_json(mask)
        for name in ("shape", "reward_shape", "agents"):
            given[name] = tuple(given[name])
        return cls(tuple(parts), mask=layout, infos=infos, **given)


def spaces_of(env: Any) -> EnvSpaces:
    """Return the spaces of an environment.

    Raises:
        TypeError: It is not an environment, or a space does not consist of arrays.
        ValueError: A part of the observation space has a reserved key, or that of another part; or
            the spaces of two agents differ.
    """
    if isinstance(env, AgentGame):
        return _spaces_of_agents(env)
    check_env(env)
    found = _spaces_of(env.observation_space, env.action_space)
    return replace(found, reward_shape=reward_shape_of(env))


def _spaces_of(observation_space: Any, action_space: Any, *more_reserved: str) -> EnvSpaces:
    parts = _parts(observation_space, ())
    _refuse_collisions(parts)
    for part in parts:
        if part.key in RESERVED or part.key.startswith("_") or part.key in more_reserved:
            raise ValueError(
                f"observation_space: {part.key!r} has another meaning in a batch: rename that part"
            )
    return EnvSpaces(tuple(parts), **_action(action_space))


def _spaces_of_agents(game: AgentGame) -> EnvSpaces:
    """Return the spaces of all agents, which are arrays of the same dtypes and shapes."""
    env, found = game.env, []
    for agent in game.agents:
        try:
            found.append(_spaces_of(env.observation_space(agent), env.action_space(agent), PLAYER))
        except (TypeError, ValueError) as error:
            raise type(error)(f"agent {agent!r}: {error}") from error
    first = found[0]
    for name in ("observation_space", "action_space"):
        for agent, each in zip(game.agents, found, strict=True):
            if each.rows(name) != first.rows(name):
                spaces = f"{getattr(env, name)(game.agents[0])}, got {getattr(env, name)(agent)}"
                raise ValueError(
                    f"{name}: expected arrays as of agent {game.agents[0]!r}, {spaces} of "
                    f"{agent!r}: a wrapper can pad them, such as those of SuperSuit"
                )
    # Each agent's numbers are checked by the game.
    return replace(first, start=0, count=0, agents=game.names, reward_shape=reward_shape_of(env))


def _parts(space: Any, path: tuple[str | int, ...]) -> list[ObservationPart]:
    inner = parts_of(space)
    if inner is not None:
        named = inner.items() if isinstance(inner, dict) else enumerate(inner)
        return [part for key, each in named for part in _parts(each, (*path, key))]
    key = ".".join(map(str, path)) or "s"
    if isinstance(space, gymnasium_module().spaces.Text):
        codes = dtype_text(np.dtype(np.uint32))
        return [ObservationPart(key, path, codes, (space.max_length,), is_text=True)]
    try:
        dtype, shape = array_of(space, f"observation_space{_described(path)}")
    except TypeError as error:
        raise TypeError(f"{error}; a wrapper can encode it as arrays") from None
    return [ObservationPart(key, path, dtype_text(dtype), shape)]


def _refuse_collisions(parts: list[ObservationPart]) -> None:
    known: dict[str, ObservationPart] = {}
    for part in parts:
        first = known.setdefault(part.key, part)
        if first is not part:
            raise ValueError(
                "observation_space: expected parts with different keys, got "
                f"{_described(first.path)} and {_described(part.path)}, which are both "
                f"{part.key!r} in a batch: rename one"
            )


def _described(path: tuple[str | int, ...]) -> str:
    return "".join(f"[{part!r}]" for part in path)


def _action(space: Any) -> dict[str, Any]:
    spaces = gymnasium_module().spaces
    if isinstance(space, spaces.Discrete):
        count = int(space.n)
        numbers = {"num_action": count, "start": int(space.start), "count": count}
        kind = {"dtype": np.dtype(np.int64).str, "shape": (), **numbers}
        return {**kind, "mask": MaskLayout.of(space)}
    kind = {"dtype": dtype_text(np.dtype(space.dtype)) if space.dtype else "", "shape": space.shape}
    if isinstance(space, spaces.MultiDiscrete):
        return {**kind, "num_action": int(np.sum(space.nvec)), "mask": MaskLayout.of(space)}
    if isinstance(space, spaces.MultiBinary):
        return {**kind, "num_action": math.prod(space.shape), "mask": MaskLayout.of(space)}
    if isinstance(space, spaces.Box):
        return {**kind, "num_action": math.prod(space.shape)}
    raise TypeError(
        f"action_space: expected Discrete, MultiDiscrete, MultiBinary or Box, got {space}"
    )


def json_line(value: Any) -> bytes:
    """Return a value as a line of JSON."""
    return json.dumps(value).encode() + b"\n"
