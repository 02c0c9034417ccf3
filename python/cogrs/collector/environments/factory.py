"""What makes environments: an id of Gymnasium's, a function, or where to import one."""

from __future__ import annotations

import importlib
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cogrs.collector.suggest import misspelt
from cogrs.optional_dependency import import_optional

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_IMPORTABLE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


@dataclass(frozen=True)
class Factory:
    """Makes environments, one after the other.

    Attributes:
        source: An id that `gymnasium.make` knows, `"package.module:function"`, or a callable.
        options: Keyword arguments of each call.
        known: Options of the caller, which one of those may be a misspelling of.
    """

    source: str | Callable[..., Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    known: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what makes nothing.

        Raises:
            TypeError: It is neither text nor a callable.
        """
        if hasattr(self.source, "observation_space") and not isinstance(self.source, type):
            raise TypeError(
                "env: expected what makes environments, got one: each game needs its own"
            )
        if not isinstance(self.source, str) and not callable(self.source):
            got = type(self.source).__name__
            raise TypeError(f"env: expected an id, 'module:function' or a callable, got {got}")

    @property
    def name(self) -> str:
        """What to call its games."""
        source = self.source
        return source if isinstance(source, str) else getattr(source, "__name__", repr(source))

    def __call__(self) -> Any:
        """Make one.

        Raises:
            ImportError: An id, and Gymnasium is not installed.
        """
        return self._called({})

    def make(self, game: int) -> Any:
        """Make that of a game. Gymnasium's check of what environments return is for the first.

        Raises:
            ImportError: An id, and Gymnasium is not installed.
        """
        checked = {} if game == 0 or not self._is_id() else {"disable_env_checker": True}
        return self._called(checked)

    def _called(self, more: Mapping[str, Any]) -> Any:
        try:
            return self._function()(**{**more, **self.options})
        except TypeError as error:
            hint = misspelt(error, self.options, self.known)
            if not hint:
                raise
            raise TypeError(f"{error}; {hint}") from error

    def _is_id(self) -> bool:
        return isinstance(self.source, str) and not _IMPORTABLE.fullmatch(self.source)

    def _function(self) -> Callable[..., Any]:
        if not isinstance(self.source, str):
            return self.source
        if _IMPORTABLE.fullmatch(self.source):
            return _imported(self.source)
        gymnasium = gymnasium_module()
        return lambda **options: gymnasium.make(self.source, **options)

    def as_json(self) -> str:
        """The same for another process, which imports it.

        Raises:
            ValueError: A function that cannot be imported by its name, or options that are no JSON.
        """
        try:
            return json.dumps({"source": self._importable(), "options": dict(self.options)})
        except TypeError as error:
            raise ValueError(
                f"processes: expected options of the environment that JSON has: {error}"
            ) from None

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
        """What `as_json` gave."""
        return cls(**json.loads(text))


def gymnasium_module() -> Any:
    """Gymnasium.

    Raises:
        ImportError: It is not installed.
    """
    return import_optional("gymnasium", "games in Python need Gymnasium", "gymnasium")


def _imported(where: str) -> Callable[..., Any]:
    module, _, path = where.partition(":")
    found: Any = importlib.import_module(module)
    for name in path.split("."):
        found = getattr(found, name)
    if not callable(found):
        raise TypeError(f"env: expected a callable at {where!r}, got {type(found).__name__}")
    return found  # type: ignore[no-any-return]
