"""Gymnasium spaces as JSON, without pickle, and back: equal to the bit.

Text may come from anybody, so sizes and depth are bounded before anything is made.
"""

from __future__ import annotations

import base64
import json
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cogrs.dtypes import dtype_of, dtype_text
from cogrs.limits import SPACES_BYTES, SPACES_DEPTH
from cogrs.optional_dependency import import_optional
from cogrs.shown import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import gymnasium
    import numpy.typing as npt


class ActorSpaces(NamedTuple):
    """The environment's own Gymnasium spaces of an actor.

    Fields:
        observation: Of what the actor observes.
        action: Of its actions.
    """

    observation: gymnasium.Space[Any]
    action: gymnasium.Space[Any]


def actor_spaces_to_json(
    spaces: Mapping[str, ActorSpaces], hints: Mapping[str, Any] | None = None
) -> str:
    """Return the spaces of actors, by name, as text; "" for no actors.

    Args:
        spaces: The spaces.
        hints: What people are told of an actor's actions, as JSON: see `action_hints_from_json`.

    Raises:
        TypeError: A space is not one of Gymnasium's own.
        ValueError: The text would exceed a limit.
    """
    if not spaces:
        return ""
    kept: dict[str, int] = {}
    actors = {
        name: [
            kept.setdefault(json.dumps(_described(each, f"space of {name!r}")), len(kept))
            for each in pair
        ]
        for name, pair in spaces.items()
    }
    content = {"spaces": [json.loads(each) for each in kept], "actors": actors}
    text = json.dumps(content | ({"hints": dict(hints)} if hints else {}))
    if len(text) > SPACES_BYTES:
        raise ValueError(f"spaces: expected at most {SPACES_BYTES} bytes as text, got {len(text)}")
    return text


def actor_spaces_from_json(text: str) -> dict[str, ActorSpaces]:
    """Return what `actor_spaces_to_json` was given.

    Raises:
        ImportError: Gymnasium is not installed.
        ValueError: The text is not one of that function, or exceeds a limit.
    """
    if not text:
        return {}
    try:
        content = _parsed(text)
        made = [_space(each, 0) for each in content["spaces"]]
        return {
            str(name): ActorSpaces(made[int(seen)], made[int(done)])
            for name, (seen, done) in content["actors"].items()
        }
    except ImportError:
        raise
    except Exception as error:
        # Gymnasium's spaces raise whatever their own checks raise: AssertionError among them.
        raise ValueError(f"spaces: expected spaces of actors as JSON: {shown(error)}") from error


def action_hints_from_json(text: str, actor: str) -> Mapping[str, Any]:
    """Return the hints of an actor that `actor_spaces_to_json` was given; empty without any.

    Raises:
        ValueError: The text is damaged, or exceeds a limit.
    """
    try:
        hints = _parsed(text).get("hints", {}).get(actor, {})
    except (AttributeError, RecursionError, ValueError) as error:
        raise ValueError(f"hints: expected those of actors as JSON: {shown(error)}") from error
    if not isinstance(hints, dict):
        raise ValueError(f"hints: expected an object, got {shown(hints)}")
    return hints


def space_to_json(space: gymnasium.Space[Any]) -> str:
    """Return a space as text.

    Raises:
        TypeError: It is not one of Gymnasium's own.
    """
    return json.dumps(_described(space, "space"))


def space_from_json(text: str) -> gymnasium.Space[Any]:
    """Return the space of a text of `space_to_json`; errors are those of actors' spaces."""
    return actor_spaces_from_json(f'{{"spaces": [{text}], "actors": {{"": [0, 0]}}}}')[""][0]


def _parsed(text: str) -> Any:
    if len(text) > SPACES_BYTES:
        raise ValueError(f"expected at most {SPACES_BYTES} bytes, got {len(text)}")
    return json.loads(text)


def _described(space: Any, name: str) -> dict[str, Any]:
    spaces = import_optional("gymnasium.spaces", "spaces need Gymnasium", "gymnasium")
    kind = type(space)
    if kind is spaces.Box:
        return {"kind": "Box", "low": _array(space.low), "high": _array(space.high)}
    if kind is spaces.Discrete:
        dtype = dtype_text(np.dtype(space.dtype), name)
        return {"kind": "Discrete", "n": int(space.n), "start": int(space.start), "dtype": dtype}
    if kind is spaces.MultiDiscrete:
        dtype = dtype_text(np.dtype(space.dtype), name)
        return {
            "kind": "MultiDiscrete",
            "nvec": _array(space.nvec),
            "start": _array(space.start),
            "dtype": dtype,
        }
    if kind is spaces.MultiBinary:
        return {"kind": "MultiBinary", "shape": list(space.shape)}
    if kind is spaces.Text:
        return {
            "kind": "Text",
            "min": space.min_length,
            "max": space.max_length,
            "characters": "".join(space.character_list),
        }
    if kind is spaces.Dict:
        parts = [[_key(key, name), _described(each, name)] for key, each in space.spaces.items()]
        return {"kind": "Dict", "parts": parts}
    if kind in (spaces.Tuple, spaces.OneOf):
        return {
            "kind": kind.__name__,
            "parts": [_described(each, name) for each in space.spaces],
        }
    if kind is spaces.Sequence:
        part = _described(space.feature_space, name)
        return {"kind": "Sequence", "part": part, "stack": bool(space.stack)}
    if kind is spaces.Graph:
        edge = space.edge_space
        return {
            "kind": "Graph",
            "node": _described(space.node_space, name),
            "edge": None if edge is None else _described(edge, name),
        }
    raise TypeError(f"{name}: expected one of Gymnasium's own spaces, got {kind.__name__}")


