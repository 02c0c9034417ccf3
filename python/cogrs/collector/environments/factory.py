"""Creates environments by an id of Gymnasium, a callable, or the name of one."""

from __future__ import annotations

import importlib
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cogrs.optional_dependency import import_optional
from cogrs.suggest import misspelt

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_IMPORTABLE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


@dataclass(frozen=True)
class Factory:
    """Creates environments, one after the other.

    Attributes:
        source: An id that `gymnasium.make` knows, `"package.module:function"`, or a callable.
        options: Keyword arguments of each call.
        known: The caller's own options, for suggestions where an option is misspelt.
    """

    source: str | Callable[..., Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    known: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise a TypeError if `source` is neither text nor a callable."""
        if hasattr(self.source, "observation_space") and not isinstance(self.source, type):
            raise TypeError(
                "env: expected an id or a callable that creates environments, got an environment: "
                "each game needs its own"
            )
        if not isinstance(self.source, str) and not callable(self.source):
            got = type(self.source).__name__
            raise TypeError(f"env: expected an id, 'module:function' or a callable, got {got}")

    @property
    def name(self) -> str:
        """The name of its games."""
        source = self.source
        return source if isinstance(source, str) else getattr(source, "__name__", repr(source))

    def __call__(self) -> Any:
        """Create an environment; ImportError for an id where Gymnasium is not installed."""
        return self._create({})

    def make(self, game: int) -> Any:
        """Create the environment of a game; Gymnasium's checker is only for the first."""
        is_id = isinstance(self.source, str) and not _IMPORTABLE.fullmatch(self.source)
        return self._create({"disable_env_checker": True} if is_id and game else {})

    def _create(self, more: Mapping[str, Any]) -> Any:
        try:
            return self._function()(**{**more, **self.options})
        except TypeError as error:
            hint = misspelt(error, self.options, self.known)
            if not hint:
                raise
            raise TypeError(f"{error}; {hint}") from error

    def _function(self) -> Callable[..., Any]:
        if not isinstance(self.source, str):
            return self.source
        if _IMPORTABLE.fullmatch(self.source):
            return _imported(self.source)
        gymnasium = gymnasium_module()
        return lambda **options: gymnasium.make(self.source, **options)

    def as_json(self) -> str:
        """Return it as text for another process.

        Raises:
            ValueError: The callable cannot be imported by a name, or JSON has no such options.
        """
        try:
            return json.dumps({"source": self._importable(), "options": dict(self.options)})
        except TypeError as error:
            raise ValueError(f"processes: expected options that JSON can hold: {error}") from None

    def _importable(self) -> str:
        if isinstance(self.source, str):
            return self.source
        where = (
            f"{getattr(self.source, '__module__', '')}:{getattr(self.source, '__qualname__', '')}"
        )
        if _IMPORTABLE.fullmatch(where) and not where.startswith("__main__:"):
            return where
        raise ValueError(
            "processes: expected an id, 'module:function', or a function of a module that other "
            f"processes can import, got {self.source!r}"
        )

    @classmethod
    def from_json(cls, text: str) -> Factory:
        """Create it from the result of `as_json`."""
        return cls(**json.loads(text))


def gymnasium_module() -> Any:
    """Import and return Gymnasium; ImportError if it is not installed."""
    return import_optional("gymnasium", "games in Python need Gymnasium", "gymnasium")


def _imported(where: str) -> Callable[..., Any]:
    module, _, path = where.partition(":")
    found: Any = importlib.import_module(module)
    for name in path.split("."):
        found = getattr(found, name)
    if not callable(found):
        raise TypeError(f"env: expected a callable at {where!r}, got {type(found).__name__}")
    return found  # type: ignore[no-any-return]
