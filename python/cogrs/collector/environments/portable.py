"""Values as bytes for another process: numbers, text, containers, arrays and spaces.

A tree in JSON, in which everything that JSON does not have is a list that begins with its kind,
and after it the bytes of arrays. Types are preserved: a tuple stays a tuple, a float32 a float32.
"""

from __future__ import annotations

import json
import math
from collections import OrderedDict, deque
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

_PLAIN = frozenset({type(None), bool, int, float, str})
_CONTAINERS: dict[str, type[Any]] = {each.__name__: each for each in (list, tuple, set, frozenset)}
_GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
_KINDS = "?biufcmMSU"
"""Kinds of dtypes whose arrays are their bytes."""
_NUMBERS = "?biufc"
"""Those of them whose numbers have a dtype by their type alone."""


def to_bytes(value: Any) -> bytes:
    """Return a value as bytes; TypeError for one of another type, which it names."""
    blocks: list[bytes] = []
    text = json.dumps(_packed(value, blocks)).encode()
    return b"".join([len(text).to_bytes(8, "little"), text, *blocks])


def from_bytes(given: bytes | memoryview) -> Any:
    """Return the value of `to_bytes`; arrays in it can be written to."""
    end = 8 + int.from_bytes(given[:8], "little")
    return _Reader(memoryview(given)[end:]).unpacked(json.loads(bytes(given[8:end])))


def space_is_portable(space: Any) -> bool:
    """Return whether the values of a space are arrays, and containers of them."""
    try:
        to_bytes(space)
    except TypeError:
        return False
    return True


def _packed(value: Any, blocks: list[bytes]) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is dict:
        if all(type(key) is str for key in value):
            return {key: _packed(each, blocks) for key, each in value.items()}
        return ["dict", *([_packed(each, blocks) for each in pair] for pair in value.items())]
    if kind is list or kind is tuple:
        return _packed_sequence(kind.__name__, value, blocks)
    if kind is set or kind is frozenset:
        return [kind.__name__, *(_packed(each, blocks) for each in value)]
    if kind is np.ndarray:
        return _packed_array(value, blocks)
    if isinstance(value, np.generic) and value.dtype.kind in _KINDS:
        # Empty text of NumPy's has no width, and yet has bytes.
        blocks.append(value.tobytes()[: value.dtype.itemsize])
        return ["number", value.dtype.str]
    pack = _PACKERS.get(kind)
    if pack is None:
        raise TypeError(f"expected numbers, text, arrays, spaces or containers, got {value!r:.80}")
    return [kind.__name__, *(_packed(each, blocks) for each in pack(value))]


def _packed_sequence(name: str, value: list[Any] | tuple[Any, ...], blocks: list[bytes]) -> Any:
    """Pack a sequence; values of one kind, such as those of several environments, in one go."""
    kinds = set(map(type, value))
    if kinds <= _PLAIN:
        return ["plain", name, value]
    if kinds == {np.ndarray}:
        shape, dtype = value[0].shape, value[0].dtype
        if dtype.kind in _KINDS and all(
            each.shape == shape and each.dtype == dtype for each in value
        ):
            blocks.extend(each.tobytes() for each in value)
            return ["rows", name, dtype.str, [len(value), *shape]]
    kind = kinds.pop()
    if not kinds and issubclass(kind, np.generic) and np.dtype(kind).kind in _NUMBERS:
        # Such as the actions of several environments.
        blocks.append(np.array(value).tobytes())
        return ["numbers", name, np.dtype(kind).str, len(value)]
    return [name, *(_packed(each, blocks) for each in value)]


def _packed_array(array: Any, blocks: list[bytes]) -> Any:
    if array.dtype == object:
        return ["objects", list(array.shape), *(_packed(each, blocks) for each in array.flat)]
    if array.dtype.kind not in _KINDS:
        raise TypeError(f"expected an array of numbers or text, got one of {array.dtype}")
    blocks.append(array.tobytes())
    return ["array", array.dtype.str, list(array.shape)]