def _key(key: Any, name: str) -> str | int:
    if isinstance(key, str) or type(key) is int:
        return key
    raise TypeError(f"{name}: expected keys that are text or integers, got {shown(key)}")


def _array(array: npt.NDArray[Any]) -> dict[str, Any]:
    """Return an array as JSON; where all its bytes repeat those of one element, that one."""
    data = np.asarray(array, order="C")
    first = data.reshape(-1)[:1].tobytes()
    whole = data.tobytes()
    kept = first if first * data.size == whole else whole
    return {
        "dtype": dtype_text(data.dtype, "array"),
        "shape": list(data.shape),
        "data": base64.b64encode(kept).decode(),
    }


def _space(told: Any, depth: int) -> Any:
    if depth > SPACES_DEPTH:
        raise ValueError(f"expected at most {SPACES_DEPTH} levels of spaces")
    kind = told["kind"]
    if kind not in _MAKERS:
        raise ValueError(f"expected a space of {', '.join(_MAKERS)}; got {shown(kind)}")
    spaces = import_optional("gymnasium.spaces", "spaces need Gymnasium", "gymnasium")
    return _MAKERS[kind](spaces, told, depth + 1)


def _box(spaces: Any, told: Any, _depth: int) -> Any:
    low, high = _read_array(told["low"]), _read_array(told["high"])
    return spaces.Box(low, high, low.shape, low.dtype.type)


def _discrete(spaces: Any, told: Any, _depth: int) -> Any:
    dtype = dtype_of(told["dtype"], "dtype").type
    try:
        return spaces.Discrete(told["n"], start=told["start"], dtype=dtype)
    except TypeError:  # older ones have int64 only, and take no dtype
        return spaces.Discrete(told["n"], start=told["start"])


def _multi_discrete(spaces: Any, told: Any, _depth: int) -> Any:
    dtype = dtype_of(told["dtype"], "dtype").type
    return spaces.MultiDiscrete(_read_array(told["nvec"]), dtype, start=_read_array(told["start"]))


def _multi_binary(spaces: Any, told: Any, _depth: int) -> Any:
    shape = told["shape"]
    return spaces.MultiBinary(shape[0] if len(shape) == 1 else shape)


def _text(spaces: Any, told: Any, _depth: int) -> Any:
    return spaces.Text(told["max"], min_length=told["min"], charset=told["characters"])


def _dict(spaces: Any, told: Any, depth: int) -> Any:
    return spaces.Dict({key: _space(each, depth) for key, each in told["parts"]})


def _tuple(spaces: Any, told: Any, depth: int) -> Any:
    return spaces.Tuple([_space(each, depth) for each in told["parts"]])


def _one_of(spaces: Any, told: Any, depth: int) -> Any:
    return spaces.OneOf([_space(each, depth) for each in told["parts"]])


def _sequence(spaces: Any, told: Any, depth: int) -> Any:
    return spaces.Sequence(_space(told["part"], depth), stack=told["stack"])


def _graph(spaces: Any, told: Any, depth: int) -> Any:
    edge = told["edge"]
    return spaces.Graph(_space(told["node"], depth), None if edge is None else _space(edge, depth))


_MAKERS: dict[str, Callable[[Any, Any, int], Any]] = {
    "Box": _box,
    "Discrete": _discrete,
    "MultiDiscrete": _multi_discrete,
    "MultiBinary": _multi_binary,
    "Text": _text,
    "Dict": _dict,
    "Tuple": _tuple,
    "OneOf": _one_of,
    "Sequence": _sequence,
    "Graph": _graph,
}


def _read_array(told: Any) -> npt.NDArray[Any]:
    dtype, shape = dtype_of(told["dtype"], "dtype"), tuple(map(int, told["shape"]))
    data = base64.b64decode(told["data"], validate=True)
    count = math.prod(shape)
    if min(shape, default=0) < 0 or count * dtype.itemsize > SPACES_BYTES:
        raise ValueError(f"expected an array of at most {SPACES_BYTES} bytes, got {shown(shape)}")
    if len(data) == dtype.itemsize and count:
        data *= count
    return np.frombuffer(data, dtype).reshape(shape).copy()
