"""Keys of Gymnasium's `keys_to_action`, as browsers name them: `KeyboardEvent.code`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_NAMED = {
    " ": "Space",
    "\r": "Enter",
    "\n": "Enter",
    "\t": "Tab",
    "\x1b": "Escape",
    "-": "Minus",
    "=": "Equal",
    ",": "Comma",
    ".": "Period",
    "/": "Slash",
    ";": "Semicolon",
    "'": "Quote",
    "[": "BracketLeft",
    "]": "BracketRight",
}
_PYGAME = {
    1073741903: "ArrowRight",
    1073741904: "ArrowLeft",
    1073741905: "ArrowDown",
    1073741906: "ArrowUp",
    1073742048: "ControlLeft",
    1073742049: "ShiftLeft",
    1073742050: "AltLeft",
}
"""pygame's numbers of keys that are not characters."""

_ARROWS = {"left": "ArrowLeft", "right": "ArrowRight", "up": "ArrowUp", "down": "ArrowDown"}
_LETTERS = {"left": "KeyA", "right": "KeyD", "up": "KeyW", "down": "KeyS"}
_MOST_DIGITS = 10


def key_code(key: str | int) -> str:
    """Return the code of a key: a character, a number of pygame's, or a code already.

    Raises:
        ValueError: It is not a key.
    """
    if isinstance(key, int):
        if key in _PYGAME:
            return _PYGAME[key]
        if not 0 <= key < 128:
            raise ValueError(f"keys_to_action: expected a key, got {key}")
        key = chr(key)
    if len(key) == 1:
        if key.isascii() and key.isalpha():
            return f"Key{key.upper()}"
        if key.isascii() and key.isdigit():
            return f"Digit{key}"
        if key in _NAMED:
            return _NAMED[key]
    elif key.lower() in _ARROWS:
        return _ARROWS[key.lower()]
    elif key.isalnum():
        return key
    raise ValueError(f"keys_to_action: expected a key, got {key!r}")


def read_keys(given: Mapping[Any, Any]) -> dict[tuple[str, ...], Any]:
    """Return actions by combinations of codes, sorted; those without a key are by `()`.

    Raises:
        ValueError: A key is unknown.
    """
    found = {}
    for keys, action in given.items():
        parts: Iterable[Any] = () if keys is None else (keys if _is_group(keys) else (keys,))
        found[tuple(sorted(key_code(key) for key in parts if key is not None))] = action
    return found


def _is_group(keys: Any) -> bool:
    # A text of several characters is a combination of them, as for Gymnasium.
    return isinstance(keys, tuple | list | frozenset) or (isinstance(keys, str) and len(keys) != 1)


def default_keys(names: list[str]) -> dict[tuple[str, ...], int]:
    """Return keys for actions of these names: arrows and letters by direction, or digits."""
    found: dict[tuple[str, ...], int] = {}
    for action, name in enumerate(names):
        words = name.lower().split()
        for table in (_ARROWS, _LETTERS):
            codes = [table[word] for word in words if word in table]
            if codes and len(codes) == len(words):
                found[tuple(sorted(codes))] = action
        if words in (["fire"], ["main", "engine"], ["jump"]):
            found[("Space",)] = action
    for action in range(min(len(names), _MOST_DIGITS)):
        found[(f"Digit{action}",)] = action
    return found