class _Reader:
    """Reads the bytes of arrays one after the other."""

    def __init__(self, blocks: memoryview) -> None:
        self._blocks = blocks

    def _take(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
        size = dtype.itemsize * math.prod(shape)
        block, self._blocks = self._blocks[:size], self._blocks[size:]
        # Not np.empty, which makes text of no width one wide.
        array: Any = np.ndarray(shape, dtype)
        if size:
            array[...] = np.ndarray(shape, dtype, block)
        return array

    def unpacked(self, packed: Any) -> Any:
        if isinstance(packed, dict):
            return {key: self.unpacked(each) for key, each in packed.items()}
        if not isinstance(packed, list):
            return packed
        kind, *parts = packed
        if kind == "number":
            return self._take(np.dtype(parts[0]), ())[()]
        if kind == "array":
            return self._take(np.dtype(parts[0]), tuple(parts[1]))
        if kind == "plain":
            name, values = parts
            return _CONTAINERS[name](values)
        if kind == "numbers":
            name, dtype, count = parts
            return _CONTAINERS[name](self._take(np.dtype(dtype), (count,)))
        if kind == "rows":
            name, dtype, shape = parts
            array = self._take(np.dtype(dtype), tuple(shape))
            return _CONTAINERS[name](array[at, ...] for at in range(len(array)))
        if kind == "objects":
            shape, *each = parts
            array = np.empty(math.prod(shape), object)
            array[:] = [self.unpacked(value) for value in each]
            return array.reshape(shape)
        if kind == "dict":
            return {self.unpacked(key): self.unpacked(value) for key, value in parts}
        values = [self.unpacked(part) for part in parts]
        return _CONTAINERS[kind](values) if kind in _CONTAINERS else _MAKERS[kind](*values)


def _generator(name: str, state: dict[str, Any]) -> np.random.Generator:
    if name not in _GENERATORS:
        raise TypeError(f"expected a generator of {_GENERATORS}, got {name}")
    bits = getattr(np.random, name)()
    bits.state = state
    return np.random.Generator(bits)


_PACKERS: dict[type[Any], Any] = {
    bytes: lambda value: [np.frombuffer(value, np.uint8)],
    complex: lambda value: [value.real, value.imag],
    deque: lambda value: [list(value), value.maxlen],
    OrderedDict: lambda value: [dict(value)],
    np.random.Generator: lambda value: [
        type(value.bit_generator).__name__,
        value.bit_generator.state,
    ],
    EnvSpec: lambda value: [value.to_json()],
    spaces.Box: lambda space: [space.low, space.high, space.shape, space.dtype.str],
    spaces.Discrete: lambda space: [int(space.n), int(space.start), space.dtype.str],
    spaces.MultiBinary: lambda space: [
        tuple(space.shape) if isinstance(space.n, tuple | list) else int(space.n)
    ],
    spaces.MultiDiscrete: lambda space: [space.nvec, space.dtype.str, space.start],
    spaces.Dict: lambda space: [list(space.items())],
    spaces.Tuple: lambda space: [list(space.spaces)],
}
"""The parts of values of these types, from which `_MAKERS` make them again."""

_MAKERS: dict[str, Any] = {
    "bytes": lambda array: array.tobytes(),
    "complex": complex,
    "deque": deque,
    "OrderedDict": OrderedDict,
    "Generator": _generator,
    "EnvSpec": EnvSpec.from_json,
    "Box": lambda low, high, shape, dtype: spaces.Box(low, high, shape, np.dtype(dtype).type),
    "Discrete": lambda n, start, dtype: _discrete(n, start, np.dtype(dtype)),
    "MultiBinary": spaces.MultiBinary,
    "MultiDiscrete": lambda nvec, dtype, start: spaces.MultiDiscrete(nvec, dtype, start=start),
    "Dict": lambda items: spaces.Dict(OrderedDict(items)),
    "Tuple": spaces.Tuple,
}


def _discrete(n: int, start: int, dtype: np.dtype[Any]) -> spaces.Discrete:
    # Only new versions of Gymnasium have another dtype than this.
    more: Any = {} if dtype == np.int64 else {"dtype": dtype.type}
    return spaces.Discrete(n, start=start, **more)
